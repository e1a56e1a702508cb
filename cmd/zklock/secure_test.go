package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// pki is an authority, and the files for the flags.
type pki struct {
	*realzk.Authority
	dir string
	ca  string // the authority's certificate
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{Authority: realzk.NewAuthority(t), dir: t.TempDir()}
	p.writeCA(t)
	return p
}

func (p *pki) writeCA(t *testing.T) {
	t.Helper()
	p.ca = p.file(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate()})))
}

func (p *pki) file(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(p.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// issue writes a certificate and its key to two files.
func (p *pki) issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	issued := p.Issue(t, name, time.Now().Add(time.Hour))
	der, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return p.file(t, name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued.Certificate[0]}))),
		p.file(t, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// secured starts a server in memory that uses TLS; if need is set it requires a client's
// certificate. The tests of internal/wire use real servers, too.
func secured(t *testing.T, need bool) (p *pki, server string) {
	p = newPKI(t)
	config := &tls.Config{
		Certificates: []tls.Certificate{p.Issue(t, "localhost", time.Now().Add(time.Hour))},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: p.Pool,
	}
	if need {
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return p, strings.Replace(loopback.ForTLS(t, config).Addr(), "127.0.0.1", "localhost", 1)
}

const password = "s3cret-of-ann"

func TestASecuredEnsemble(t *testing.T) {
	t.Parallel()
	p, server := secured(t, false)
	auth := p.file(t, "auth", "\nann:"+password+"\r\nops:of:all\n")
	flags := []string{"-servers", server + "/app", "-tls", "-ca", p.ca, "-auth-file", auth}
	variables := []string{"ZK_SERVERS=" + server + "/app", "ZK_TLS=1", "ZK_CA=" + p.ca, "ZK_AUTH_FILE=" + auth}
	with := func(command string, args ...string) []string {
		return append(append([]string{command}, flags...), args...)
	}
	var said []string

	h := start(t, "none", with("run", "/jobs/nightly", "--", "sh", "-c", "echo env $(env); read line")...)
	said = append(said, h.Hears("env"))
	if !strings.Contains(said[0], "ZKLOCK_PATH=/jobs/nightly ") {
		t.Errorf("the command's lock has the path behind the servers: %s", said[0])
	}
	for _, c := range []struct {
		name string
		env  []string
		args []string
		code int
		says string
	}{
		{"flags", nil, with("run", "-try", "/jobs/nightly", "--", "true"), exitBusy, "/jobs/nightly is taken"},
		{"variables", variables, []string{"run", "-try", "/jobs/nightly", "--", "true"}, exitBusy, "/jobs/nightly is taken"},
		{"ls", variables, []string{"ls", "/jobs/nightly"}, 0, "1 holding, 0 waiting"},
		{"no credentials", nil, []string{"run", "-try", "-servers", server + "/app", "-tls", "-ca", p.ca, "/jobs/nightly", "--", "true"},
			exitFailed, "/jobs/nightly"},
		{"ls without credentials", nil, []string{"ls", "-servers", server + "/app", "-tls", "-ca", p.ca, "/jobs/nightly"}, exitFailed, "not authenticated"},
		{"a wrong password", variables, []string{"run", "-try", "-auth-file", p.file(t, "wrong", "ann:not-"+password), "/jobs/nightly", "--", "true"},
			exitFailed, "/jobs/nightly"},
		{"another path", variables, []string{"run", "/jobs/other", "--", "true"}, 0, ""},
	} {
		code, text := prints(t, "none", c.env, c.args...)
		if code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: exit code %d, want %d, and %q:\n%s", c.name, code, c.code, c.says, text)
		}
		said = append(said, text)
	}
	closed(t, p, server, "/app/jobs/nightly")
	finish(t, h)

	all := strings.Join(said, "\n")
	if strings.Contains(all, password) || strings.Contains(all, "of:all") {
		t.Errorf("a password was shown:\n%s", all)
	}
}

// zklock does not use a server that it cannot trust, and the message says why.
func TestAServerThatCannotBeTrusted(t *testing.T) {
	t.Parallel()
	p, server := secured(t, false)
	byAddress := strings.Replace(server, "localhost", "127.0.0.1", 1)
	for _, c := range []struct {
		name  string
		flags []string
		says  string
	}{
		{"an unknown authority", []string{"-servers", server, "-tls"}, "unknown authority"},
		{"another name", []string{"-servers", byAddress, "-tls", "-ca", p.ca}, "certificate for 127.0.0.1"},
		{"no TLS at the client", []string{"-servers", server}, "TLS expected?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each tries for its whole timeout; on a busy machine a TLS handshake may take seconds
			code, text := prints(t, "none", nil, append(append([]string{"ls", "-session-timeout", "20s"}, c.flags...), "/jobs/nightly")...)
			if code != exitNoServer || !strings.Contains(text, c.says) {
				t.Errorf("exit code %d, want %d, and %q:\n%s", code, exitNoServer, c.says, text)
			}
		})
	}
}

