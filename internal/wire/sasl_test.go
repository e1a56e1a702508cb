package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/jute"
)

// pass is a mechanism of three responses. The last response proves who the client is.
func pass(context.Context, string) (SASLExchange, error) {
	var kept [][]byte
	return func(challenge []byte) ([]byte, bool, error) {
		kept = append(kept, challenge)
		if want := []string{"", "who?", "prove it"}; string(challenge) != want[len(kept)-1] || string(kept[len(kept)/2]) != want[len(kept)/2] {
			return nil, false, fmt.Errorf("challenge %q: %w", challenge, zk.ErrAuthFailed)
		}
		return make([]byte, 3-len(kept)), len(kept) == 3, nil // the last is empty, and sent
	}, nil
}

// challenge returns the answer to a packet of SASL.
func challenge(xid, code int32, token []byte) []byte {
	reply := append(header(xid), jute.AppendBytes(nil, token)...)
	copy(reply[12:], word(code))
	return frame(reply)
}

// examiner is the server's side of pass. It answers the packets of each connection in order.
func (f *fakeServer) examiner(other func(n int64, c net.Conn, xid int32, step int) bool) {
	steps := map[int64]int{}
	f.answer = func(n int64, c net.Conn, xid, op int32) bool {
		if op != opSASL {
			return false
		}
		f.mu.Lock()
		step := steps[n]
		steps[n]++
		f.mu.Unlock()
		if other == nil || !other(n, c, xid, step) {
			c.Write(challenge(xid, 0, [][]byte{[]byte("who?"), []byte("prove it"), nil}[step]))
		}
		return true
	}
}

// On each connection the exchange comes before every other request, also if there are credentials,
// heartbeats and watches. Its xids are used once. Each answer has a limit of its own.
func TestSASLComesFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.examiner(func(int64, net.Conn, int32, int) bool {
			time.Sleep(timeout / 10) // virtual
			return false
		})
		var hosts []string
		mechanism := func(ctx context.Context, host string) (SASLExchange, error) {
			hosts = append(hosts, host)
			return pass(ctx, host)
		}
		conn := f.start().connect(WithSASL(mechanism), WithDigestAuth("ann", "secret"))
		conn.KeepAlive(true)
		if _, _, _, err := conn.Client().GetW("/"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(10 * time.Second)
			conn.hangUp()
		}
		time.Sleep(10 * time.Second)
		const connections = 4
		var ops []int32
		xids := map[int32]bool{}
		handshakes := 0
		for _, w := range f.written(time.Time{}) {
			if len(w.body) == 44 || len(w.body) == 45 { // a handshake
				handshakes++
				ops = nil
				continue
			}
			if w.op == opSASL && xids[w.xid] {
				t.Errorf("xid %d twice", w.xid)
			}
			xids[w.xid] = w.op == opSASL
			if ops = append(ops, w.op); len(ops) == 4 && !slices.Equal(ops, []int32{opSASL, opSASL, opSASL, opSetAuth}) {
				t.Errorf("connection %d begins with requests %v", handshakes, ops)
			}
		}
		if handshakes != connections || !slices.Equal(hosts, slices.Repeat([]string{"zk1"}, connections)) {
			t.Errorf("%d handshakes, hosts %q", handshakes, hosts)
		}
	})
}

