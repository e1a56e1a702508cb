//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package wire_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/sessionfile"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// predecessor is a Conn that stands for a process that has died: it has a node, and a file.
type predecessor struct {
	*wire.Conn
	node, file string
}

func precede(t *testing.T, v venue.Venue) predecessor {
	t.Helper()
	p := predecessor{connect(t, v, time.Minute, v.Servers(t)), test.Path(t), filepath.Join(t.TempDir(), "session")}
	create(t, p.Conn, p.node)
	p.leave(t, v, p.Own().Password)
	return p
}

// leave leaves the file behind.
func (p predecessor) leave(t *testing.T, v venue.Venue, password []byte) {
	t.Helper()
	f, err := sessionfile.Open(p.file, true)
	must(t, err)
	must(t, errors.Join(f.Lock(t.Context()), f.Write(p.Own().ID, password, v.Servers(t)), f.Close(false)))
}

// succeed connects with the file.
func (p predecessor) succeed(t *testing.T, v venue.Venue, opts ...wire.Option) *wire.Conn {
	t.Helper()
	return connect(t, v, 4*time.Second, v.Servers(t), slices.Concat(opts, []wire.Option{wire.WithSessionFile(p.file)})...)
}

// freed asserts that the predecessor's session has ended, or that it lives.
func (p predecessor) freed(t *testing.T, conn *wire.Conn, want bool) {
	t.Helper()
	exists(t, conn, p.node, !want)
}

// try connects with a file within a second.
func try(t *testing.T, v venue.Venue, path string, opts ...wire.Option) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := wire.Connect(ctx, v.Servers(t), 4*time.Second, slices.Concat(v.Dialer(), opts, []wire.Option{wire.WithSessionFile(path)})...)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func TestASessionFileFreesTheDead(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		p := precede(t, v)
		dead := p.Own().ID // p reconnects
		said, sessions := &lines{}, atomic.Int32{}
		conn := p.succeed(t, v, wire.WithLogger(said), wire.WithSessionEvents(func(e zk.Event) {
			if e.State == zk.StateHasSession {
				sessions.Add(1)
			}
		}))
		p.freed(t, conn, true)
		said.has(t, fmt.Sprintf("zklocks: ended session %#x, whose process has died", uint64(dead)))
		if conn.Session() == dead {
			t.Error("the new connection has the old session")
		}
		ok(t, conn.Close())
		if n := sessions.Load(); n > 1 { // the other one is the dead process's
			t.Errorf("the program is notified of %d sessions", n)
		}
		if text, err := os.ReadFile(p.file); err != nil || len(text) > 0 {
			t.Errorf("after Close the file has %q, %v", text, err)
		}
	})
}

// Nothing is freed unless the file shows that the process is dead.
func TestASessionFileThatFreesNothing(t *testing.T) {
	t.Parallel()
	const copied = "no lock was freed: its session is of another file, of which this is a copy, or of another container: written to device:inode"
	for name, spoil := range map[string]func(*testing.T, venue.Venue, *predecessor){
		"a copy": func(t *testing.T, _ venue.Venue, p *predecessor) {
			text, err := os.ReadFile(p.file)
			must(t, err)
			p.file += "-copy"
			write(t, p.file, string(text))
		},
		"removed": func(t *testing.T, _ venue.Venue, p *predecessor) { must(t, os.Remove(p.file)) },
		"a wrong password": func(t *testing.T, v venue.Venue, p *predecessor) { // which the server answers like a session that is over
			p.leave(t, v, make([]byte, 16))
		},
	} {
		t.Run(name, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				p := precede(t, v)
				spoil(t, v, &p)
				if name == "a copy" {
					if ended, err := wire.Reap(p.file, false, v.Servers(t), 4*time.Second, v.Dialer()...); ended != 0 || err == nil || !strings.Contains("no lock was freed: "+err.Error(), copied) {
						t.Errorf("the reaper ended session %#x, %v; want %q", ended, err, copied)
					}
				}
				said := &lines{}
				p.freed(t, p.succeed(t, v, wire.WithLogger(said)), false)
				time.Sleep(2 * time.Second) // virtual
				if log := strings.Join(said.all(), "\n"); strings.Contains(log, "Connect waits") || strings.Contains(log, copied) != (name == "a copy") {
					t.Errorf("the log is:\n%s", log)
				}
			})
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestTwoConnectionsWithOneSessionFile(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		file := filepath.Join(t.TempDir(), "session")
		first := connect(t, v, 4*time.Second, v.Servers(t), wire.WithSessionFile(file))
		node := test.Path(t)
		create(t, first, node)
		err := try(t, v, file)
		if want := fmt.Sprintf("zklocks: session file %s: in use by process %d", file, os.Getpid()); err == nil || !strings.HasPrefix(err.Error(), want) || !errors.Is(err, sessionfile.ErrInUse) {
			t.Errorf("%v, want %q", err, want)
		}
		exists(t, first, node, true)
		// The second waits for a while, in case the first is being closed.
		said := &lines{}
		_, err = wire.Connect(t.Context(), v.Servers(t), 4*time.Second, slices.Concat(v.Dialer(), []wire.Option{wire.WithSessionFile(file), wire.WithLogger(said)})...)
		if want := file + ": in use by another connection of this process: use a file of its own for each"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		said.has(t, fmt.Sprintf("zklocks: session file %s: Connect waits, because it is in use by process %d, or by a process that ends its session", file, os.Getpid()))
		time.AfterFunc(time.Second, func() { ok(t, first.Close()) })
		second := connect(t, v, 4*time.Second, v.Servers(t), wire.WithSessionFile(file))
		exists(t, second, node, false)
	})
}

