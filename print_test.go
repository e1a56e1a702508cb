package zklocks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// logged returns what package log/slog writes of a value. The numbers of nodes and tokens are
// replaced.
func logged(v any) string {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
	_, text, _ := strings.Cut(strings.TrimSpace(b.String()), "msg=x ")
	return regexp.MustCompile(`(node|token|host|pid)=\S+`).ReplaceAllString(text, "$1=…")
}

func TestHoldsAndMembersAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		conn := zktest.NewServer(t).Host("a").Connect(t, 10*time.Second)
		rw, sem, re := rwlock.New(conn, "/rw"), semaphore.New(conn, "/sem", 5), reentrant.New(conn, "/re")
		for _, c := range []struct {
			lock         func(context.Context) (*zklocks.Hold, error)
			text, logged string
		}{
			{rw.Lock, "write /rw", "v.path=/rw v.kind=write v.node=… v.token=…"},
			{rw.RLock, "read /rw", "v.path=/rw v.kind=read v.node=… v.token=…"},
			{sem.Locker(3).Lock, "3 permits /sem", "v.path=/sem v.kind=permits v.permits=3 v.node=… v.token=…"},
			{re.Lock, "mutex /re", "v.path=/re v.kind=mutex v.node=… v.token=…"},
			{zklocks.All(rw.RLocker(), re).Lock, "read /rw and /re", `v.path="/rw and /re" v.kind=read v.node=… v.token=…`},
		} {
			h, err := c.lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if text, want := fmt.Sprint(h), fmt.Sprintf("%s, token %d", c.text, h.Token()); text != want {
				t.Errorf("%q, want %q", text, want)
			}
			if text := logged(h); text != c.logged {
				t.Errorf("logged as %s, want %s", text, c.logged)
			}
			if err := h.Release(ctx); err != nil {
				t.Error(err)
			}
			if text := fmt.Sprint(h); !strings.HasPrefix(text, c.text) {
				t.Errorf("%q after its release", text)
			}
		}
		if text := fmt.Sprint(new(zklocks.Hold)) + logged((*zklocks.Hold)(nil)); text != `no lockv="no lock"` {
			t.Errorf("the zero and the nil Hold are shown as %q", text)
		}

		h, err := rw.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		queue, err := rw.Queue(ctx)
		if err != nil || len(queue) != 1 {
			t.Fatal(queue, err)
		}
		m := queue[0]
		if text := fmt.Sprint(m); !strings.Contains(text, "path="+m.Path) || !strings.Contains(text, "holding=true") || strings.Contains(text, fmt.Sprint(m.Data)) {
			t.Errorf("a member is shown as %s", text)
		}
		if text := logged(m); !strings.HasPrefix(text, "v.path="+m.Path+" v.kind=write v.permits=1 v.holding=true v.since=2000-01-01T") {
			t.Errorf("a member is logged as %s", text)
		}
		if err := h.Release(ctx); err != nil {
			t.Error(err)
		}
	})
}

// An event is shown with its own fields, not only with the fields of its lock.
func TestEventsAreShown(t *testing.T) {
	lock := observe.LockInfo{Path: "/x", Kind: observe.KindWrite, Permits: 1}
	for _, c := range []struct {
		event fmt.Stringer
		want  string
	}{
		{observe.Called{LockInfo: lock}, "write /x"},
		{observe.Queued{LockInfo: lock, Ahead: 3}, "ahead=3"},
		{observe.Granted{LockInfo: lock, Waited: time.Second, Joined: true}, "waited=1s joined=true"},
		{observe.Failed{LockInfo: lock, Waited: time.Second, Cause: errors.New("why")}, "waited=1s cause=why"},
		{observe.Released{LockInfo: lock, Held: time.Second}, "held=1s"},
		{observe.Lost{LockInfo: lock, Held: time.Second, Cause: errors.New("why")}, "held=1s cause=why"},
	} {
		if text := c.event.String(); !strings.Contains(text, "/x") || !strings.Contains(text, c.want) {
			t.Errorf("%T is shown as %s, want %s", c.event, text, c.want)
		}
		if text := logged(c.event); !strings.Contains(text, "path=/x") {
			t.Errorf("%T is logged as %s", c.event, text)
		}
	}
}
