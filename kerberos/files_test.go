package kerberos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/zklocks/zklocks"
)

// write writes a file of the test, and returns its path.
func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// krb5conf returns the path of a krb5.conf with one KDC; "": with none.
func krb5conf(t testing.TB, kdc string) string {
	t.Helper()
	text := "includedir /nowhere/\n[libdefaults]\n default_realm = " + realm + "\n dns_lookup_kdc = false\n udp_preference_limit = 1\n"
	if kdc != "" {
		text += fmt.Sprintf("[realms]\n %s = {\n  kdc = %s\n }\n", realm, kdc)
	}
	return write(t, "krb5.conf", []byte(text))
}

// lockerKeytab returns the path of a keytab with a key of the user locker.
func lockerKeytab(t testing.TB) string {
	t.Helper()
	kt := keytab.New()
	if err := kt.AddEntry("locker", realm, "secret", time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	data, err := kt.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "locker.keytab", data)
}

// What is wrong with a file or with the principal is a refusal, and the error names it.
func TestWrongFiles(t *testing.T) {
	conf, table := krb5conf(t, "127.0.0.1:1"), lockerKeytab(t)
	for name, tc := range map[string]struct {
		mechanism zklocks.SASLMechanism
		says      []string
	}{
		"no service":            {Keytab(table, "locker", WithConfig(conf), WithService("")), []string{`service "": want name or name/host, and perhaps @REALM`}},
		"half a service":        {Keytab(table, "locker", WithConfig(conf), WithService("zookeeper/")), []string{`service "zookeeper/": want name or name/host, and perhaps @REALM`}},
		"three parts":           {Keytab(table, "locker", WithConfig(conf), WithService("a/b/c")), []string{`service "a/b/c": want name or name/host, and perhaps @REALM`}},
		"half a realm":          {Keytab(table, "locker", WithConfig(conf), WithService("zookeeper@")), []string{`service "zookeeper@": want name or name/host, and perhaps @REALM`}},
		"two realms":            {Keytab(table, "locker", WithConfig(conf), WithService("zookeeper/zk1@A@B")), []string{`service "zookeeper/zk1@A@B": want name`}},
		"no keytab":             {Keytab("/nowhere/app.keytab", "locker", WithConfig(conf)), []string{"keytab /nowhere/app.keytab", "no such file"}},
		"an empty keytab":       {Keytab(write(t, "k", nil), "locker", WithConfig(conf)), []string{"keytab", "/k"}},
		"half a keytab":         {Keytab(write(t, "k", []byte{5, 2, 0, 0, 0, 99, 0}), "locker", WithConfig(conf)), []string{"keytab", "/k"}},
		"no principal":          {Keytab(table, "", WithConfig(conf)), []string{`principal "": want name@REALM`}},
		"no krb5.conf":          {Keytab(table, "locker", WithConfig("/nowhere/krb5.conf")), []string{"/nowhere/krb5.conf", "no such file"}},
		"no KDC":                {Keytab(table, "locker", WithConfig(krb5conf(t, ""))), []string{"principal locker of realm EXAMPLE.COM, with its key in ", "krb5.conf names no KDC"}},
		"another realm":         {Keytab(table, "locker@OTHER.COM", WithConfig(conf)), []string{"krb5.conf names no KDC", "OTHER.COM"}},
		"no cache":              {Cache("FILE:/nowhere/cache", WithConfig(conf)), []string{"credential cache /nowhere/cache (run kinit, or set KRB5CCNAME)", "no such file"}},
		"a cache of the kernel": {Cache("KEYRING:persistent:0", WithConfig(conf)), []string{"credential cache KEYRING:persistent:0: only files can be read, and not a cache of the kind KEYRING: call kinit -c FILE:/tmp/cache"}},
		"a cache of a daemon":   {Cache("KCM:", WithConfig(conf)), []string{"a cache of the kind KCM: call kinit -c FILE:/tmp/cache"}},
		"a folder of caches":    {Cache("DIR:/run/cc", WithConfig(conf)), []string{"a cache of the kind DIR: call kinit -c FILE:/tmp/cache"}},
		"an unknown variable":   {Cache("/tmp/cc_%{username}", WithConfig(conf)), []string{"only uid, euid, USERID and TEMP are known"}},
		"an expired cache":      {Cache("testdata/expired", WithConfig(conf)), []string{"credential cache testdata/expired: its ticket has expired at 20"}},
		"an empty cache":        {Cache(write(t, "c", nil), WithConfig(conf)), []string{"malformed input"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.mechanism(t.Context(), "zk1")
			if !errors.Is(err, zk.ErrAuthFailed) {
				t.Fatal(err)
			}
			for _, says := range tc.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v\ndoes not say %q", err, says)
				}
			}
		})
	}
}