// If the servers refuse the credentials, the exit code does not say that zklock was used wrongly.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("ann:"+password), 0o600); err != nil {
		t.Fatal(err)
	}
	p := proxy.For(t, loopback.For(t).Addr())
	for range 2 { // one refusal proves nothing
		p.Next(proxy.AuthOp, proxy.Answer(-115))
	}
	code, text := prints(t, "none", nil, "run", "-servers", p.Addr(), "-auth-file", auth, "/jobs/nightly", "--", "true")
	if code != exitFailed || !strings.Contains(text, `authentication of "ann"`) || strings.Contains(text, "-help") || strings.Contains(text, password) {
		t.Errorf("exit code %d, want %d, and why:\n%s", code, exitFailed, text)
	}
}

// While zklock waits in the queue, the servers refuse credentials that they had accepted.
func TestCredentialsThatAreRefusedInTheQueue(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, realzk.Some(t)[0])
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("ann:"+password), 0o600); err != nil {
		t.Fatal(err)
	}
	path := test.Path(t)
	first := holder(t, path)
	c := start(t, p.Addr(), "run", "-session-timeout", "20s", "-wait", "15s", "-auth-file", auth, path, "--", "true")
	inLine(t, path, 2)
	var refused []*proxy.Fault
	for range 1000 {
		refused = append(refused, p.Next(proxy.AuthOp, proxy.Answer(-115)))
	}
	p.Cut()
	ends(t, c, exitFailed, p.Addr()+": the servers refuse the credentials")
	for _, f := range refused {
		f.Cancel()
	}
	finish(t, first)
}

// closed asserts that only the two identities have access to a lock and to all nodes that were
// created above it.
func closed(t *testing.T, p *pki, server, path string) {
	t.Helper()
	conn, err := zklocks.Connect(t.Context(), []string{server}, quiet, zklocks.WithTLS(&tls.Config{RootCAs: p.Pool}),
		zklocks.WithDigestAuth("ops", "of:all"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	want := fmt.Sprint(append(zk.DigestACL(zk.PermAll, "ann", password), zk.DigestACL(zk.PermAll, "ops", "of:all")...))
	nodes := test.Children(t, conn.Client(), path)
	if len(nodes) != 1 {
		t.Fatalf("%d nodes at %s, want that of the holder", len(nodes), path)
	}
	for node := path + "/" + nodes[0]; node != "/"; node = filepath.Dir(node) {
		acl, _, err := conn.Client().GetACL(node)
		if err != nil || fmt.Sprint(acl) != want {
			t.Errorf("%s is open to %v, want %v (%v)", node, acl, want, err)
		}
	}
}

func TestAClientCertificate(t *testing.T) {
	t.Parallel()
	p, server := secured(t, true)
	cert, key := p.issue(t, "ann")
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	with, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	both := p.file(t, "both.pem", string(text)+string(with))
	variables := []string{"ZK_SERVERS=" + server, "ZK_TLS=1", "ZK_CA=" + p.ca}
	for _, c := range []struct {
		env, flags []string
		code       int
	}{
		{nil, []string{"-cert", cert, "-key", key}, 0},
		{nil, []string{"-cert", both}, 0},
		{[]string{"ZK_CERT=" + cert, "ZK_KEY=" + key}, nil, 0},
		{nil, []string{"-session-timeout", "2s"}, exitNoServer},
	} {
		args := append(append([]string{"run"}, c.flags...), "/jobs/nightly", "--", "true")
		if code, text := prints(t, "none", append(variables, c.env...), args...); code != c.code {
			t.Errorf("%q, %q: exit code %d, want %d:\n%s", c.env, c.flags, code, c.code, text)
		}
	}
}

// A certificate or an authority may be replaced while a job runs: a new connection uses the present
// files.
func TestTheFilesAreReadForEachConnection(t *testing.T) {
	t.Parallel()
	var server atomic.Pointer[tls.Config]
	addr := strings.Replace(loopback.ForTLS(t, &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return server.Load(), nil },
	}).Addr(), "127.0.0.1", "localhost", 1)
	p := newPKI(t)
	s := &security{tls: true, ca: p.ca}
	s.cert, s.key = p.issue(t, "ann")
	opts, err := s.options()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for range 2 {
		server.Store(&tls.Config{
			Certificates: []tls.Certificate{p.Issue(t, "localhost", time.Now().Add(time.Hour))},
			ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: p.Pool,
		})
		conn, err := zklocks.Connect(ctx, []string{addr}, quiet, opts...)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		p.Authority = realzk.NewAuthority(t) // replaces all certificates
		p.writeCA(t)
		p.issue(t, "ann")
	}
}

