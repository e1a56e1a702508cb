package kerberos

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

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
