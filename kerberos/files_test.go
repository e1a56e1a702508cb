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
