package kerberos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
)

// These tests run with a real KDC and real servers, as make interop does.

// A secured is a ZooKeeper with a JAAS file, and the host from which the clients connect to it.
type secured struct {
	*realzk.Server
	at    string // by the name in its principal
	proxy *proxy.Proxy
}

func startSecured(t *testing.T, jaas, conf string) *secured {
	t.Helper()
	s := &secured{Server: realzk.Standalone(t, realzk.Options{
		Tick:   time.Second,
		Config: map[string]string{"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
		JVM:    []string{"-Djava.security.auth.login.config=" + jaas, "-Djava.security.krb5.conf=" + conf, "-Dzookeeper.sessionRequireClientSASLAuth=true"},
	})}
	s.proxy = proxy.For(t, s.Addr())
	_, port, _ := net.SplitHostPort(s.Addr())
	s.at = "localhost:" + port
	return s
}

// connect connects through the proxy.
func (s *secured) connect(t *testing.T, limit time.Duration, opts ...zklocks.ConnectOption) (*zklocks.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.proxy.Addr())
	}
	opts = append(opts, zklocks.WithDialer(dial), zklocks.WithACL(zk.AuthACL(zk.PermAll)))
	conn, err := zklocks.Connect(ctx, []string{s.at}, 20*time.Second, opts...)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

func (s *secured) lock(t *testing.T, conn *zklocks.Conn, path string) *zklocks.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	hold, err := rwlock.New(conn, path).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// kept cuts the connections, and checks that the holds are kept on other connections.
func (s *secured) kept(t *testing.T, what string, holds map[string]*zklocks.Hold) {
	t.Helper()
	s.proxy.Cut()
	for name, hold := range holds {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := hold.Verify(ctx); err != nil { // a request, which waits for the connection
			t.Errorf("%s: the hold of %s: %v", what, name, err)
		}
		cancel()
	}
}

const jaasOfServer = `
Server {
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true keyTab="DIR/server.keytab" storeKey=true useTicketCache=false
  principal="zookeeper/localhost@EXAMPLE.COM";
};
`