// The environment names the default files.
func TestFilesOfTheEnvironment(t *testing.T) {
	t.Setenv("KRB5_CONFIG", "/nowhere/conf")
	if _, err := Cache("")(t.Context(), "zk1"); err == nil || !strings.Contains(err.Error(), "/nowhere/conf") {
		t.Error(err)
	}
	t.Setenv("KRB5_CONFIG", krb5conf(t, ""))
	t.Setenv("KRB5CCNAME", "/nowhere/cc")
	if _, err := Cache("")(t.Context(), "zk1"); err == nil || !strings.Contains(err.Error(), "/nowhere/cc") {
		t.Error(err)
	}
	t.Setenv("KRB5CCNAME", "")
	t.Setenv("KRB5_CONFIG", "/nowhere/conf:"+write(t, "b.conf", []byte("[libdefaults]\n default_ccache_name = FILE:/nowhere/%{uid}/%{TEMP}\n")))
	if _, err := Cache("")(t.Context(), "zk1"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("/nowhere/%d/%s (run kinit", os.Getuid(), os.TempDir())) {
		t.Error(err)
	}
}

// Of several keys of one second the newest counts.
func TestNewestKey(t *testing.T) {
	table := keytab.New()
	for kvno := range uint8(3) {
		if err := table.AddEntry("locker", realm, fmt.Sprint(kvno), time.Unix(1e9, 0), kvno+1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
			t.Fatal(err)
		}
	}
	data, err := table.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := loadKeys(write(t, "three.keytab", data))
	if err != nil || keys.Entries[0].KVNO != 3 {
		t.Errorf("%+v, %v", keys, err)
	}
}

// A KDC that refuses connections, or that is silent, is an outage. The caller does not wait for
// it longer than its ctx allows, and a second caller makes no second request.
func TestUnreachableKDC(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int32
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				close(accepted)
				return
			}
			connections.Add(1)
			accepted <- c
		}
	}()
	table := lockerKeytab(t)
	if _, err = Keytab(table, "locker", WithConfig(krb5conf(t, "127.0.0.1:1")))(t.Context(), "zk1"); err == nil ||
		errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), "its key in "+table+": no KDC of realm EXAMPLE.COM answers: check that it runs, ") {
		t.Error(err)
	}
	mechanism := Keytab(table, "locker", WithConfig(krb5conf(t, silent.Addr().String())))
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := mechanism(ctx, "zk1"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, zk.ErrAuthFailed) {
			t.Error(err)
		}
		cancel()
	}
	first := <-accepted // the request of the first caller goes on after its ctx
	if n := connections.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	first.Close()
	silent.Close()
	for c := range accepted {
		c.Close() // ends the request
	}
}

// Where SHA-1 is forbidden, the mechanism fails, and does not panic.
func TestFIPS(t *testing.T) {
	const env = "ZKLOCKS_TEST_FIPS"
	if os.Getenv(env) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFIPS$")
		cmd.Env = append(os.Environ(), env+"="+lockerKeytab(t), "GODEBUG=fips140=only")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	err := guard(func() error {
		kt, err := keytab.Load(os.Getenv(env))
		if err != nil {
			return err
		}
		e := exchange{mechanism: with(nil), ticket: &ticket{key: kt.Entries[0].Key, user: credentials.New("locker", realm)}}
		_, _, err = e.next(nil)
		return err
	})
	if !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), "fips140=only") {
		t.Error(err)
	}
}