// Connect tells a refusal from an outage: it fails after two refusals in a row, and waits
// otherwise.
func TestSASLRefusedOrNot(t *testing.T) {
	const anything = -1 // a step
	refuse := func(code int32) func(net.Conn, int32) {
		return func(c net.Conn, xid int32) { c.Write(challenge(xid, code, nil)); c.Close() }
	}
	for name, tc := range map[string]struct {
		step    int // at which the server says it
		says    func(c net.Conn, xid int32)
		refused bool
		text    string
	}{
		"-115":                 {2, refuse(codeAuthFailed), true, "the server refuses the credentials"},
		"-124":                 {2, refuse(codeDemandsSASL), true, "the server refuses the credentials"},
		"no SASL":              {anything, refuse(0), true, `challenge ""`},
		"another code":         {1, refuse(-1), false, "the server answered with code -1"},
		"closes":               {1, func(c net.Conn, _ int32) { c.Close() }, false, "the server closed the connection"},
		"silent, first":        {0, func(net.Conn, int32) {}, false, "SASL: no answer within"},
		"silent, last":         {2, func(net.Conn, int32) {}, false, "SASL: no answer within"},
		"a long challenge":     {1, func(c net.Conn, xid int32) { c.Write(challenge(xid, 0, make([]byte, maxSASL))) }, false, "malformed frame"},
		"a short answer":       {1, func(c net.Conn, xid int32) { c.Write(frame(header(xid)[:15])) }, false, "malformed frame"},
		"half an answer":       {1, func(c net.Conn, xid int32) { c.Write(frame(header(xid))[:9]); c.Close() }, false, "the server closed the connection"},
		"without a token":      {1, func(c net.Conn, xid int32) { c.Write(frame(header(xid))) }, true, `challenge ""`},
		"a token beyond frame": {1, func(c net.Conn, xid int32) { c.Write(frame(append(header(xid), word(9)...))) }, true, `challenge ""`},
		"to another request":   {1, func(c net.Conn, xid int32) { c.Write(challenge(xid+1, 0, nil)) }, false, "an answer to another request"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				f := newFakeServer(t)
				f.examiner(func(_ int64, c net.Conn, xid int32, step int) bool {
					if step != tc.step && tc.step != anything {
						return false
					}
					tc.says(c, xid)
					return true
				})
				f.start()
				ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
				defer cancel()
				began := time.Now()
				_, err := Connect(ctx, []string{"zk1:2181"}, 4*time.Second, WithDialer(f.dial), WithSASL(pass))
				took := time.Since(began)
				if err == nil || !strings.Contains(err.Error(), tc.text) || errors.Is(err, zk.ErrAuthFailed) != tc.refused {
					t.Errorf("%v", err)
				}
				if tc.refused && (took > 100*time.Millisecond || f.handshakes.Load() != 2) || !tc.refused && took < 2500*time.Millisecond {
					t.Errorf("after %v and %d attempts", took, f.handshakes.Load())
				}
			})
		})
	}
}

// With several servers, Connect fails when as many attempts in a row were refused.
func TestSASLRefusals(t *testing.T) {
	for servers, want := range map[int]int{1: 2, 2: 2, 5: 5} {
		h := newTestHosts(t.Context(), nil, []string{"a:1", "b:1", "c:1", "d:1", "e:1"}[:servers]...)
		for round := range 3 {
			n := 1
			for ; !h.refused(); n++ {
			}
			if n != want {
				t.Errorf("%d servers, round %d: refused after %d attempts, want %d", servers, round, n, want)
			}
			h.answered()
		}
	}
}

// The mechanism fails before the server is dialed. Its ctx bounds it, and a slow mechanism does not
// make run avoid the server.
func TestSASLMechanismFails(t *testing.T) {
	down := errors.New("no KDC")
	for name, tc := range map[string]struct {
		begin   func(ctx context.Context) error
		refused bool
	}{
		"wrong":      {func(context.Context) error { return fmt.Errorf("no such principal: %w", zk.ErrAuthFailed) }, true},
		"an outage":  {func(context.Context) error { return down }, false},
		"a slow KDC": {func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("%w: %w", down, ctx.Err()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				f := newFakeServer(t)
				f.examiner(nil)
				calls := 0
				mechanism := func(ctx context.Context, host string) (SASLExchange, error) {
					if calls++; calls <= 3 {
						return nil, tc.begin(ctx)
					}
					return pass(ctx, host)
				}
				f.start()
				began := time.Now()
				conn, err := Connect(t.Context(), []string{"zk1:2181", "zk2:2181"}, 3*time.Second, WithDialer(f.dialAny), WithSASL(mechanism))
				if tc.refused {
					if calls != 2 || !errors.Is(err, zk.ErrAuthFailed) || time.Since(began) > 100*time.Millisecond {
						t.Errorf("%d calls, %v, after %v", calls, err, time.Since(began))
					}
					return
				}
				must(t, err)
				defer conn.Close()
				if f.handshakes.Load() != 1 || time.Since(began) > 3*(2*time.Second+lastPause) ||
					slices.ContainsFunc(conn.hosts.list, func(h *host) bool { return h.hangs != 0 || !h.avoided.IsZero() }) {
					t.Errorf("%d handshakes, after %v", f.handshakes.Load(), time.Since(began))
				}
			})
		})
	}
}

