package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// The commands that show and change a queue, on a server in memory: what they print, and what they
// do. The tests that start zklock as a process are about `run`, and about what only a process has.

const nightly = "/jobs/nightly"

// office is a server in memory, the connection of the commands, and another connection.
type office struct {
	*testing.T
	server *zktest.Server
	host   *zktest.Host // of the commands
	conn   *zklocks.Conn
	other  *zklocks.Conn
}

// inMemory runs a test twice: with the locks at the root, and below a path behind the servers,
// which no text shows.
func inMemory(t *testing.T, play func(o *office)) {
	for _, root := range []string{"", "/team"} {
		t.Run("at the root "+root, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := zktest.NewServer(t)
				host, below := s.Host("here"), zklocks.WithChroot(root)
				play(&office{t, s, host, host.Connect(t, 10*time.Second, below), s.Host("there").Connect(t, 10*time.Second, below)})
			})
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type acquire = func(context.Context) (*zklocks.Hold, error)

func take(t testing.TB, lock acquire) *zklocks.Hold {
	t.Helper()
	h, err := lock(t.Context())
	must(t, err)
	return h
}

func given(t testing.TB, h *zklocks.Hold) { t.Helper(); must(t, h.Release(t.Context())) }

// waits begins a call that waits, and later sends the hold.
func (o *office) waits(lock acquire) <-chan *zklocks.Hold {
	granted := make(chan *zklocks.Hold, 1)
	go func() { granted <- take(o, lock) }()
	time.Sleep(time.Second) // virtual: it waits
	return granted
}

// create makes a node of another program.
func (o *office) create(path, data string, acl []zk.ACL) {
	o.Helper()
	_, err := o.other.Client().Create(o.other.Path(path), []byte(data), 0, acl)
	must(o, err)
}

// paper is a writer that commands on other goroutines write to.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// at returns a command on a path. Its output is in the second result.
func at(path string) (*target, *paper) {
	out := new(paper)
	return &target{observer: observer{path: path, out: out, servers: servers{timeout: 10 * time.Second}}}, out
}

// says runs a command on a path, which must succeed, and returns what it prints.
func (o *office) says(path string, command func(t *target) error) string {
	o.Helper()
	c, out := at(path)
	must(o, command(c))
	if strings.Contains(out.String(), "/team") && !c.json { // JSON has the path of the node on the server
		o.Errorf("the path behind the servers is shown:\n%s", out)
	}
	return out.String()
}

func (o *office) ls(path string) string {
	o.Helper()
	return o.says(path, func(t *target) error { return t.list(o.Context(), o.conn, false, false) })
}

// asks runs `zklock ask` on the member with a token, or on all holders.
func (o *office) asks(token int64) string {
	o.Helper()
	return o.says(nightly, func(t *target) error { t.token = token; return t.ask(o.Context(), o.conn) })
}

func (o *office) breaks(token int64) string {
	o.Helper()
	return o.says(nightly, func(t *target) error { t.token = token; return t.take(o.Context(), o.conn, true) })
}

// contains asserts that a text contains others.
func (o *office) contains(text string, all ...string) {
	o.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			o.Errorf("it does not say %q:\n%s", want, text)
		}
	}
}

// code asserts the exit code of an error, and a part of its text.
func (o *office) code(err error, code int, text string) {
	o.Helper()
	var e exit
	if !errors.As(err, &e) || e.code != code || !strings.Contains(err.Error(), text) {
		o.Errorf("%v, want exit code %d and %q", err, code, text)
	}
}