// folder makes files in a folder, in whose text DIR stands for the folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestProfile: several files, included files and folders, in any place. The first value counts; the
// KDCs of a realm add up.
func TestProfile(t *testing.T) {
	dir := folder(t, map[string]string{
		"krb5.conf": `# a comment
includedir DIR/conf.d
[libdefaults]
	default_realm = A.TEST  # the company's
  default_realm = IGNORED
	include	DIR/more
  dns_lookup_kdc = false
  A.TEST = {
    ticket_lifetime = 1h
  }
[logging]*
  kdc = FILE:/var/log/kdc
[realms]
  A.TEST = {
    kdc = a1
    kdc = a2:750
    auth_to_local = RULE:[1:$1]
  }*
  B.TEST = {
    v4_instance_convert = {
      x = y
    }
    kdc = b1
  }
[domain_realm]
  .b.test = B.TEST
  zk1.b.test = "C.TEST" # one host
  zk1.b.test = D.TEST
`,
		"more":              "[domain_realm]\nzk9 = D.TEST\n",
		"conf.d/10-first":   "[libdefaults]\nclockskew = 60\n[realms]\nA.TEST = {\nkdc = a0\n}\n",
		"conf.d/20.conf":    "[libdefaults]\nclockskew = 61\n",
		"conf.d/.40.conf":   "nonsense",
		"conf.d/.hidden":    "nonsense",
		"conf.d/30.rpmsave": "nonsense",
		"second":            "[libdefaults]\ndefault_realm = Z.TEST\nticket_lifetime = 2h\n",
	})
	p, err := readProfile(dir + "/krb5.conf:" + dir + "/nowhere:" + dir + "/second")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := p.config()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(cfg.LibDefaults.DefaultRealm, cfg.LibDefaults.Clockskew, cfg.LibDefaults.TicketLifetime)
	for _, realm := range cfg.Realms {
		got += fmt.Sprint(" ", realm.Realm, realm.KDC)
	}
	if want := "A.TEST1m0s 2h0m0s A.TEST[a0:88 a1:88 a2:750] B.TEST[b1:88]"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for host, want := range map[string]string{
		"zk9": "D.TEST", "zk1.b.test": "C.TEST", "zk2.b.test": "B.TEST", "x.zk2.b.test": "B.TEST", "b.test": "", "zk1.c.test": "", "": "",
	} {
		if realm := p.realmOf(host); realm != want {
			t.Errorf("%s is in realm %q, want %q", host, realm, want)
		}
	}
}

// TestWrongProfile: the error names the file, the line, and what is wanted.
func TestWrongProfile(t *testing.T) {
	for text, says := range map[string]string{
		"[libdefaults\n":                    `krb5.conf, line 1: "[libdefaults": want [section], after all blocks`,
		"default_realm = A\n":               "line 1: \"default_realm = A\": want name = value in a [section]",
		"[realms]\nA = {\n}\n}\n":           "line 4: \"}\": want a block that is open",
		"[realms]\nA = {\n[domain_realm]\n": "line 3: \"[domain_realm]\": want [section], after all blocks",
		"[realms]\nA\n":                     "line 2: \"A\": want name = value in a [section]",
		"include /nowhere/x\n":              "line 1: include: open /nowhere/x: no such file",
		"include DIR/krb5.conf\n":           "the files include each other",
		"includedir DIR/krb5.conf\n":        "line 1: includedir:",
		"[libdefaults]\nclockskew = ten\n":  "clockskew",
	} {
		p, err := readProfile(folder(t, map[string]string{"krb5.conf": text}) + "/krb5.conf")
		if err == nil {
			_, err = p.config()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v\ndoes not say %s", text, err, says)
		}
	}
	if _, err := readProfile("/nowhere/a:/nowhere/b"); err == nil || !strings.Contains(err.Error(), `no file of "/nowhere/a:/nowhere/b" exists`) {
		t.Error(err)
	}
}

// trusts are KDCs of a test: what each answers by the name that is asked for. "" is a ticket of the
// service.
type trusts map[string]map[string]string

func (k trusts) ask(asked *[]string) func(realm, name string) (string, error) {
	return func(realm, name string) (string, error) {
		*asked = append(*asked, name+" in "+realm)
		next, ok := k[realm][name]
		if !ok {
			return "", errors.New("KDC_ERR_S_PRINCIPAL_UNKNOWN")
		}
		return next, nil
	}
}