func TestRealKDC(t *testing.T) {
	t.Parallel()
	k := startKDC(t)
	conf := k.path("krb5.conf")
	in := WithConfig(conf)
	s := startSecured(t, k.write("jaas.conf", jaasOfServer), conf)
	k.run("secret\n", "kinit", "ann")

	holds := map[string]*zklocks.Hold{}
	for name, mechanism := range map[string]zklocks.SASLMechanism{
		"locker": Keytab(k.path("locker.keytab"), "locker", in),
		"brief":  Keytab(k.path("brief.keytab"), "brief@EXAMPLE.COM", in), // its tickets end after 10 s
		"modern": Keytab(k.path("modern.keytab"), "modern", in),
		"ann":    Cache("FILE:"+k.path("cache"), in),
	} {
		conn, err := s.connect(t, 10*time.Second, zklocks.WithSASL(mechanism))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		holds[name] = s.lock(t, conn, "/"+name)
		acl, _, err := conn.Client().GetACL("/" + name)
		if want := (zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: name + "@EXAMPLE.COM"}); err != nil || len(acl) != 1 || acl[0] != want {
			t.Errorf("%v, %v", acl, err)
		}
	}
	briefFrom := time.Now()
	other, err := s.connect(t, 10*time.Second, zklocks.WithSASL(Keytab(k.path("locker.keytab"), "locker", WithService("zookeeper/localhost"), in)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rwlock.New(other, "/ann").TryLock(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("another principal's lock: %v", err)
	}

	k.process.Kill()
	s.kept(t, "no KDC, tickets valid", holds)
	if _, err := s.connect(t, time.Second, zklocks.WithSASL(Keytab(k.path("locker.keytab"), "locker", in))); !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), "no KDC of realm EXAMPLE.COM answers") {
		t.Errorf("no KDC: %v", err)
	}
	k.start()

	// A key that is replaced makes the old keytab useless.
	old := k.path("old.keytab")
	if err := os.Rename(k.path("locker.keytab"), old); err != nil {
		t.Fatal(err)
	}
	k.admin("ktadd -k DIR/locker.keytab locker", "addprinc -randkey ghost", "ktadd -k DIR/ghost.keytab ghost", "delprinc -force ghost")
	for name, tc := range map[string]struct {
		mechanism zklocks.SASLMechanism
		at        string
		says      string
	}{
		"an old keytab":        {Keytab(old, "locker", in), s.at, "principal locker of realm EXAMPLE.COM, with its key in " + old + ": the key does not fit the KDC's"},
		"an unknown principal": {Keytab(k.path("ghost.keytab"), "ghost", in), s.at, "principal ghost of realm EXAMPLE.COM, with its key in " + k.path("ghost.keytab") + ": the KDC does not know the principal"},
		"another's keytab":     {Keytab(k.path("brief.keytab"), "locker", in), s.at, "the keytab has no key of the principal"},
		"an unknown service":   {Keytab(k.path("locker.keytab"), "locker", in, WithService("kafka")), s.at, "service kafka/localhost of realm EXAMPLE.COM (by [domain_realm] of krb5.conf): the KDC does not know the service"},
		"an address":           {Keytab(k.path("locker.keytab"), "locker", in), s.Addr(), "service zookeeper/127.0.0.1 of realm EXAMPLE.COM (the program's own: neither WithService nor [domain_realm] of krb5.conf names another): the KDC does not know the service"},
		"DIGEST-MD5":           {zklocks.SASLDigest("ann", "secret"), s.at, "zk: client authentication failed"},
	} {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := zklocks.Connect(ctx, []string{tc.at}, 4*time.Second, zklocks.WithSASL(tc.mechanism))
		cancel()
		if !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: refused after %v", name, time.Since(began).Round(time.Millisecond))
	}
	conn, err := s.connect(t, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rwlock.New(conn, "/l").Lock(t.Context()); !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), "the server demands that clients authenticate") {
		t.Errorf("without SASL: %v", err)
	}
	conn.Close()

	test.Eventually(t, 10*time.Second, "the tickets of brief have expired", func() bool { return time.Since(briefFrom) > 6*time.Second })
	s.kept(t, "a ticket expired, a keytab replaced", holds)

	// The running server reads its keytab again.
	k.admin("ktadd -k DIR/server2.keytab zookeeper/localhost")
	if err := os.Rename(k.path("server2.keytab"), k.path("server.keytab")); err != nil {
		t.Fatal(err)
	}
	s.kept(t, "the server's key replaced", holds)
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	s.kept(t, "the server restarted", holds)
	for name, hold := range holds {
		if err := hold.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The program's realm is another than the servers', and trusts it by a third.
func TestRealTrust(t *testing.T) {
	t.Parallel()
	k := startTrust(t)
	s := startSecured(t, k.write("jaas.conf", strings.ReplaceAll(jaasOfServer, "EXAMPLE.COM", "B.TEST")), k.path("krb5.conf"))
	conf, table := k.path("a.conf"), k.path("app.keytab")
	plain := k.write("plain.conf", strings.ReplaceAll("[libdefaults]\n dns_lookup_kdc = false\n[realms]\n A.TEST = {\n  kdc = ADDRESS\n }\n", "ADDRESS", k.address))
	without := plain + ":" + k.write("b.conf", "[realms]\n B.TEST = {\n kdc = ADDRESS\n}\n")
	paths := without + ":" + k.write("paths.conf", "[realms]\n M.TEST = {\n kdc = ADDRESS\n}\n[capaths]\n A.TEST = {\n B.TEST = M.TEST\n}\n")
	for name, mechanism := range map[string]zklocks.SASLMechanism{
		"domain_realm and capaths": Keytab(table, "app", WithConfig(conf)),
		"WithService":              Keytab(table, "app@A.TEST", WithConfig(paths), WithService("zookeeper@B.TEST")),
	} {
		conn, err := s.connect(t, 10*time.Second, zklocks.WithSASL(mechanism))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.lock(t, conn, "/"+name)
		acl, _, err := conn.Client().GetACL("/" + name)
		if err != nil || len(acl) != 1 || acl[0].ID != "app@A.TEST" {
			t.Errorf("%s: %v, %v", name, acl, err)
		}
	}
	for says, mechanism := range map[string]zklocks.SASLMechanism{
		"service zookeeper/localhost of realm X.TEST (by WithService): the KDC of realm A.TEST does not trust realm X.TEST": Keytab(table, "app", WithConfig(conf), WithService("zookeeper@X.TEST")),
		// The KDC refers to M.
		"service zookeeper/localhost of realm B.TEST (by WithService), asked in realm M.TEST: krb5.conf names no KDC": Keytab(table, "app@A.TEST", WithConfig(without), WithService("zookeeper@B.TEST")),
		"service zookeeper/localhost of realm A.TEST (the program's own: ":                                            Keytab(table, "app@A.TEST", WithConfig(plain)),
	} {
		if _, err := s.connect(t, 10*time.Second, zklocks.WithSASL(mechanism)); !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v\ndoes not say %s", err, says)
		}
	}
}

// A kdc is MIT's KDC, with a database of its own and the realm EXAMPLE.COM.
type kdc struct {
	t       *testing.T
	dir     string
	address string
	process *realzk.Child
}

// newKDC returns a KDC that has no database yet.
func newKDC(t *testing.T) *kdc {
	t.Helper()
	if os.Getenv("INTEROP") == "" {
		t.Skip("needs a KDC: make interop runs it")
	}
	ports, err := proxy.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return &kdc{t: t, dir: t.TempDir(), address: fmt.Sprintf("127.0.0.1:%d", ports[0])}
}

