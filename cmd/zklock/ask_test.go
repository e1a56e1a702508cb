package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// held acquires a lock on its own connection.
func held(t *testing.T, lock zklocks.Locker) *zklocks.Hold {
	t.Helper()
	return contract.Begin(t, t.Context(), lock.Lock).Granted()
}

func conn(t *testing.T) *zklocks.Conn {
	t.Helper()
	return locks.On(realzk.Connect(t, quiet, realzk.Some(t)...))
}

func given(t *testing.T, h *zklocks.Hold) {
	t.Helper()
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// asked asserts whether a hold is asked to release, after all earlier requests have arrived.
func asked(t *testing.T, h *zklocks.Hold, want bool) {
	t.Helper()
	if want {
		test.Within(t, soon, "it hears that it is asked to release", func() { <-h.ReleaseRequested() })
		return
	}
	select {
	case <-h.ReleaseRequested():
		t.Error("asked to release")
	default:
	}
}

func TestAskAsksTheHoldersAndSaysWhom(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	none := start(t, "", "ask", path)
	if got := none.Hears(path + ":"); got != "no holder" {
		t.Errorf("of a free lock: %q", got)
	}
	ends(t, none, 0)

	lock := rwlock.New(conn(t), path)
	h := held(t, lock)
	w := start(t, "", "run", path, "--", "true")
	inLine(t, path, 2)
	c := start(t, "", "ask", path)
	if got := c.Hears("asked:"); !strings.Contains(got, fmt.Sprintf("holds, write, token %d, session 0x", h.Token())) || !strings.Contains(got, fmt.Sprintf(`"pid":%d`, os.Getpid())) {
		t.Errorf("whom it asks: %q", got)
	}
	ends(t, c, 0)
	asked(t, h, true)
	c = start(t, "", "ask", path)
	if got := c.Hears("asked"); !strings.HasPrefix(got, "before: ") || !strings.Contains(got, fmt.Sprint("token ", h.Token())) {
		t.Errorf("whom it asks again: %q", got)
	}
	ends(t, c, 0)

	l := start(t, "", "ls", path)
	if got := l.Hears("holds"); !strings.Contains(got, fmt.Sprintf(`"pid":%d}`, os.Getpid())) || !strings.Contains(got, "asked to release {") {
		t.Errorf("who holds: %q", got)
	}
	if got := l.Hears("waits"); !strings.HasSuffix(got, "}") {
		t.Errorf("who waits: %q", got)
	}
	text, err := zklockCommand(t, "", "ls", "-json", path).Output()
	var all line
	if err != nil || json.Unmarshal(text, &all) != nil || len(all.Members) != 2 || !all.Members[0].Asked || !strings.Contains(all.Members[0].Data, `"pid"`) || all.Members[1].Asked {
		t.Errorf("as JSON: %s, %v", text, err)
	}
	given(t, h)
	ends(t, w, 0)
	free(t, path)
}

// When the holder is asked to release the lock, zklock run ends its command, as after a loss, and
// then releases the lock.
func TestAskEndsTheCommand(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	polite := start(t, "", "run", path, "--", "sh", "-c", handles(syscall.SIGTERM, "echo tidy up; exit 0"))
	polite.Hears("ready")
	stays := start(t, "", "run", path, "-kill-after", "1ms", "--", "sh", "-c", stubborn)
	inLine(t, path, 2)
	c := start(t, "", "ask", path)
	c.Hears("asked:")
	ends(t, c, 0)
	polite.Hears("tidy")
	ends(t, polite, exitAsked, path+": the lock was asked for; the command was ended")

	group := pids(t, stays)
	ends(t, start(t, "", "ask", path), 0)
	ends(t, stays, exitAsked, "the command was ended")
	if some := alive(group); len(some) > 0 {
		t.Errorf("alive: %v", some)
	}
	free(t, path)
}

// With -ignore-ask the command continues. If the lock is lost after a request, that is a loss.
func TestAskMayBeIgnored(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	h := holder(t, "-ignore-ask", path)
	ends(t, start(t, "", "ask", path), 0)
	l := start(t, "", "ls", path)
	if got := l.Hears("holds"); !strings.Contains(got, `asked to release {"host":`) || !strings.Contains(got, `"command":"sh"`) {
		t.Errorf("who holds: %q", got)
	}
	ends(t, l, 0)
	finish(t, h)

	h = start(t, "", "run", "-session-timeout", "1m", path, "--", "sh", "-c", stubborn)
	pids(t, h)
	ends(t, start(t, "", "ask", path), 0)
	ends(t, start(t, "", "break", "-yes", path), 0)
	ends(t, h, exitLost, "the lock was lost")
	free(t, path)
}

func TestAskOneOfSeveral(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	s := semaphore.New(conn(t), path, 4)
	a, b := held(t, s.Locker(1)), held(t, s.Locker(3))
	for _, h := range []*zklocks.Hold{a, b} {
		asked(t, h, false)
	}
	waiter := contract.Begin(t, t.Context(), s.Locker(1).Lock)
	inLine(t, path+"/queue", 5)
	q, err := s.Queue(t.Context())
	if err != nil || len(q) != 3 {
		t.Fatalf("queue %+v, %v", q, err)
	}

	for _, m := range q[1:] {
		c := start(t, "", "ask", "-token", fmt.Sprint(m.Token), path)
		if got := c.Hears("asked:"); !strings.Contains(got, fmt.Sprint("token ", m.Token)) {
			t.Errorf("whom it asks: %q", got)
		}
		ends(t, c, 0)
	}
	asked(t, b, true)
	asked(t, a, false)
	given(t, b)
	c := waiter.Granted()
	asked(t, c, true)
	ends(t, start(t, "", "ask", "-token", "1", path), exitFailed, "no holder or waiter has the token 1")
	ends(t, start(t, "", "ask"), exitUsage, "the path of the lock is missing")
	given(t, a)
	given(t, c)
}

func TestWatchShowsWhoIsAsked(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	h := held(t, rwlock.New(conn(t), path))
	w := start(t, "", "watch", path)
	if got := w.Hears("holds"); strings.Contains(got, "asked to release") {
		t.Errorf("before the request: %q", got)
	}
	ends(t, start(t, "", "ask", path), 0)
	if got := w.Hears("holds"); !strings.Contains(got, "asked to release {") {
		t.Errorf("after the request: %q", got)
	}
	w.Signal(os.Interrupt)
	ends(t, w, 0)
	given(t, h)
}

// The command watch lists again if and only if the data of a node differ from the data that its
// last listing shows for the node.
func TestWatchKnowsWhatANodeContains(t *testing.T) {
	t.Parallel()
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

func TestBreakTakesTheLockAway(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	holds := holder(t, path)
	waits := start(t, "", "run", path, "--", "sh", "-c", "echo mine; read line")
	inLine(t, path, 2)

	c := start(t, "", "break", path)
	if got := c.Hears("holds"); !strings.Contains(got, `"command":"sh"`) {
		t.Errorf("whose lock it is: %q", got)
	}
	c.Hears("Deleting")
	ends(t, c, exitUsage, "-yes")
	inLine(t, path, 2)

	c = start(t, "", "break", "-yes", path)
	c.Hears("Deleting")
	if got := c.Hears("deleted:"); !strings.Contains(got, "holds, write, token ") {
		t.Errorf("what it deletes: %q", got)
	}
	ends(t, c, 0)
	ends(t, holds, exitLost)
	waits.Hears("mine")
	finish(t, waits)
	free(t, path)
	c = start(t, "", "break", "-yes", path)
	if got := c.Hears(path + ":"); got != "no holder" {
		t.Errorf("of a free lock: %q", got)
	}
	ends(t, c, 0)
}

// The server deletes the node, and its answer is lost: the second try finds no node.
func TestBreakSaysThatItMayHaveDeleted(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, realzk.Some(t)[0])
	path := test.Path(t)
	holds := holder(t, path)
	p.Next(proxy.DeleteOp, proxy.CutAfterCommit)
	c := start(t, p.Addr(), "break", "-yes", path)
	if got := c.Hears("deleted,"); !strings.HasPrefix(got, "or gone meanwhile") || !strings.Contains(got, "holds, write, token ") {
		t.Errorf("what it deletes: %q", got)
	}
	ends(t, c, 0)
	ends(t, holds, exitLost)
}

func TestBreakOneOfSeveral(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	s := semaphore.New(conn(t), path, 4)
	a, b := held(t, s.Locker(1)), held(t, s.Locker(3))
	ends(t, start(t, "", "break", "-yes", "-token", "0", path), exitUsage, "-token 0") // not all holders
	inLine(t, path+"/queue", 4)
	ends(t, start(t, "", "break", "-yes", "-token", fmt.Sprint(b.Token()), path), 0)
	inLine(t, path+"/queue", 1) // no hold detects it: the tool has deleted all three nodes
	if b.Verify(t.Context()) == nil {
		t.Error("the hold goes on")
	}
	if err := a.Verify(t.Context()); err != nil {
		t.Errorf("the other hold: %v", err)
	}
	given(t, a)
	_ = b.Release(t.Context())
}

// A request is shown although the read that sets the watch on the node was not answered.
func TestWatchShowsWhoIsAskedAfterALostRead(t *testing.T) {
	t.Parallel()
	for _, action := range []proxy.Action{proxy.CutBefore, proxy.Answer(-127)} {
		p := proxy.For(t, realzk.Some(t)[0])
		path := test.Path(t)
		a := holder(t, "-ignore-ask", "-shared", path)
		w := start(t, p.Addr(), "watch", path)
		shows(t, w, path, "rwlock, 1 holding, 0 waiting")
		time.Sleep(time.Second) // real: until all events have arrived
		lost := p.Where(func(r proxy.Request) bool { return r.Is(proxy.ReadOp) && r.Watch }, 1, action)
		b := holder(t, "-ignore-ask", "-shared", path)
		shows(t, w, path, "rwlock, 2 holding, 0 waiting")
		test.Within(t, soon, "the read is lost", func() { <-lost.Fired() })
		time.Sleep(2 * time.Second) // real: time for another read that sets the watch
		list, err := rwlock.New(conn(t), path).Queue(t.Context())
		if err != nil || len(list) != 2 {
			t.Fatal(list, err)
		}
		ends(t, start(t, "", "ask", "-token", fmt.Sprint(list[1].Token), path), 0)
		for got := ""; !strings.Contains(got, "asked to release"); {
			test.Within(t, soon, "it shows who is asked", func() { got = w.Hears("holds") })
		}
		finish(t, a)
		finish(t, b)
		w.Signal(os.Interrupt)
		ends(t, w, 0)
	}
}
