package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
)

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
