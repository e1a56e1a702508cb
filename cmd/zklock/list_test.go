package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

func TestLsRecognisesALockByWhoStandsThere(t *testing.T) {
	t.Parallel()
	root := test.Path(t)
	if got := start(t, "", "ls", root).Hears(root + ":"); got != "there is no such path" {
		t.Errorf("of a path that does not exist: %q", got)
	}

	path := root + "/rw"
	a := holder(t, "-shared", path)
	w := start(t, "", "run", "-data", "me\x1b[2J first", path, "--", "true")
	inLine(t, path, 2)
	l := start(t, "", "ls", path)
	if got := l.Hears(path + ":"); got != "rwlock, 1 holding, 1 waiting" {
		t.Errorf("rwlock: %q", got)
	}
	if got := l.Hears("holds"); !strings.HasPrefix(strings.TrimSpace(got), "read") || !strings.Contains(got, fmt.Sprintf("%q:%q", "command", "sh")) {
		t.Errorf("who holds: %q", got)
	}
	if got := l.Hears("waits"); !strings.HasPrefix(strings.TrimSpace(got), "write") || !strings.HasSuffix(got, "  me.[2J first") {
		t.Errorf("who waits: %q", got)
	}
	finish(t, a)
	ends(t, w, 0)

	path = root + "/permits"
	a = holder(t, "-permits", "3", path)
	if got := start(t, "", "ls", path).Hears(path + ":"); got != "semaphore, 1 of 3 permits in use, 1 holding, 0 waiting" {
		t.Errorf("semaphore: %q", got)
	}
	finish(t, a)
	inLine(t, path+"/queue", 0)
	if got := start(t, "", "ls", path).Hears(path + ":"); got != "semaphore, 0 of 3 permits in use, no holder, no waiter" {
		t.Errorf("semaphore that is free: %q", got)
	}

	path = root + "/reentrant"
	conn := locks.On(realzk.Connect(t, quiet, realzk.Some(t)...))
	h, err := reentrant.New(conn, path).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := start(t, "", "ls", path).Hears(path + ":"); got != "reentrant, 1 holding, 0 waiting" {
		t.Errorf("reentrant: %q", got)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}

	path = root + "/latch"
	if h, err = leader.New(conn, path, leader.WithLatchNames()).Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := start(t, "", "ls", path).Hears(path + ":"); got != "leader with LeaderLatch's names, 1 holding, 0 waiting" {
		t.Errorf("LeaderLatch's names: %q", got)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}

	path = root + "/kazoo"
	if h, err = leader.New(conn, path, leader.WithKazooNames()).Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := start(t, "", "ls", path).Hears(path + ":"); got != "rwlock with kazoo's names, 1 holding, 0 waiting" {
		t.Errorf("kazoo's names: %q", got)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Error(err)
	}

	path = root + "/curator"
	c, err := rwlock.New(conn, path, rwlock.WithCuratorNames()).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := start(t, "", "ls", path).Hears(path + ":"); got != "rwlock with Curator's names, 1 holding, 0 waiting" {
		t.Errorf("Curator's names: %q", got)
	}
	o, err := rwlock.New(conn, path).RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := start(t, "", "ls", path).Hears(path + ":"); got != "mixed, 2 holding, 0 waiting" {
		t.Errorf("two recipes: %q", got)
	}
	for _, h := range []*zklocks.Hold{c, o} {
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	free(t, path)
}

// ls -r finds all locks below a path, of all kinds, also below another lock.
func TestLsFindsTheLocksBelowAPath(t *testing.T) {
	t.Parallel()
	root := test.Path(t)
	nobody := start(t, "", "ls", "-r", root)
	if got := nobody.Hears(root + ":"); got != "there is no such path" {
		t.Errorf("where nothing is: %q", got)
	}
	ends(t, nobody, 0)

	a := holder(t, root+"/b/nightly")
	w := start(t, "", "run", root+"/b/nightly", "--", "true")
	inLine(t, root+"/b/nightly", 2)
	b := holder(t, "-permits", "3", root+"/b/nightly/backup")
	h := held(t, reentrant.New(conn(t), root+"/a"))
	witness := realzk.Connect(t, quiet, realzk.Some(t)...)
	for path, data := range map[string]string{root + "/queue": "", root + "/config": "7"} {
		if _, err := witness.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		root + "/a: reentrant, 1 holding, 0 waiting",
		root + "/b/nightly: rwlock, 1 holding, 1 waiting",
		root + "/b/nightly/backup: semaphore, 1 of 3 permits in use, 1 holding, 0 waiting", "",
	}
	if code, text := printsAt(t, "", "ls", "-r", root); code != 0 || text != strings.Join(want, "\n") {
		t.Errorf("code %d:\n%s", code, text)
	}
	servers := strings.Join(realzk.Some(t), ",") + root
	if code, text := printsAt(t, servers, "ls", "-r", "/"); code != 0 || text != strings.ReplaceAll(strings.Join(want, "\n"), root, "") {
		t.Errorf("of all below the path behind the servers, code %d:\n%s", code, text)
	}
	code, text := printsAt(t, "", "ls", "-json", "-r", root)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var l line
	if code != 0 || len(lines) != 3 || json.Unmarshal([]byte(lines[1]), &l) != nil || l.Path != root+"/b/nightly" || len(l.Members) != 2 {
		t.Errorf("as JSON, code %d:\n%s", code, text)
	}
	if got := start(t, "", "ls", root).Hears(root + ":"); got != "no holder, no waiter; zklock ls -r lists the locks below it" {
		t.Errorf("ls without -r: %q", got)
	}

	// A path that this client may not read is skipped, and the exit code says so.
	secret := root + "/b/secret"
	if _, err := witness.Create(secret, nil, 0, zk.DigestACL(zk.PermAll, "ann", password)); err != nil {
		t.Fatal(err)
	}
	c := start(t, "", "ls", "-r", root)
	c.Hears(root + "/b/nightly/backup:")
	ends(t, c, exitFailed, secret+": zk: not authenticated", "the list is not complete")

	given(t, h)
	finish(t, a)
	ends(t, w, 0)
	finish(t, b)
	if code, text := printsAt(t, "", "ls", "-r", root+"/a"); code != 0 || !strings.Contains(text, "no lock is in use at or below this path") && !strings.Contains(text, "no such path") {
		t.Errorf("of a free lock, code %d:\n%s", code, text)
	}
	for _, path := range []string{secret, root + "/queue", root + "/config"} {
		_ = witness.Delete(path, -1)
	}
}

// printsAt runs zklock to its end, and returns its exit code and its output.
func printsAt(t *testing.T, servers string, args ...string) (code int, text string) {
	t.Helper()
	cmd := zklockCommand(t, servers, args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// With -status the exit code says whether the lock is held.
func TestLsByExitCode(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	status := func(want int, args ...string) {
		t.Helper()
		if code, text := printsAt(t, "", append([]string{"ls", "-status"}, args...)...); code != want || !strings.Contains(text, path) {
			t.Errorf("%q: exit code %d, want %d:\n%s", args, code, want, text)
		}
	}
	status(exitFree, path)
	h := holder(t, path)
	status(0, path)
	status(0, "-json", path)
	status(0, "-r", path)
	ends(t, start(t, "", "ls", path, "-status"), 0)
	finish(t, h)
	status(exitFree, path)
	status(exitFree, "-json", path)
	if code, _ := printsAt(t, "", "ls", path); code != 0 {
		t.Errorf("without -status: exit code %d", code)
	}
}

func TestLsAsJSON(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	h := holder(t, "-data", "mine", path)
	cmd := zklockCommand(t, "", "ls", "-json", path)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	if len(l.Members) != 1 || l.Kind != "rwlock" || l.Path != path {
		t.Fatalf("%s", text)
	}
	m := l.Members[0]
	if !m.Holding || m.Kind != "write" || m.Data != "mine" || m.Token == 0 || m.Since.IsZero() || !strings.HasPrefix(m.Node, path+"/_c_") {
		t.Errorf("%s", text)
	}
	finish(t, h)

	h = holder(t, "-data", "", path)
	if text, err := zklockCommand(t, "", "ls", "-json", path).Output(); err != nil || strings.Contains(string(text), "data") || !strings.Contains(string(text), "holding") {
		t.Errorf("with no data: %s, %v", text, err)
	}
	finish(t, h)
}

func TestWatchShowsEachChange(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"-permits", "1"}} {
		path, kind := test.Path(t), "rwlock"
		if flags != nil {
			kind = "semaphore, 1 of 1 permits in use"
		}
		w := start(t, "", "watch", path)
		if got := w.Hears(path + ":"); got != "no holder, no waiter" {
			t.Errorf("at the start: %q", got)
		}
		h := holder(t, append(flags, path)...)
		// Changes in quick succession may be shown together.
		shows(t, w, path, kind+", 1 holding, 0 waiting")
		next := start(t, "", append(append([]string{"run"}, flags...), path, "--", "sh", "-c", "read line")...)
		shows(t, w, path, kind+", 1 holding, 1 waiting")
		finish(t, h)
		shows(t, w, path, kind+", 1 holding, 0 waiting")
		finish(t, next)
		for got := ""; !strings.HasSuffix(got, "no holder, no waiter"); {
			got = w.Hears(path + ":")
		}
		w.Signal(os.Interrupt)
		ends(t, w, 0)
	}
}

// shows waits for a table with this headline.
func shows(t *testing.T, w *realzk.Child, path, want string) {
	t.Helper()
	for got := ""; got != want; {
		got = w.Hears(path + ":")
	}
}

func TestWatchContinuesThroughALostSession(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, realzk.Some(t)[0])
	path := test.Path(t)
	w := start(t, p.Addr(), "watch", path)
	shows(t, w, path, "no holder, no waiter")
	id, passwd := p.Session()
	if _, err := realzk.EndSession(id, passwd, p.Addr()); err != nil {
		t.Fatal(err)
	}
	h := holder(t, path)
	shows(t, w, path, "rwlock, 1 holding, 0 waiting")
	finish(t, h)
	w.Signal(os.Interrupt)
	ends(t, w, 0)
}