func TestWrongUsageOfSecurity(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	cert, key := p.issue(t, "ann")
	_, other := p.issue(t, "bob")
	missing := filepath.Join(p.dir, "missing")
	auth := func(name, text string) []string { return []string{"-auth-file", p.file(t, name, text)} }
	for _, c := range []struct {
		says  string
		env   []string
		flags []string
	}{
		{"-ca, -cert and -key (ZK_CA, ZK_CERT, ZK_KEY) need -tls (ZK_TLS=1)", nil, []string{"-ca", p.ca}},
		{"need -tls", []string{"ZK_CERT=" + cert}, nil},
		{"need -tls", []string{"ZK_TLS=1", "ZK_CA=" + p.ca}, []string{"-tls=false"}},
		{"-key (ZK_KEY) needs -cert (ZK_CERT)", nil, []string{"-tls", "-key", key}},
		{"ZK_TLS=maybe: want 1 or 0", []string{"ZK_TLS=maybe"}, nil},
		{"-ca: open " + missing, nil, []string{"-tls", "-ca", missing}},
		{"-ca " + key + ": it has no certificate in PEM", nil, []string{"-tls", "-ca", key}},
		{"open " + missing, nil, []string{"-tls", "-cert", missing}},
		{"-cert " + cert + " with the key of " + cert, nil, []string{"-tls", "-cert", cert}},
		{"-cert " + cert + " with the key of " + other, nil, []string{"-tls", "-cert", cert, "-key", other}},
		{"-auth-file: open " + missing, nil, []string{"-auth-file", missing}},
		{"-auth-file: open " + missing, []string{"ZK_AUTH_FILE=" + missing}, nil},
		{"takes the name of a file", nil, []string{"-auth-file", "ann:" + password}},
		{"line 3 is not user:password", nil, auth("bare", "\nann:x\n"+password+"\n")},
		{"line 1 is not user:password", nil, auth("unnamed", ":"+password)},
		{"line 1 is not user:password", nil, auth("open", password+":")},
		{"it has no line user:password", nil, auth("empty", "\n\n")},
		{"-keytab (ZK_KEYTAB) and -principal (ZK_PRINCIPAL) go together", nil, []string{"-keytab", missing}},
		{"go together", []string{"ZK_PRINCIPAL=ann"}, nil},
		{"-service (ZK_SERVICE) needs -keytab or -kerberos", nil, []string{"-service", "kafka"}},
		{"ZK_KERBEROS=maybe: want 1 or 0", []string{"ZK_KERBEROS=maybe"}, nil},
		{"-sasl-file (ZK_SASL_FILE) does not go with -kerberos and -keytab", []string{"ZK_SASL_FILE=" + missing}, []string{"-kerberos"}},
		{"-sasl-file: open " + missing, nil, []string{"-sasl-file", missing}},
		{"-sasl-file takes the name of a file", nil, []string{"-sasl-file", "ann:" + password}},
		{"line 1 is not user:password", nil, []string{"-sasl-file", p.file(t, "sasl", password)}},
		{"it has 2 users, and a client is one", nil, []string{"-sasl-file", p.file(t, "two", "ann:"+password+"\nbob:"+password)}},
		{"credentials belong into -auth-file", nil, []string{"-servers", "ann:" + password + "@localhost"}},
		{"-servers: chroot", nil, []string{"-servers", "localhost:1/a//b"}},
		{"ZK_SERVERS: address", []string{"ZK_SERVERS=a:b:c"}, nil},
	} {
		code, text := prints(t, "none", c.env, append(append([]string{"ls"}, c.flags...), "/jobs/nightly")...)
		if code != exitUsage || !strings.Contains(text, c.says) || !strings.Contains(text, "see zklock ls -help") {
			t.Errorf("%q, %q: exit code %d, want %d, and %q:\n%s", c.env, c.flags, code, exitUsage, c.says, text)
		}
		if strings.Contains(text, password) {
			t.Errorf("%q, %q: a password was shown:\n%s", c.env, c.flags, text)
		}
	}
}

