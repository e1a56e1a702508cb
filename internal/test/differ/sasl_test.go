package differ

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/jute"
	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// users have passwords with characters that DIGEST-MD5 escapes, or hashes in two ways.
var users = map[string]string{"bob": "secret", "eve": "x", "super": "admin", `a"b`: `c\d`, "jörg": "gewiß", "Ωmega": "π", "svc/host": "y"}

// TestSASL compares the packets of SASL, with each configuration of the server.
func TestSASL(t *testing.T) {
	for name, c := range map[string]struct{ jaas, required bool }{
		"no JAAS": {}, "JAAS": {jaas: true}, "required": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real, version := saslOnJava(t, c.jaas, c.required)
			config := memzk.Config{Version: version}
			if c.jaas {
				config.SASL = &memzk.SASL{Start: memzk.DigestMD5(users), Required: c.required}
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ensemble := memzk.Start(config)
			var serving sync.WaitGroup
			serving.Go(func() { _ = ensemble.Leader().Serve(listener) })
			t.Cleanup(func() { ensemble.Stop(); serving.Wait() })
			memory := func() (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }
			for script, play := range saslScripts {
				var said [2][]string
				for i, dial := range []func() (net.Conn, error){real, memory} {
					p := &saslPlay{t: t, dial: dial, root: fmt.Sprintf("/%x", script)}
					p.connect()
					play(p)
					p.wire.close()
					said[i] = p.said
				}
				for n := range max(len(said[0]), len(said[1])) {
					if n >= len(said[0]) || n >= len(said[1]) || said[0][n] != said[1][n] {
						t.Errorf("%s: %s\nZooKeeper %s:\n  %s\nin memory:\n  %s", name, script, version,
							strings.Join(said[0][min(n, len(said[0])):], "\n  "), strings.Join(said[1][min(n, len(said[1])):], "\n  "))
						break
					}
				}
			}
		})
	}
}