func TestLsRecognisesALockByWhoStandsThere(t *testing.T) {
	read := func(c *zklocks.Conn, path string) acquire { return rwlock.New(c, path).RLock }
	write := func(c *zklocks.Conn, path string) acquire { return rwlock.New(c, path).Lock }
	permits := func(c *zklocks.Conn, path string) acquire { return semaphore.New(c, path, 3).Locker(2).Lock }
	curators := func(c *zklocks.Conn, path string) acquire { return rwlock.New(c, path, rwlock.WithCuratorNames()).Lock }
	inMemory(t, func(o *office) {
		for i, c := range []struct {
			want string
			take []func(*zklocks.Conn, string) acquire
		}{
			{"there is no such path", nil},
			{"rwlock, 1 holding, 0 waiting", []func(*zklocks.Conn, string) acquire{read}},
			{"rwlock, 1 holding, 1 waiting", []func(*zklocks.Conn, string) acquire{read, write}},
			{"semaphore, 2 of 3 permits in use, 1 holding, 1 waiting", []func(*zklocks.Conn, string) acquire{permits, permits}},
			{"reentrant, 1 holding, 0 waiting", []func(*zklocks.Conn, string) acquire{
				func(c *zklocks.Conn, path string) acquire { return reentrant.New(c, path).Lock },
			}},
			{"leader with LeaderLatch's names, 1 holding, 0 waiting", []func(*zklocks.Conn, string) acquire{
				func(c *zklocks.Conn, path string) acquire {
					return leader.New(c, path, leader.WithLatchNames()).Campaign
				},
			}},
			{"rwlock with kazoo's names, 1 holding, 0 waiting", []func(*zklocks.Conn, string) acquire{
				func(c *zklocks.Conn, path string) acquire {
					return leader.New(c, path, leader.WithKazooNames()).Campaign
				},
			}},
			{"rwlock with Curator's names, 1 holding, 0 waiting", []func(*zklocks.Conn, string) acquire{curators}},
			{"mixed, 2 holding, 0 waiting", []func(*zklocks.Conn, string) acquire{curators}},
		} {
			path := fmt.Sprint("/lock", i)
			var holds []<-chan *zklocks.Hold
			for _, lock := range c.take {
				holds = append(holds, o.waits(lock(o.other, path)))
			}
			if strings.HasPrefix(c.want, "mixed") { // another library ignores Curator's node
				o.create(path+"/_c_7d3a4c1e-0b52-4f6d-9a39-5e0c2f1b8a64-read-0000000009", "", zk.WorldACL(zk.PermAll))
			}
			if got, _, _ := strings.Cut(o.ls(path), "\n"); got != path+": "+c.want {
				o.Errorf("%q, want %q", got, c.want)
			}
			for _, h := range holds {
				given(o, <-h)
			}
		}
		o.contains(o.ls("/lock3"), "/lock3: semaphore, 0 of 3 permits in use, no holder, no waiter\n")
	})
}

func TestLsShowsEachMember(t *testing.T) {
	inMemory(t, func(o *office) {
		h := take(o, rwlock.New(o.other, nightly, zklocks.WithData([]byte("me\x1b[2J first"))).Lock)
		waits := o.waits(rwlock.New(o.other, nightly, zklocks.WithData(nil)).RLock)
		time.Sleep(time.Minute) // virtual
		lines := strings.Split(o.ls(nightly), "\n")
		for i, want := range [][]string{{"STATE", "KIND", "QUEUED", "SESSION", "TOKEN", "DATA"}, {"holds", "write", "1m1s", "ago", "me.[2J", "first"}, {"waits", "read", "1m1s", "ago"}} {
			got := strings.Fields(lines[1+i])
			if i > 0 && len(got) > 5 {
				got = slices.Delete(got, 4, 6) // session and token
			}
			if !slices.Equal(got, want) {
				o.Errorf("line %d has %q, want %q", i, got, want)
			}
		}
		text := o.says(nightly, func(t *target) error { t.json = true; return t.list(o.Context(), o.conn, false, false) })
		var l line
		must(o, json.Unmarshal([]byte(text), &l))
		if l.Server != o.server.Addrs()[0] {
			o.Errorf("server %q was asked, JSON says %q", o.server.Addrs()[0], l.Server)
		}
		if len(l.Members) != 2 || l.Kind != "rwlock" || l.Path != nightly || strings.Count(text, `"data"`) != 1 {
			o.Fatalf("as JSON: %s", text)
		}
		if m := l.Members[0]; !m.Holding || m.Kind != "write" || m.Data != "me\x1b[2J first" || m.Token != h.Token() || m.Since.IsZero() || m.Node != h.Guard()[0].(*zk.CheckVersionRequest).Path {
			o.Errorf("as JSON: %s", text)
		}
		given(o, h)
		given(o, <-waits)
	})
}