func startKDC(t *testing.T) *kdc {
	t.Helper()
	k := newKDC(t)
	k.write("krb5.conf", `
[libdefaults]
  default_realm = EXAMPLE.COM
  dns_lookup_realm = false
  dns_lookup_kdc = false
  rdns = false
  default_tkt_enctypes = aes256-cts-hmac-sha1-96 aes256-cts-hmac-sha384-192
  udp_preference_limit = 1
[realms]
  EXAMPLE.COM = {
    kdc = ADDRESS
  }
[domain_realm]
  localhost = EXAMPLE.COM
`)
	k.write("kdc.conf", `
[realms]
  EXAMPLE.COM = {
    kdc_listen = ADDRESS
    kdc_tcp_listen = ADDRESS
    database_name = DIR/principal
    key_stash_file = DIR/stash
    max_life = 1h
    supported_enctypes = aes256-cts-hmac-sha1-96:normal
  }
[logging]
  kdc = FILE:DIR/kdc.log
`)
	k.run("", "kdb5_util", "create", "-s", "-r", "EXAMPLE.COM", "-P", "master")
	k.admin("addprinc -randkey zookeeper/localhost", "addprinc -randkey locker", "addprinc -maxlife 10s -randkey brief", "addprinc -pw secret ann",
		"addprinc -randkey -e aes256-cts-hmac-sha384-192:normal modern",
		"ktadd -k DIR/server.keytab zookeeper/localhost", "ktadd -k DIR/locker.keytab locker", "ktadd -k DIR/brief.keytab brief",
		"ktadd -e aes256-cts-hmac-sha384-192:normal -k DIR/modern.keytab modern")
	k.start()
	return k
}

// startTrust starts a KDC of three realms, A, M and B: M trusts A, and B trusts M. The server is in
// B, the program in A, of which a.conf is the krb5.conf.
func startTrust(t *testing.T) *kdc {
	t.Helper()
	k := newKDC(t)
	conf, kdcs := "[realms]\n", "[realms]\n"
	for _, realm := range []string{"A.TEST", "M.TEST", "B.TEST"} {
		conf += realm + " = {\n kdc = ADDRESS\n}\n"
		kdcs += strings.ReplaceAll("NAME = {\n kdc_listen = ADDRESS\n kdc_tcp_listen = ADDRESS\n database_name = DIR/NAME\n key_stash_file = DIR/NAME.stash\n"+
			" supported_enctypes = aes256-cts-hmac-sha1-96:normal\n}\n", "NAME", realm)
	}
	conf += "[capaths]\nA.TEST = {\n B.TEST = M.TEST\n}\n[domain_realm]\nlocalhost = B.TEST\n"
	defaults := "[libdefaults]\n dns_lookup_kdc = false\n rdns = false\n udp_preference_limit = 1\n default_realm = "
	k.write("realms.conf", conf)
	k.write("a.conf", "include DIR/realms.conf\n"+defaults+"A.TEST\n")
	k.write("krb5.conf", "include DIR/realms.conf\n"+defaults+"B.TEST\n")
	k.write("kdc.conf", kdcs)
	for realm, commands := range map[string][]string{
		"A.TEST": {"addprinc -randkey app", "addprinc -pw am krbtgt/M.TEST@A.TEST", "ktadd -k DIR/app.keytab app"},
		"M.TEST": {"addprinc -pw am krbtgt/M.TEST@A.TEST", "addprinc -pw mb krbtgt/B.TEST@M.TEST"},
		"B.TEST": {"addprinc -pw mb krbtgt/B.TEST@M.TEST", "addprinc -randkey zookeeper/localhost", "ktadd -k DIR/server.keytab zookeeper/localhost"},
	} {
		k.run("", "kdb5_util", "create", "-s", "-r", realm, "-P", "master")
		k.run(strings.ReplaceAll(strings.Join(commands, "\n")+"\n", "DIR", k.dir), "kadmin.local", "-r", realm)
	}
	k.start("-r", "A.TEST", "-r", "M.TEST", "-r", "B.TEST")
	return k
}

func (k *kdc) path(name string) string { return filepath.Join(k.dir, name) }

// write writes a file in which DIR and ADDRESS stand for the directory and the address of the KDC.
func (k *kdc) write(name, text string) string {
	k.t.Helper()
	text = strings.NewReplacer("DIR", k.dir, "ADDRESS", k.address).Replace(text)
	if err := os.WriteFile(k.path(name), []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
	return k.path(name)
}

func (k *kdc) command(name string, args ...string) *exec.Cmd {
	path, err := exec.LookPath(name)
	if err != nil {
		path = filepath.Join("/usr/sbin", name) // which is not on the PATH of every user
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+k.path("krb5.conf"), "KRB5_KDC_PROFILE="+k.path("kdc.conf"), "KRB5CCNAME=FILE:"+k.path("cache"))
	return cmd
}

func (k *kdc) run(input, name string, args ...string) {
	k.t.Helper()
	cmd := k.command(name, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// admin changes the database.
func (k *kdc) admin(commands ...string) {
	k.t.Helper()
	k.run(strings.ReplaceAll(strings.Join(commands, "\n")+"\n", "DIR", k.dir), "kadmin.local")
}

// start starts the KDC, and returns when it answers.
func (k *kdc) start(args ...string) {
	k.t.Helper()
	k.process = realzk.StartProgram(k.t, k.command("krb5kdc", append(args, "-n", "-P", k.path("pid"))...))
	test.Eventually(k.t, 10*time.Second, "the KDC listens", func() bool {
		conn, err := net.Dial("tcp", k.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}