// If no server confirms Close, the next Connect ends the session, also in the same process.
func TestACloseThatNoServerConfirms(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		px := v.Proxy(t, v.Servers(t)[0])
		file, node := filepath.Join(t.TempDir(), "session"), test.Path(t)
		conn := connect(t, v, time.Minute, []string{px.Addr()}, wire.WithSessionFile(file))
		create(t, conn, node)
		px.Mute()
		if err := conn.Close(); err == nil {
			t.Fatal("Close returned no error")
		}
		next := connect(t, v, 4*time.Second, v.Servers(t), wire.WithSessionFile(file))
		exists(t, next, node, false)
	})
}

// A connection that moves to new servers writes them into the file: the old servers may be gone
// when the process dies.
func TestTheSessionFileHasTheNewServers(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		var servers []string
		for _, s := range v.Cluster(t, 3, venue.Options{}).Servers() {
			servers = append(servers, s.Addr())
		}
		file := filepath.Join(t.TempDir(), "session")
		conn := connect(t, v, 4*time.Second, servers[:1], wire.WithSessionFile(file))
		must(t, conn.SetServers(servers[1:]))
		text, err := os.ReadFile(file)
		if err != nil || strings.Contains(string(text), servers[0]) || !strings.Contains(string(text), servers[1]) {
			t.Errorf("the file has %s, %v, want servers %q", text, err, servers[1:])
		}
	})
}

// The dead process's session is ended with the credentials, and again until a server has confirmed
// it.
func TestEndingASessionSurvivesALostAnswer(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		for _, action := range []proxy.Action{proxy.CutBefore, proxy.CutAfterCommit, proxy.LoseReply} {
			for _, op := range []proxy.Op{proxy.ConnectOp, proxy.CloseOp} {
				p := precede(t, v)
				px := v.Proxy(t, v.Servers(t)[0])
				f := px.Next(op, action)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := wire.End(ctx, []string{px.Addr()}, 4*time.Second, *p.Own(), slices.Concat(v.Dialer(), []wire.Option{wire.WithDigestAuth("ann", "x")})...)
				cancel()
				if err != nil {
					t.Errorf("%v, %v: %v", action, op, err)
				}
				p.freed(t, connect(t, v, 4*time.Second, v.Servers(t)), true)
				select {
				case <-f.Fired():
				default:
					t.Errorf("%v, %v did not strike", action, op)
				}
			}
		}
	})
}

// A server may be silent, refuse the credentials or never answer: Connect continues, and says so.
func TestASessionThatCannotBeEnded(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := precede(t, v)
		px := v.Proxy(t, v.Servers(t)[0])
		px.Refuse()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := wire.Connect(ctx, []string{px.Addr()}, 4*time.Second, slices.Concat(v.Dialer(), []wire.Option{wire.WithSessionFile(p.file)})...)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, wire.ErrNoAnswer) || time.Since(start) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		said := &lines{}
		time.AfterFunc(5*time.Second, func() { _ = px.Accept() })
		conn := connect(t, v, 4*time.Second, []string{px.Addr()}, wire.WithSessionFile(p.file), wire.WithLogger(said))
		said.has(t, "was not ended: ")
		p.freed(t, conn, false)
	})
}