// The table names the server that was asked, if there are several.
func TestLsNamesTheServerOfAnEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		conn := s.Host("here").Connect(t, 10*time.Second)
		o := &office{T: t, server: s, conn: conn, other: conn}
		want := nightly + ": there is no such path (" + conn.Client().Server() + " was asked)\n"
		got := o.says(nightly, func(l *target) error {
			l.addrs = strings.Join(s.Addrs(), ",")
			return l.list(o.Context(), o.conn, false, false)
		})
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// ls -r finds all locks below a path, of all kinds, also below another lock.
func TestLsFindsTheLocksBelowAPath(t *testing.T) {
	inMemory(t, func(o *office) {
		below := func(path string, json bool) (string, error) {
			c, out := at(path)
			c.json = json
			err := c.list(o.Context(), o.conn, true, false)
			return out.String(), err
		}
		if text, err := below("/jobs", false); err != nil || text != "/jobs: there is no such path\n" {
			o.Errorf("where nothing is: %s, %v", text, err)
		}
		a, waits := take(o, rwlock.New(o.other, nightly).Lock), o.waits(rwlock.New(o.other, nightly).Lock)
		b := take(o, semaphore.New(o.other, nightly+"/backup", 3).Locker(1).Lock)
		c := take(o, reentrant.New(o.other, "/jobs/a").Lock)
		o.create("/jobs/queue", "", zk.WorldACL(zk.PermAll))
		o.create("/jobs/config", "7", zk.WorldACL(zk.PermAll))
		want := "/jobs/a: reentrant, 1 holding, 0 waiting\n" +
			"/jobs/nightly: rwlock, 1 holding, 1 waiting\n" +
			"/jobs/nightly/backup: semaphore, 1 of 3 permits in use, 1 holding, 0 waiting\n"
		for _, path := range []string{"/jobs", "/"} {
			if text, err := below(path, false); err != nil || text != want {
				o.Errorf("below %s, %v:\n%s", path, err, text)
			}
		}
		text, err := below("/jobs", true)
		lines := strings.Split(text, "\n")
		var l line
		if err != nil || len(lines) != 4 || json.Unmarshal([]byte(lines[1]), &l) != nil || l.Path != nightly || len(l.Members) != 2 {
			o.Errorf("as JSON, %v:\n%s", err, text)
		}
		o.contains(o.ls("/jobs"), "no holder, no waiter; zklock ls -r lists the locks below it")

		// A path that this client may not read is skipped, and the exit code says so.
		o.create("/jobs/secret", "", zk.DigestACL(zk.PermAll, "ann", password))
		text, err = below("/jobs", false)
		if o.code(err, exitFailed, "/jobs: the list is not complete"); text != want {
			o.Errorf("with a path that may not be read:\n%s", text)
		}
		given(o, a)
		for _, h := range []*zklocks.Hold{<-waits, b, c} {
			given(o, h)
		}
		if text, err := below(nightly, false); err != nil || !strings.Contains(text, "no lock is in use at or below this path") && !strings.Contains(text, "permits in use, no holder") {
			o.Errorf("of a free lock: %s, %v", text, err)
		}
	})
}

// With -status the exit code says whether the lock is held.
func TestLsByExitCode(t *testing.T) {
	inMemory(t, func(o *office) {
		held := func(below bool) error {
			c, _ := at(nightly)
			return c.list(o.Context(), o.conn, below, true)
		}
		o.code(held(false), exitFree, "")
		h := take(o, rwlock.New(o.other, nightly).Lock)
		must(o, held(false))
		must(o, held(true))
		given(o, h)
		o.code(held(false), exitFree, "")
		o.code(held(true), exitFree, "")
	})
}

// watching is a call of `zklock watch`.
type watching struct {
	*office
	out  *paper
	stop func()
}

func (o *office) watch(path string) *watching {
	c, out := at(path)
	c.timeout = 3 * time.Second // of a listing; the session outlives it
	ctx, cancel := context.WithCancel(o.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.watch(ctx, o.conn) }()
	return &watching{o, out, func() { cancel(); must(o, <-ended) }}
}

// shows asserts what the last table shows after a while.
func (w *watching) shows(headline string, more ...string) {
	w.Helper()
	time.Sleep(3 * time.Second) // virtual
	text := w.out.String()
	last := text[strings.LastIndex(text, nightly+": "):]
	w.contains(last, append(more, nightly+": "+headline+"\n")...)
}

