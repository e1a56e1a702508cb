package zkconn_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/link"
	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/zkconn"
)

// authority makes a throw-away CA, and a key and certificate of it for one host name, in the PEM file that ZooKeeper reads.
func authority(t *testing.T, name string) (pool *x509.CertPool, keyStore string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	check(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	check(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)

	var store bytes.Buffer
	for _, b := range []*pem.Block{
		{Type: "PRIVATE KEY", Bytes: keyDER}, {Type: "CERTIFICATE", Bytes: leafDER}, {Type: "CERTIFICATE", Bytes: caDER},
	} {
		check(pem.Encode(&store, b))
	}
	keyStore = filepath.Join(t.TempDir(), "server.pem")
	check(os.WriteFile(keyStore, store.Bytes(), 0o600))
	pool = x509.NewCertPool()
	cert, err := x509.ParseCertificate(caDER)
	check(err)
	pool.AddCert(cert)
	return pool, keyStore
}

// netty is what to add to the command line of a server that is to speak TLS. The class path of Debian's package lacks a
// part of netty; a boot class path does not see the rest of it, so all of it goes there.
func netty() []string {
	jars, _ := filepath.Glob("/usr/share/java/netty-*.jar")
	jars = slices.DeleteFunc(jars, func(jar string) bool { return strings.HasSuffix(jar, "netty-all.jar") })
	if len(jars) == 0 || os.Getenv("ZK_HOME") != "" || os.Getenv("ZOOKEEPER_HOME") != "" {
		return nil
	}
	return []string{"-Xbootclasspath/a:" + strings.Join(jars, string(os.PathListSeparator))}
}

func TestTLS(t *testing.T) {
	pool, keyStore := authority(t, "localhost")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	zktest.Standalone(t, zktest.Options{JVM: netty(), Config: map[string]string{
		"serverCnxnFactory":       "org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPort":        port,
		"secureClientPortAddress": "127.0.0.1",
		"ssl.keyStore.location":   keyStore,
		"ssl.keyStore.type":       "PEM",
		"ssl.trustStore.location": keyStore,
		"ssl.trustStore.type":     "PEM",
		"ssl.clientAuth":          "none",
	}})
	config := &tls.Config{RootCAs: pool}

	// By name, which the stock client replaces by an address that no certificate has.
	conn := connect(t, 4*time.Second, []string{"localhost:" + port}, zkconn.WithTLS(config))
	call(t, conn, 2*time.Second)
	if !link.Of(conn).Alive(conn.SessionID()) {
		t.Error("the link does not know the session")
	}
	if config.ServerName != "" {
		t.Error("the caller's config was changed")
	}

	// By address, with the name in the config.
	named := config.Clone()
	named.ServerName = "localhost"
	call(t, connect(t, 4*time.Second, []string{"127.0.0.1:" + port}, zkconn.WithTLS(named)), 2*time.Second)

	for name, tc := range map[string]struct {
		server string
		config *tls.Config
		says   string
	}{
		"wrong name":        {"127.0.0.1:" + port, config, "certificate"},
		"unknown authority": {"localhost:" + port, nil, "unknown authority"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := zkconn.Connect(ctx, []string{tc.server}, 4*time.Second, zkconn.WithTLS(tc.config))
		cancel()
		if err == nil {
			conn.Close()
			t.Errorf("%s: connected", name)
		} else if !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