func TestRoute(t *testing.T) {
	const s = "zookeeper/zk1.b.test"
	conf := profile{
		{"domain_realm", "", ".b.test", "B"},
		{"capaths", "A", "B", "."}, {"capaths", "A", "C", "M"}, {"capaths", "A", "C", "N"},
	}
	for name, tc := range map[string]struct {
		conf    profile
		service string
		kdcs    trusts
		asked   []string
		says    []string // of the error
	}{
		"the own realm": {nil, s, trusts{"A": {s: ""}}, []string{s + " in A"}, nil},
		"the own realm does not know it": {nil, s, trusts{}, []string{s + " in A"},
			[]string{"service " + s + " of realm A (the program's own: neither WithService nor [domain_realm] of krb5.conf names another): the KDC does not know the service"}},
		"domain_realm": {conf, s, trusts{"A": {"krbtgt/B": "B"}, "B": {s: ""}}, []string{"krbtgt/B in A", s + " in B"}, nil},
		"WithService":  {conf, s + "@A", trusts{"A": {s: ""}}, []string{s + " in A"}, nil},
		"capaths":      {conf, s + "@C", trusts{"A": {"krbtgt/M": "M"}, "M": {"krbtgt/N": "N"}, "N": {"krbtgt/C": "C"}, "C": {s: ""}}, []string{"krbtgt/M in A", "krbtgt/N in M", "krbtgt/C in N", s + " in C"}, nil},
		"a closer realm": {conf, s, trusts{"A": {"krbtgt/B": "X"}, "X": {"krbtgt/B": "B"}, "B": {s: ""}},
			[]string{"krbtgt/B in A", "krbtgt/B in X", s + " in B"}, nil},
		"referred by the own realm": {nil, s, trusts{"A": {s: "X"}, "X": {s: "B"}, "B": {s: ""}}, []string{s + " in A", s + " in X", s + " in B"}, nil},
		"referred by the target":    {conf, s, trusts{"A": {"krbtgt/B": "B"}, "B": {s: "X"}, "X": {s: ""}}, []string{"krbtgt/B in A", s + " in B", s + " in X"}, nil},
		"no trust": {conf, s, trusts{}, []string{"krbtgt/B in A"},
			[]string{"service " + s + " of realm B (by [domain_realm] of krb5.conf): the KDC of realm A does not trust realm B: name the realms between them in [capaths]"}},
		"the target does not know it": {conf, s + "@C", trusts{"A": {"krbtgt/M": "M"}, "M": {"krbtgt/N": "N"}, "N": {"krbtgt/C": "C"}}, nil,
			[]string{"service " + s + " of realm C (by WithService): the KDC does not know the service"}},
		"a referral to a stranger": {nil, s, trusts{"A": {s: "X"}}, nil, []string{"of realm A (", ", asked in realm X: the KDC does not know the service"}},
		"a circle":                 {nil, s, trusts{"A": {s: "B"}, "B": {s: "A"}}, nil, []string{"the KDCs refer to each other without end"}},
	} {
		var asked []string
		err := tc.conf.route("A", tc.service).walk(tc.kdcs.ask(&asked))
		if tc.asked != nil && !slices.Equal(asked, tc.asked) {
			t.Errorf("%s: asked %q, want %q", name, asked, tc.asked)
		}
		if (err != nil) != (tc.says != nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, says := range tc.says {
			if err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v\ndoes not say %q", name, err, says)
			}
		}
	}
}

// TestHints: each error begins with what was asked for, and what to check.
func TestHints(t *testing.T) {
	for raw, tc := range map[string]struct {
		says string
		down bool
	}{
		"AS_REP is not valid or client password/keytab incorrect < clock skew with KDC too large": {"the clocks of this machine and of the KDC differ", false},
		"KRB_AP_ERR_SKEW": {"the clocks of this machine and of the KDC differ", false},
		"[Root cause: Networking_Error] dial tcp 10.0.0.1:88: i/o timeout": {"no KDC of realm B answers: check that it runs, ", true},
		"KDC_ERR_SVC_UNAVAILABLE": {"no KDC of realm B answers: check that it runs, ", true},
		"[Root cause: Networking_Error] no KDCs defined in configuration for realm B": {"krb5.conf names no KDC", false},
	} {
		err := explain(errors.New(raw), "principal ann", "B")
		if !strings.HasPrefix(err.Error(), "principal ann: "+tc.says) || !strings.HasSuffix(err.Error(), raw) || errors.As(err, new(outage)) != tc.down {
			t.Errorf("%v", err)
		}
	}
}