// Close ends an exchange at any step, and a mechanism that waits.
func TestCloseDuringSASL(t *testing.T) {
	for _, hangs := range []int{-1, 0, 1, 2} { // the step; -1: the mechanism
		t.Run(fmt.Sprint(hangs), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				f := newFakeServer(t)
				f.examiner(func(n int64, _ net.Conn, _ int32, step int) bool { return n > 1 && step == hangs })
				calls := 0
				mechanism := func(ctx context.Context, host string) (SASLExchange, error) {
					if calls++; calls > 1 && hangs < 0 {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return pass(ctx, host)
				}
				conn := f.start().connect(WithSASL(mechanism))
				conn.hangUp()
				time.Sleep(100 * time.Millisecond)
				began := time.Now()
				if err := conn.Close(); !errors.Is(err, errUnconfirmed) || time.Since(began) > 20*time.Millisecond {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// Once Connect has returned, the first refusal costs no pause, and run tries again as long
// as the servers refuse. Calls learn why.
func TestSASLRefusedLater(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		until := int64(2)
		f.examiner(func(n int64, c net.Conn, xid int32, _ int) bool {
			if n > 1 && n <= until {
				c.Write(challenge(xid, codeAuthFailed, nil))
				c.Close()
				return true
			}
			return false
		})
		conn := f.start().connect(WithSASL(pass))
		reconnect := func() time.Duration {
			epoch, began := conn.Epoch(), time.Now()
			conn.hangUp()
			for conn.Epoch() == epoch {
				time.Sleep(time.Millisecond)
			}
			return time.Since(began)
		}
		time.Sleep(2 * time.Second)
		if took := reconnect(); took > 50*time.Millisecond {
			t.Errorf("after one refusal: %v", took)
		}
		time.Sleep(2 * time.Second)
		until = f.handshakes.Load() + 4
		time.AfterFunc(2*time.Second, func() {
			if err := conn.LastFailure(); !errors.Is(err, zk.ErrAuthFailed) {
				t.Errorf("last failure: %v", err)
			}
		})
		if took := reconnect(); took < 3*refusalPause || took > 4*refusalPause {
			t.Errorf("after four refusals: %v", took)
		}
	})
}

// Whoever ends the session of a dead process authenticates first, as that process did. The handshake
// states no zxid, and asks for the shortest timeout, in case that no more packet arrives.
func TestEndAuthenticates(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.examiner(nil)
		dead := f.start().connect(WithSASL(pass)).own.Load()
		time.Sleep(time.Second)
		began := time.Now()
		must(t, End(t.Context(), []string{"zk1:2181"}, 4*time.Second, *dead, WithDialer(f.dial), WithSASL(pass)))
		hello := encode(nil, int32(0), int64(0), int32(1), dead.ID, dead.Password)
		if got := f.written(began)[0].body; !bytes.Equal(got, hello) {
			t.Errorf("the handshake is %x, want %x", got, hello)
		}
		var ops []int32
		for _, w := range f.written(began)[1:] { // behind the handshake
			ops = append(ops, w.op)
		}
		if want := []int32{opSASL, opSASL, opSASL, opClose}; !slices.Equal(ops, want) {
			t.Errorf("requests %v, want %v", ops, want)
		}
	})
}