func TestWatchShowsEachChange(t *testing.T) {
	inMemory(t, func(o *office) {
		for _, k := range []struct {
			kind string
			lock acquire
		}{ // in this order, because a semaphore leaves its number at the path for a while
			{"rwlock", rwlock.New(o.other, nightly).Lock},
			{"semaphore, 1 of 1 permits in use", semaphore.New(o.other, nightly, 1).Locker(1).Lock},
		} {
			kind, lock := k.kind, k.lock
			w := o.watch(nightly)
			w.shows("no holder, no waiter")
			h := take(o, lock)
			w.shows(kind + ", 1 holding, 0 waiting")
			o.server.Expire(o.conn) // the command continues in a new session
			next := o.waits(lock)
			w.shows(kind + ", 1 holding, 1 waiting")
			given(o, h)
			w.shows(kind + ", 1 holding, 0 waiting")
			before := o.host.Seen(zktest.Any)
			time.Sleep(time.Minute) // virtual: without a change it sends nothing but pings
			if n := o.host.Seen(zktest.Any) - before; n > 1 {
				o.Errorf("%d requests without a change", n)
			}
			given(o, <-next)
			w.shows(strings.Replace(strings.TrimPrefix(kind+", ", "rwlock, "), "1 of", "0 of", 1) + "no holder, no waiter")
			w.stop()
		}
	})
}

// Changes that follow each other quickly are shown together. What has not changed is not shown
// again.
func TestWatchShowsAtMostTenTablesASecond(t *testing.T) {
	inMemory(t, func(o *office) {
		w := o.watch(nightly)
		w.shows("no holder, no waiter")
		shown := func() int { return strings.Count(w.out.String(), nightly+": ") }
		before := shown()
		for began := time.Now(); time.Since(began) < 2*time.Second; {
			h := take(o, rwlock.New(o.other, nightly).Lock)
			time.Sleep(5 * time.Millisecond) // virtual
			given(o, h)
		}
		if n := shown() - before; n < 2 || n > 21 {
			o.Errorf("%d tables in two seconds", n)
		}
		w.shows("no holder, no waiter")
		before = shown()
		o.host.Cut() // ends the watches
		w.shows("no holder, no waiter")
		if n := shown() - before; n > 0 {
			o.Errorf("%d tables without a change", n)
		}
		w.stop()
	})
}

// A change is shown although the server drops the listings right after it, and the connection
// stays. Its event comes only once.
func TestWatchListsAgainAfterAnOverload(t *testing.T) {
	inMemory(t, func(o *office) {
		lock := rwlock.New(o.other, nightly).Lock
		h, next := take(o, lock), o.waits(lock)
		w := o.watch(nightly)
		w.shows("rwlock, 1 holding, 1 waiting")
		var dropped []*zktest.Fault
		for n := range 500 {
			dropped = append(dropped, o.host.Where(func(r zktest.Request) bool { return r.Is(zktest.List) && !r.Watch }, 1+n, zktest.Answer(-127)))
		}
		given(o, h)
		time.Sleep(5 * time.Second) // virtual: until a listing has failed
		for _, fault := range dropped {
			fault.Cancel()
		}
		w.shows("rwlock, 1 holding, 0 waiting")
		given(o, <-next)
		w.stop()
	})
}

// The directory of the lock is created between the request that finds none and the request that
// watches it.
func TestWatchShowsALockThatIsMadeMeanwhile(t *testing.T) {
	inMemory(t, func(o *office) {
		second := o.host.Where(func(r zktest.Request) bool { // the first request watches the number of permits
			return r.Is(zktest.Exists) && r.Watch && slices.Equal(r.Paths, []string{o.conn.Path(nightly)})
		}, 2, zktest.HoldRequest)
		w := o.watch(nightly)
		<-second.Fired()
		a, b := take(o, rwlock.New(o.other, nightly).RLock), take(o, rwlock.New(o.other, nightly).RLock)
		second.Release()
		w.shows("rwlock, 2 holding, 0 waiting")
		given(o, a)
		w.shows("rwlock, 1 holding, 0 waiting")
		given(o, b)
		w.stop()
	})
}