// saslOnJava starts the installed server.
func saslOnJava(t *testing.T, jaas, required bool) (dial func() (net.Conn, error), version string) {
	t.Helper()
	options := realzk.Options{Tick: calm.tick, Env: []string{"LC_ALL=C.UTF-8"}}
	if jaas {
		var text strings.Builder
		text.WriteString("Server {\n org.apache.zookeeper.server.auth.DigestLoginModule required\n")
		for user, password := range users {
			fmt.Fprintf(&text, " \"user_%s\"=\"%s\"\n", javaString.Replace(user), javaString.Replace(password))
		}
		text.WriteString(";\n};\n")
		file := filepath.Join(t.TempDir(), "jaas.conf")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		options.Config = map[string]string{"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
		options.JVM = []string{"-Djava.security.auth.login.config=" + file, "-Dfile.encoding=UTF-8",
			fmt.Sprintf("-Dzookeeper.sessionRequireClientSASLAuth=%v", required)}
	}
	s := realzk.Standalone(t, options)
	stat, err := s.Word("srvr")
	if err != nil {
		t.Fatal(err)
	}
	return func() (net.Conn, error) { return net.Dial("tcp", s.Addr()) }, versionLine.FindStringSubmatch(stat)[1]
}

var javaString = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// saslPlay plays a script on a server.
type saslPlay struct {
	t       *testing.T
	dial    func() (net.Conn, error)
	root    string
	wire    *wire
	session jute.Handshake
	said    []string
}

var saslScripts = map[string]func(p *saslPlay){
	"each user": func(p *saslPlay) {
		for _, user := range slices.Sorted(maps.Keys(users)) {
			p.connect()
			p.login(user, users[user])
			p.create("/"+base64.RawURLEncoding.EncodeToString([]byte(user)), "auth", "")
		}
	},
	"a wrong password": func(p *saslPlay) {
		p.login("bob", "wrong")
		p.ask(jute.OpExists, 9, append(jute.AppendText(nil, "/"), 0))
		p.resume() // the session has not ended
		p.login("bob", "secret")
		p.ask(jute.OpCloseSession, 10, nil)
	},
	"an unknown user": func(p *saslPlay) { p.login("nobody", "") },
	"no user":         func(p *saslPlay) { p.token(1, nil); p.token(2, []byte("response=1")) },
	"another mechanism": func(p *saslPlay) {
		p.token(1, []byte{0x60, 0x82, 1, 2, 6, 9})
	},
	"a null token":        func(p *saslPlay) { p.ask(jute.OpSASL, 1, jute.AppendBytes(nil, nil)) },
	"two exchanges":       func(p *saslPlay) { p.login("bob", "secret"); p.token(7, nil) },
	"a request before":    func(p *saslPlay) { p.create("/early", "world", "anyone"); p.login("bob", "secret") },
	"a ping before":       func(p *saslPlay) { p.ask(jute.OpPing, jute.XidPing, nil) },
	"a close before":      func(p *saslPlay) { p.ask(jute.OpCloseSession, 3, nil); p.resume() },
	"an unknown request":  func(p *saslPlay) { p.ask(99, 3, nil) },
	"watches set before":  func(p *saslPlay) { p.ask(jute.OpSetWatches, jute.XidSetWatches, make([]byte, 20)) },
	"between the tokens":  func(p *saslPlay) { p.token(1, nil); p.create("/between", "world", "anyone") },
	"digest before":       func(p *saslPlay) { p.digest("ann:x"); p.login("bob", "secret"); p.create("/both", "auth", "") },
	"digest alone":        func(p *saslPlay) { p.digest("ann:x"); p.create("/digest", "auth", "") },
	"ACLs of all schemes": func(p *saslPlay) { p.login("bob", "secret"); p.acls() },
	"other identities": func(p *saslPlay) {
		p.login("bob", "secret")
		p.create("/bobs", "sasl", "bob")
		for _, user := range []string{"eve", "super"} {
			p.connect()
			p.login(user, users[user])
			p.ask(jute.OpGetData, 4, append(jute.AppendText(nil, p.root+"/bobs"), 0))
			p.ask(jute.OpDelete, 5, jute.AppendInt32(jute.AppendText(nil, p.root+"/bobs"), -1))
		}
	},
}

func (p *saslPlay) acls() {
	for i, id := range []string{"bob", "bob@EXAMPLE.COM", "bob/host@EXAMPLE.COM", "", "a@b@c", "a/b/c@d", "a/b"} {
		p.create(fmt.Sprint("/acl", i), "sasl", id)
	}
}

// connect opens a connection with a new session.
func (p *saslPlay) connect() { p.session = jute.Handshake{}; p.resume() }

// resume opens a connection with the session, if there is one.
func (p *saslPlay) resume() {
	p.t.Helper()
	if p.wire != nil {
		p.wire.close()
	}
	conn, err := p.dial()
	if err != nil {
		p.t.Fatal(err)
	}
	p.wire = newWire(conn)
	h := jute.Handshake{Timeout: defaultTimeout, Session: p.session.Session, Password: p.session.Password}
	if h.Password == nil {
		h.Password = make([]byte, 16)
	}
	g, err := p.wire.handshake(h, false)
	if err != nil {
		p.t.Fatal(err)
	}
	p.said = append(p.said, fmt.Sprintf("session: %v, resumed: %v", g.Session != 0, g.Session == p.session.Session))
	p.session = g.Handshake
}

// nonces match what differs in each exchange.
var nonces = regexp.MustCompile(`(nonce="|rspauth=)[^",]*`)

// ask sends a request and returns the body of the answer; nil: the server has closed the
// connection.
func (p *saslPlay) ask(op, xid int32, body []byte) []byte {
	p.t.Helper()
	_ = p.wire.send(jute.Frame(append(jute.AppendInt32(jute.AppendInt32(nil, xid), op), body...)))
	reply, err := p.wire.receive(patience)
	if errors.Is(err, errSilent) {
		p.t.Fatalf("no answer to request %d", op)
	}
	if err != nil {
		p.said = append(p.said, fmt.Sprintf("request %d: closed", op))
		return nil
	}
	d := jute.Decoder{Rest: reply}
	got, zxid, code := d.Int32(), d.Int64(), d.Int32()
	said := fmt.Sprintf("request %d: xid %d, code %d", op, got, code)
	if op == jute.OpSASL {
		said += fmt.Sprintf(", zxid %d: %q", zxid, nonces.ReplaceAll(d.Rest, []byte("$1")))
	}
	p.said = append(p.said, said)
	return d.Rest
}

// token sends a token of SASL, and returns the answer's.
func (p *saslPlay) token(xid int32, token []byte) []byte {
	p.t.Helper()
	d := jute.Decoder{Rest: p.ask(jute.OpSASL, xid, jute.AppendText(nil, string(token)))}
	return d.Bytes()
}

// login plays the client's side of DIGEST-MD5, as the library has it.
func (p *saslPlay) login(user, password string) {
	p.t.Helper()
	next, err := zklocks.SASLDigest(user, password)(p.t.Context(), "")
	if err != nil {
		p.t.Fatal(err)
	}
	var challenge []byte
	for xid := int32(-2000); ; xid-- {
		response, done, err := next(challenge)
		if err != nil || done {
			p.said = append(p.said, fmt.Sprintf("%s: %v", user, err))
			return
		}
		challenge = p.token(xid, response)
	}
}

func (p *saslPlay) digest(secret string) {
	p.t.Helper()
	body := jute.AppendText(jute.AppendText(jute.AppendInt32(nil, 0), "digest"), secret)
	p.ask(jute.OpAuth, jute.XidAuth, body)
}

// create creates a node below the root, and reads its ACL.
func (p *saslPlay) create(path, scheme, id string) {
	p.t.Helper()
	open := func(path, scheme, id string) []byte {
		body := jute.AppendInt32(jute.AppendInt32(jute.AppendInt32(jute.AppendText(nil, path), 0), 1), 31)
		return jute.AppendInt32(jute.AppendText(jute.AppendText(body, scheme), id), 0)
	}
	p.ask(jute.OpCreate, 20, open(p.root, "world", "anyone"))
	p.ask(jute.OpCreate, 21, open(p.root+path, scheme, id))
	d := jute.Decoder{Rest: p.ask(jute.OpGetACL, 22, jute.AppendText(nil, p.root+path))}
	for range d.Count(12) {
		p.said = append(p.said, fmt.Sprintf("  %d %s %q", d.Int32(), d.Text(), d.Text()))
	}
}