// A change is shown although the servers do not answer right after it. Its event comes only once.
func TestWatchListsAgainAfterAnOutage(t *testing.T) {
	t.Parallel()
	_, addr := dev(t) // it grants at least 4 s
	p := proxy.For(t, addr)
	path := "/jobs/nightly"
	command := []string{"run", path, "--", "sh", "-c", "echo pid $$; read line"}
	a := start(t, addr, command...)
	a.Hears("pid")
	b := start(t, addr, command...)
	w := start(t, p.Addr(), "watch", "-session-timeout", "3s", path)
	shows(t, w, path, "rwlock, 1 holding, 1 waiting")
	time.Sleep(time.Second) // real: until all events have arrived
	lost := p.Where(func(r proxy.Request) bool { return r.Is(proxy.ListOp) && !r.Watch }, 1, proxy.LoseRequest)
	finish(t, a)
	test.Within(t, soon, "the request is lost", func() { <-lost.Fired() })
	p.Refuse()
	time.Sleep(3200 * time.Millisecond) // real: until the listing has failed, while the session lives
	if err := p.Accept(); err != nil {
		t.Fatal(err)
	}
	test.Within(t, soon, "it shows the next holder", func() { shows(t, w, path, "rwlock, 1 holding, 0 waiting") })
	finish(t, b)
	w.Signal(os.Interrupt)
	ends(t, w, 0)
}

// The directory of the lock is created between the request that finds none and the request that
// watches it.
func TestWatchShowsALockThatIsMadeMeanwhile(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, realzk.Some(t)[0])
	path := test.Path(t)
	second := p.Where(func(r proxy.Request) bool { // the first request watches the number of permits
		return r.Is(proxy.ExistsOp) && r.Watch && slices.Equal(r.Paths, []string{path})
	}, 2, proxy.HoldRequest)
	w := start(t, p.Addr(), "watch", path)
	test.Within(t, soon, "it watches for the directory", func() { <-second.Fired() })
	a, b := holder(t, "-shared", path), holder(t, "-shared", path)
	second.Release()
	shows(t, w, path, "rwlock, 2 holding, 0 waiting")
	time.Sleep(time.Second) // real: until all events have arrived
	finish(t, a)
	test.Within(t, soon, "it shows that one has gone", func() { shows(t, w, path, "rwlock, 1 holding, 0 waiting") })
	finish(t, b)
	w.Signal(os.Interrupt)
	ends(t, w, 0)
}