// A reaper tries for a session timeout, also if the servers are away when the process dies.
func TestAReaperWaitsForServers(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := precede(t, v)
		px := v.Proxy(t, v.Servers(t)[0])
		reap := func() (int64, error) {
			return wire.Reap(p.file, false, []string{px.Addr()}, 4*time.Second, v.Dialer()...)
		}
		px.Refuse()
		start := time.Now()
		if ended, err := reap(); ended != 0 || !errors.Is(err, wire.ErrNoAnswer) || time.Since(start) < 4*time.Second {
			t.Errorf("no server: ended session %#x, %v, after %v", ended, err, time.Since(start))
		}
		time.AfterFunc(2*time.Second, func() { _ = px.Accept() })
		if ended, err := reap(); ended != p.Own().ID || err != nil {
			t.Errorf("a server after 2 s: ended session %#x, %v", ended, err)
		}
		p.freed(t, connect(t, v, 4*time.Second, v.Servers(t)), true)
	})
}

// The servers of another ensemble do not know the session: Connect must not say that it has ended
// it. A reaper asks the servers in the file, too.
func TestASessionOfAnotherEnsemble(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p, other, said := precede(t, v), v.Cluster(t, 1, venue.Options{}).Addrs(), &lines{}
		reap := func() (int64, error) { return wire.Reap(p.file, false, other, 4*time.Second, v.Dialer()...) }
		text, err := os.ReadFile(p.file)
		must(t, err)
		dead := p.Own().ID
		conn := connect(t, v, 4*time.Second, other, wire.WithSessionFile(p.file), wire.WithLogger(said))
		said.has(t, fmt.Sprintf("zklocks: session %#x, whose process has died, is over, or is held by other servers than these: its servers were %s", uint64(dead), strings.Join(v.Servers(t), ", ")))
		p.freed(t, p.Conn, false)
		ok(t, conn.Close())
		for _, want := range []int64{dead, 0} {
			write(t, p.file, string(text))
			if ended, err := reap(); ended != want || err != nil {
				t.Errorf("the reaper ended session %#x, %v, want %#x", ended, err, want)
			}
			if left, err := os.ReadFile(p.file); err != nil || len(left) > 0 {
				t.Errorf("behind the reaper the file has %q, %v", left, err)
			}
			p.freed(t, connect(t, v, 4*time.Second, v.Servers(t)), true)
		}
	})
}

// The file has each new session before any request of that session, also after the program has
// changed its directory, and a lost file costs no hold.
func TestASessionThatFollowsAnExpiredOne(t *testing.T) {
	t.Chdir(t.TempDir())
	file, err := filepath.Abs("session")
	must(t, err)
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		said := &lines{}
		conn := connect(t, v, 4*time.Second, v.Servers(t), wire.WithSessionFile("session"), wire.WithLogger(said))
		must(t, os.Chdir("/"))
		next := func() int64 {
			t.Helper()
			old := conn.Session()
			v.Expire(t, conn)
			test.Eventually(t, 10*time.Second, "another session", func() bool { id := conn.Session(); return id != 0 && id != old })
			return conn.Session()
		}
		recorded := func(id int64) bool {
			text, err := os.ReadFile(file)
			must(t, err)
			return strings.Contains(string(text), fmt.Sprintf(`"ID":%d,`, id))
		}
		if first := conn.Session(); !recorded(first) {
			t.Error("the first session is not in the file")
		}
		if second := next(); !recorded(second) {
			t.Error("the second session is not in the file")
		}
		must(t, os.Rename(file, file+"-moved"))
		next()
		create(t, conn, test.Path(t))
		said.has(t, "it was removed or replaced")
	})
}

// Connect says at once which file it refuses, and why.
func TestASessionFileThatIsRefused(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		file, start := filepath.Join(t.TempDir(), "other"), time.Now()
		write(t, file, "precious\n")
		err := try(t, v, file)
		if want := "zklocks: session file " + file + ": it has other content: use a file of its own"; err == nil || err.Error() != want || time.Since(start) > 0 {
			t.Errorf("%q after %v, want %q at once", err, time.Since(start), want)
		}
	})
}