// A flag overrides its variable, even if the variable is invalid: zklock connects without TLS.
func TestAFlagOverridesAWrongVariable(t *testing.T) {
	t.Parallel()
	code, text := prints(t, "none", []string{"ZK_TLS=maybe", "ZK_SERVERS=" + strings.Join(realzk.Some(t), ",")}, "ls", "-tls=false", test.Path(t))
	if code != 0 {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}

// write writes a file of the test, and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A server that demands SASL: what zklock does with the right password, with a wrong one, and with
// none. What it creates is open to its user alone.
func TestSASLFile(t *testing.T) {
	t.Parallel()
	_, server := dev(t, "-sasl-file", write(t, "users", "ann:"+password+"\nbob:of:bob\n"))
	ann, bob := write(t, "ann", "ann:"+password+"\n"), write(t, "bob", "bob:of:bob")
	wrong := write(t, "wrong", "ann:not-"+password)
	h := start(t, server, "run", "-sasl-file", ann, "/jobs/nightly", "--", "sh", "-c", "echo holds; read line")
	h.Hears("holds")
	for _, c := range []struct {
		env, flags []string
		code       int
		says       string
	}{
		{nil, []string{"-sasl-file", ann}, exitBusy, "/jobs/nightly is taken"},
		{[]string{"ZK_SASL_FILE=" + ann}, nil, exitBusy, "/jobs/nightly is taken"},
		{[]string{"ZK_SASL_FILE=" + wrong}, []string{"-sasl-file", ann}, exitBusy, "/jobs/nightly is taken"},
		{nil, []string{"-sasl-file", bob}, exitFailed, "not authenticated"},
		{nil, []string{"-sasl-file", wrong}, exitFailed, "the server refuses the credentials: a wrong user or password"},
		{nil, nil, exitFailed, server + ": the servers demand that clients authenticate"},
		{nil, nil, exitFailed, "-keytab, -kerberos, -sasl-file or -auth-file"},
		{nil, []string{"-keytab", "/nowhere/k", "-principal", "ann@EXAMPLE.COM"}, exitFailed, "client authentication failed"},
		{[]string{"KRB5CCNAME=/nowhere/cache", "KRB5_CONFIG=/nowhere/conf"}, []string{"-kerberos"}, exitFailed, "/nowhere/conf"},
	} {
		for _, command := range [][]string{{"run", "-try"}, {"ls"}} {
			args := append(append(command, c.flags...), "/jobs/nightly")
			code, says := c.code, c.says
			if command[0] == "run" {
				args = append(args, "--", "true")
			} else if code == exitBusy {
				code, says = 0, "1 holding, 0 waiting"
			}
			got, text := prints(t, server, c.env, args...)
			if got != code || !strings.Contains(text, says) || strings.Contains(text, password) {
				t.Errorf("%q, %q: exit code %d, want %d, and %q:\n%s", c.env, args, got, code, says, text)
			}
		}
	}
	conn, err := zklocks.Connect(t.Context(), []string{server}, quiet, zklocks.WithSASL(zklocks.SASLDigest("ann", password)))
	must(t, err)
	defer conn.Close()
	for _, path := range []string{"/jobs", "/jobs/nightly"} {
		acl, _, err := conn.Client().GetACL(path)
		if want := (zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: "ann"}); err != nil || len(acl) != 1 || acl[0] != want {
			t.Errorf("%s is open to %v (%v)", path, acl, err)
		}
	}
	finish(t, h)
}

// The file is read for each connection: the password may be changed while a job runs.
func TestSASLFileIsReadAgain(t *testing.T) {
	t.Parallel()
	file := write(t, "ann", "ann:first")
	s := &sasl{file: file}
	mechanism, err := s.mechanism()
	must(t, err)
	for _, text := range []string{"ann:second", ""} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := mechanism(t.Context(), "zk1"); (err == nil) != (text != "") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
