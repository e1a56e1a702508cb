package realzk

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/proxy"
)

// Authority signs certificates that no program outside the test trusts.
type Authority struct {
	Pool *x509.CertPool // has only its own certificate
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
}

// NewAuthority creates an Authority.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{Pool: x509.NewCertPool(), key: newKey(tb)}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.der = a.sign(tb, a.cert, a.key)
	cert, err := x509.ParseCertificate(a.der)
	if err != nil {
		tb.Fatal(err)
	}
	a.cert = cert
	a.Pool.AddCert(cert)
	return a
}

// Certificate returns the authority's certificate, in DER.
func (a *Authority) Certificate() []byte { return a.der }

// Issue creates a certificate for a name, for servers and clients.
func (a *Authority) Issue(tb testing.TB, name string, until time.Time) tls.Certificate {
	tb.Helper()
	key := newKey(tb)
	der := a.sign(tb, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: a.cert.NotBefore, NotAfter: until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *Authority) sign(tb testing.TB, cert *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		tb.Fatal(err)
	}
	return der
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// Secure is a server with a second port for TLS.
type Secure struct {
	*Server
	TLSAddr string // localhost and the port
}

// StandaloneTLS returns a server for this test alone. On TLSAddr clients receive cert, which must
// be issued for localhost to be valid. Clients' certificates must be from the same authority. They
// are required only if Options.Config sets "ssl.clientAuth" so.
func StandaloneTLS(tb testing.TB, a *Authority, cert tls.Certificate, opts Options) *Secure {
	tb.Helper()
	store := a.store(tb, cert)
	ports, err := proxy.FreePorts(1)
	if err != nil {
		tb.Fatal(err)
	}
	port := strconv.Itoa(ports[0])
	config := map[string]string{
		"serverCnxnFactory":              "org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPort":               port,
		"secureClientPortAddress":        proxy.Host,
		"authProvider.1":                 "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
		"ssl.keyStore.location":          store,
		"ssl.keyStore.type":              "PEM",
		"ssl.trustStore.location":        store,
		"ssl.trustStore.type":            "PEM",
		"ssl.clientAuth":                 "want",
		"ssl.clientHostnameVerification": "false", // our clients' certificates have users' names
	}
	maps.Copy(config, opts.Config)
	opts.Config = config
	opts.JVM = append(netty(), opts.JVM...)
	return &Secure{Standalone(tb, opts), "localhost:" + port}
}

// store writes the PEM file that ZooKeeper uses as key store and trust store.
func (a *Authority) store(tb testing.TB, cert tls.Certificate) string {
	tb.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		tb.Fatal(err)
	}
	var b bytes.Buffer
	for _, block := range []*pem.Block{
		{Type: "PRIVATE KEY", Bytes: key}, {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, {Type: "CERTIFICATE", Bytes: a.der},
	} {
		if err := pem.Encode(&b, block); err != nil {
			tb.Fatal(err)
		}
	}
	file := filepath.Join(tb.TempDir(), "store.pem")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// netty returns the arguments for a server with TLS. The class path of Debian's package lacks a
// part of netty. Classes on the boot class path cannot load classes from the class path, so all of
// netty is put there.
func netty() []string {
	jars, _ := filepath.Glob("/usr/share/java/netty-*.jar")
	jars = slices.DeleteFunc(jars, func(jar string) bool { return strings.HasSuffix(jar, "netty-all.jar") })
	if len(jars) == 0 || os.Getenv("ZK_HOME") != "" || os.Getenv("ZOOKEEPER_HOME") != "" {
		return nil
	}
	return []string{"-Xbootclasspath/a:" + strings.Join(jars, string(os.PathListSeparator))}
}
