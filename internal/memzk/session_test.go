package memzk

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// A session's timeout passes when it was not used for that time. The session expires at the first
// multiple of a tick after that, and one transaction deletes its nodes.
func TestSessionsExpireInTheirBucket(t *testing.T) {
	for name, c := range map[string]struct {
		tick, timeout, used, over time.Duration
	}{
		"not used":                  {tick, 4 * time.Second, 0, 6 * time.Second},
		"used at a multiple":        {tick, 4 * time.Second, 2 * time.Second, 8 * time.Second},
		"used just before":          {tick, 4 * time.Second, 2*time.Second - time.Millisecond, 6 * time.Second},
		"no multiple of a tick":     {tick, 5 * time.Second, time.Second, 8 * time.Second},
		"a tick of a tenth":         {100 * time.Millisecond, 250 * time.Millisecond, 60 * time.Millisecond, 400 * time.Millisecond},
		"raised to two ticks":       {tick, time.Second, 0, 6 * time.Second},
		"lowered to twenty ticks":   {tick, time.Hour, 0, 42 * time.Second},
		"of a fraction of a second": {tick, 4500 * time.Millisecond, 1499 * time.Millisecond, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{Tick: c.tick}, func(t *testing.T, e *Ensemble) {
				m := e.Members()[0]
				r := rawSession(t, m, c.timeout)
				r.mustCreate("/a", jute.FlagEphemeral)
				r.mustCreate("/b", jute.FlagEphemeral)
				time.Sleep(c.used)
				if c.used > 0 {
					r.call(jute.OpPing, nil)
				}
				before := m.Zxid()
				endsAt(t, e, c.over)
				if len(e.Nodes()) != 0 || m.Zxid() != before+1 {
					t.Errorf("nodes %v, zxid %d, before %d", e.Nodes(), m.Zxid(), before)
				}
				if !r.ended(0) {
					t.Error("the connection lives on")
				}
				if _, ok := r.again(m, 0); ok {
					t.Error("the session lives on")
				}
			})
		})
	}
}

// All followers report a new session with their next answers.
func TestTheCreationOfASessionIsReported(t *testing.T) {
	for members, end := range map[int]time.Duration{1: 12 * time.Second, 3: 14 * time.Second} {
		bubble(t, Config{Members: members}, func(t *testing.T, e *Ensemble) {
			time.Sleep(1500 * time.Millisecond) // virtual: the next ping is at two seconds
			rawSession(t, e.Leader(), 10*time.Second)
			endsAt(t, e, end)
		})
	}
}

// A member itself closes a connection that was silent for its timeout, in buckets of ten seconds,
// whatever the leader has recorded.
func TestSilentConnectionsAreClosed(t *testing.T) {
	bubble(t, Config{Members: 3}, func(t *testing.T, e *Ensemble) {
		f := e.Members()[0]
		shy := rawTo(t, f)
		if !shy.silent(19*time.Second) || !shy.ended(time.Second) {
			t.Errorf("a connection without a handshake, after %v", e.now())
		}
		r := rawSession(t, f, 12*time.Second) // closed at 20 s; the leader would expire it at 34 s
		f.Isolate()
		e.Elect(e.Members()[1])
		if !r.ended(10 * time.Second) {
			t.Error("an isolated follower serves forever")
		}
	})
}

// A full listener fails with each of the errors.
type full struct {
	net.Listener
	errs []error
}

func (l *full) Accept() (net.Conn, error) {
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: err}
}

// Serve continues without a free file. After Stop it closes the listener and returns nil, as it
// does when the ensemble is stopped later.
func TestServe(t *testing.T) {
	e := Start(Config{})
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the listener is broken")
	l := &full{tcp, []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, broken}}
	if err := e.Members()[0].Serve(l); !errors.Is(err, broken) {
		t.Errorf("it returns %v, want only what will not pass", err)
	}
	e.Stop()
	if err := e.Members()[0].Serve(tcp); err != nil {
		t.Errorf("after Stop it returns %v", err)
	}
	if _, err := tcp.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Stop the listener accepts with %v", err)
	}
}

func TestWords(t *testing.T) {
	bubble(t, Config{Members: 3, Version: "3.9.3"}, func(t *testing.T, e *Ensemble) {
		m := e.Members()[0]
		r := rawSession(t, m, 10*time.Second)
		r.mustCreate("/a", jute.FlagEphemeral)
		r.call(jute.OpExists, pathBody("/a", true))
		r.call(jute.OpGetChildren, pathBody("/", true))
		for word, want := range map[string]string{
			"ruok": "imok",
			"srvr": "Zxid: 0x100000002\nMode: follower\nNode count: 6\n",
			"mntr": "zk_znode_count\t6\n",
			"wchc": "\n\t/a\n",
			"wchp": "/a\n\t0x",
		} {
			if got, err := m.Word(word); err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %q, %v", word, got, err)
			}
			// A connection returns the same answer, and then ends.
			c := rawTo(t, m)
			c.nc.Write([]byte(word))
			if answer, err := io.ReadAll(c.nc); err != nil || !strings.Contains(string(answer), want) {
				t.Errorf("%s over a connection: %q, %v", word, answer, err)
			}
		}
		if _, err := m.Word("kill"); err == nil {
			t.Error("an unknown word")
		}
		m.Isolate()
		time.Sleep(11 * time.Second)
		if got, _ := m.Word("srvr"); got != notServing {
			t.Errorf("without a leader: %q", got)
		}
	})
}

// The client receives everything that was sent before the connection ends, even if a goroutine
// other than the reading goroutine writes it.
func TestTheReplyToACloseIsNotLostBehindAnEvent(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, e *Ensemble) {
		m := e.Members()[0]
		near, far := net.Pipe() // its Write returns when all bytes have been read
		t.Cleanup(func() { near.Close() })
		go m.ServeConn(far)
		slow, other := &raw{t: t, nc: near}, rawSession(t, m, 4*time.Second)
		if !slow.shake(0, 0, make([]byte, 16), 4*time.Second) {
			t.Fatal("no session")
		}
		slow.call(jute.OpExists, pathBody("/", true))
		synctest.Wait() // the reading goroutine has finished its write, so it does not write the event
		other.call(jute.OpSetData, setBody("/", "x", -1))
		synctest.Wait() // the writing goroutine writes the event
		slow.request(9, jute.OpCloseSession, nil)
		synctest.Wait()
		if p := slow.next(); p.xid != jute.XidEvent {
			t.Fatalf("in place of the event: %+v", p)
		}
		slow.answered(9)
		if p := slow.next(); p.code != 1 {
			t.Errorf("after the close: %+v", p)
		}
	})
}