// A request is shown, also if the read that sets the watch on the node was not answered.
func TestWatchShowsWhoIsAsked(t *testing.T) {
	for name, faults := range map[string][]zktest.Action{"answered": nil, "cut": {zktest.CutBefore}, "throttled": {zktest.Answer(-127)}} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(o *office) {
				w := o.watch(nightly)
				a := take(o, rwlock.New(o.other, nightly).RLock)
				w.shows("rwlock, 1 holding, 0 waiting")
				for _, fault := range faults {
					o.host.Where(func(r zktest.Request) bool { return r.Is(zktest.Read) && r.Watch }, 1, fault)
				}
				b := take(o, rwlock.New(o.other, nightly).RLock)
				w.shows("rwlock, 2 holding, 0 waiting")
				if strings.Contains(w.out.String(), "asked to release") {
					o.Errorf("before the request:\n%s", w.out)
				}
				o.asks(b.Token())
				w.shows("rwlock, 2 holding, 0 waiting", "asked to release {")
				given(o, a)
				given(o, b)
				w.stop()
			})
		})
	}
}

// The command watch lists again if and only if the data of a node differ from the data that its
// last listing shows for the node.
func TestWatchKnowsWhatANodeContains(t *testing.T) {
	for _, c := range []struct {
		data  string
		asked bool
		node  string
		want  bool
	}{
		{"mine", false, "mine", true}, {"mine", false, "", false}, {"mine", false, "__REVOKE__\nmine", false},
		{"mine", true, "__REVOKE__\nmine", true}, {"", true, "__REVOKE__", true}, {"mine", true, "__REVOKE__", false}, {"mine", true, "mine", false},
	} {
		if got := (member{Data: c.data, Asked: c.asked}).shows(c.node); got != c.want {
			t.Errorf("%q, asked %v: shows %q: %v", c.data, c.asked, c.node, got)
		}
	}
}

func TestAskAsksTheHoldersAndSaysWhom(t *testing.T) {
	inMemory(t, func(o *office) {
		o.contains(o.asks(0), nightly+": no holder\n")
		lock := rwlock.New(o.other, nightly)
		h, waits := take(o, lock.Lock), o.waits(lock.Lock)
		who := fmt.Sprintf("holds, write, token %d, session 0x", h.Token())
		o.contains(o.asks(0), "asked: "+who, `"pid":`)
		<-h.ReleaseRequested()
		o.contains(o.asks(0), "asked before: "+who)
		o.contains(o.ls(nightly), "asked to release {")
		text := o.says(nightly, func(t *target) error { t.json = true; return t.list(o.Context(), o.conn, false, false) })
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || len(l.Members) != 2 || !l.Members[0].Asked || !strings.Contains(l.Members[0].Data, `"pid"`) || l.Members[1].Asked {
			o.Errorf("as JSON: %s, %v", text, err)
		}
		given(o, h)
		given(o, <-waits)
	})
}

// With -token ask and break act on one member, a holder or a waiter, with all of its permits.
func TestOneOfSeveralMembers(t *testing.T) {
	inMemory(t, func(o *office) {
		s := semaphore.New(o.other, nightly, 4)
		a, b := take(o, s.Locker(1).Lock), take(o, s.Locker(3).Lock)
		waits := o.waits(s.Locker(1).Lock)
		q, err := s.Queue(o.Context())
		must(o, err)
		for _, m := range q[1:] {
			o.contains(o.asks(m.Token), fmt.Sprint("token ", m.Token))
		}
		<-b.ReleaseRequested()
		select {
		case <-a.ReleaseRequested():
			o.Error("the other holder is asked")
		default:
		}
		o.contains(o.breaks(b.Token()), fmt.Sprintf("deleted: holds, 3 permits, token %d", b.Token()))
		c := <-waits
		<-c.ReleaseRequested()
		if b.Verify(o.Context()) == nil || a.Verify(o.Context()) != nil {
			o.Errorf("after break: %v, and the other hold: %v", b.Err(), a.Err())
		}
		o.contains(o.ls(nightly), "semaphore, 2 of 4 permits in use, 2 holding, 0 waiting")
		t, _ := at(nightly)
		t.token = 1
		o.code(t.ask(o.Context(), o.conn), exitFailed, "no holder or waiter has the token 1")
		given(o, a)
		given(o, c)
		_ = b.Release(o.Context())
	})
}

// Holders keep their permits when the number becomes less. A member that queued before may be one of
// them.
func TestListAfterAResize(t *testing.T) {
	inMemory(t, func(o *office) {
		s := semaphore.New(o.other, nightly, 6)
		a, b := take(o, s.Locker(3).Lock), take(o, s.Locker(2).Lock)
		must(o, s.Resize(o.Context(), 2))
		waits := o.waits(s.Locker(1).Lock)
		text := o.ls(nightly)
		o.contains(text, "semaphore, 0 of 2 permits in use (perhaps 5: the number was changed meanwhile), 0 holding, 2 perhaps, 1 waiting")
		if strings.Count(text, "holds?") != 2 || strings.Count(text, "waits") != 1 {
			o.Errorf("%s", text)
		}
		given(o, a)
		given(o, b)
		c := <-waits
		o.contains(o.ls(nightly), "semaphore, 1 of 2 permits in use, 1 holding, 0 waiting")
		given(o, c)
	})
}

// break reports as deleted only what it has deleted itself: the server may delete the node, and its
// answer be lost, or drop the request because of its load.
func TestBreakSaysWhatItHasDeleted(t *testing.T) {
	inMemory(t, func(o *office) {
		o.contains(o.breaks(0), nightly+": no holder\n")
		for _, c := range []struct {
			said   string
			faults []zktest.Action
		}{
			{"deleted: holds, write", nil},
			{"deleted: holds, write", []zktest.Action{zktest.Answer(-127)}},
			{"deleted, or gone meanwhile, as an answer was lost: holds, write", []zktest.Action{zktest.CutAfterCommit}},
		} {
			h := take(o, rwlock.New(o.other, nightly).Lock)
			for _, fault := range c.faults {
				o.host.Next(zktest.Delete, fault)
			}
			o.contains(o.breaks(0), "Deleting the nodes of these members stops no process.", c.said)
			if err := h.Release(o.Context()); !errors.Is(err, zklocks.ErrLost) {
				o.Errorf("the former holder: %v", err)
			}
		}
		h := take(o, semaphore.New(o.other, nightly, 3).Locker(2).Lock) // has two nodes
		o.contains(o.breaks(0), "deleted: holds, 2 permits")
		if left, _, err := o.other.Client().Children(o.other.Path(nightly + "/queue")); err != nil || len(left) > 0 {
			o.Errorf("left: %q, %v", left, err)
		}
		_ = h.Release(o.Context()) // it was lost
	})
}

// resize changes and removes the number of permits, also if the queue's directory does not exist,
// or the answer that it was removed is lost.
func TestResize(t *testing.T) {
	inMemory(t, func(o *office) {
		resize := func(n int) (text string, err error) {
			c, out := at(nightly)
			err = c.resize(o.Context(), o.conn, n)
			return out.String(), err
		}
		_, err := resize(3)
		o.code(err, exitFailed, nightly+" is not a semaphore")
		s := semaphore.New(o.other, nightly, 1)
		a, waits := take(o, s.Locker(1).Lock), o.waits(s.Locker(1).Lock)
		if text, err := resize(3); err != nil || text != nightly+": 3 permits, 1 before\n" {
			o.Errorf("to 3: %s, %v", text, err)
		}
		b := <-waits // follows the new number
		_, err = resize(0)
		o.code(err, exitFailed, nightly+": permits are held or waited for")
		given(o, a)
		given(o, b)
		if text, err := resize(0); err != nil || text != nightly+": deleted its data, the number 3\n" {
			o.Errorf("to none: %s, %v", text, err)
		}
		if there, _, err := o.other.Client().Exists(o.other.Path(nightly)); there || err != nil {
			o.Errorf("the node is there: %v, %v", there, err)
		}

		below := take(o, rwlock.New(o.other, nightly+"/b").Lock) // another lock needs the node
		for _, gone := range []bool{false, true} {
			given(o, take(o, semaphore.New(o.other, nightly, 2).Locker(1).Lock))
			if queue := o.conn.Path(nightly) + "/queue"; gone {
				must(o, o.other.Client().Delete(queue, -1))
			} else {
				o.host.Where(func(r zktest.Request) bool { return slices.Contains(r.Paths, queue) && r.Is(zktest.Delete) }, 1, zktest.CutAfterCommit)
			}
			_, err := resize(0)
			must(o, err)
			o.contains(o.ls(nightly), "no holder, no waiter; zklock ls -r lists the locks below it")
		}
		given(o, below)
	})
}
