package zklocks_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

func TestAll(t *testing.T) { contract.Run(t, two) }

func TestAllOnRealServers(t *testing.T) { contract.RunReal(t, two) }

// two takes a lock with the options of the scenario, and another lock without them.
var two = contract.Recipe{
	Package: "zklocks", Lock: "lock", TryLock: "try lock", Kind: observe.KindWrite,
	New: func(conn *zklocks.Conn, path string, common ...zklocks.Option) contract.Locker {
		var opts []rwlock.Option
		for _, o := range common {
			opts = append(opts, o)
		}
		m := rwlock.New(conn, path, opts...)
		l := zklocks.All(m, reentrant.New(conn, path+"-beside"))
		return contract.Locker{Locker: l, Block: l.Lock, Queue: func(ctx context.Context) ([]zklocks.Member, error) {
			members, err := m.Queue(ctx)
			if err != nil {
				err = fmt.Errorf("zklocks: %w", err)
			}
			return members, err
		}}
	},
	Beside: "-beside", Nodes: 1, Announces: true, Markers: true, Requests: 2, Behind: 6,
}

// A pair is two locks, a client that takes both, and another client.
type pair struct {
	*contract.Stage
	conn  *wire.Conn
	proxy *proxy.Proxy
	other *wire.Conn
	paths [2]string
}

// inPair runs a test of two locks. No node may be left at its end.
func inPair(t *testing.T, play func(p *pair)) {
	t.Helper()
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn, through := s.Behind()
		p := &pair{Stage: s, conn: conn, proxy: through, other: s.Connect(), paths: [2]string{s.Path + "-a", s.Path + "-b"}}
		play(p)
		for _, path := range p.paths {
			test.AssertEmpty(s, s.Witness.Client(), path)
		}
	})
}

func (p *pair) lock(i int, opts ...rwlock.Option) *rwlock.RWMutex {
	return rwlock.New(locks.On(p.conn), p.paths[i], opts...)
}

func (p *pair) both() zklocks.Locker { return zklocks.All(p.lock(0), p.lock(1)) }

// held makes the other client hold lock i.
func (p *pair) held(i int) *zklocks.Hold {
	p.Helper()
	return p.take(rwlock.New(locks.On(p.other), p.paths[i]).Lock)
}

// take acquires a lock that is free.
func (p *pair) take(lock acquire) *zklocks.Hold {
	p.Helper()
	return contract.Begin(p, p.Ctx, lock).Granted()
}

func (p *pair) release(h *zklocks.Hold) { p.Helper(); p.Must(h.Release(p.Ctx)) }

// nodes asserts the numbers of nodes in the two directories.
func (p *pair) nodes(want ...int) {
	p.Helper()
	p.Settle()
	for i, path := range p.paths {
		if names := test.Children(p, p.Witness.Client(), path); len(names) != want[i] {
			p.Fatalf("%s has %q, want %d nodes", path, names, want[i])
		}
	}
}

// own returns the path of the client's node in directory i.
func (p *pair) own(i int) string {
	p.Helper()
	for _, name := range test.Children(p, p.Witness.Client(), p.paths[i]) {
		node := p.paths[i] + "/" + name
		_, stat, err := p.Witness.Client().Exists(node)
		p.Must(err)
		if stat.EphemeralOwner == p.conn.Session() {
			return node
		}
	}
	p.Fatalf("the client has no node in %s", p.paths[i])
	return ""
}

// kill deletes the client's node in directory i, as an operator would.
func (p *pair) kill(i int) {
	p.Helper()
	p.Must(p.Witness.Client().Delete(p.own(i), -1))
	p.CatchUp(p.conn)
}

// withhold takes away the right READ on a node, so that the server withholds its events.
func (p *pair) withhold(node string) {
	p.Helper()
	p.Must(second(p.Witness.Client().SetACL(node, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)))
}

func (p *pair) begin(lock zklocks.Locker) *contract.Attempt[*zklocks.Hold] {
	return contract.Begin(p, p.Ctx, lock.Lock)
}

// each runs a test with the roles of the two locks, and with the roles exchanged.
func each(t *testing.T, play func(p *pair, one, other int)) {
	for one := range 2 {
		t.Run(fmt.Sprintf("lock %d", one), func(t *testing.T) {
			inPair(t, func(p *pair) { play(p, one, 1-one) })
		})
	}
}

// The caller's node is first at one lock, and is deleted while the caller waits for the other lock;
// perhaps the server withholds the event. The caller then queues again at both, behind the client
// that holds the first.
func TestANodeThatIsDeletedAfterItsTurnHasComeGrantsNothing(t *testing.T) {
	for name, withheld := range map[string]bool{"with an event": false, "without an event": true} {
		t.Run(name, func(t *testing.T) {
			each(t, func(p *pair, one, other int) {
				busy := p.held(other)
				waiting := p.begin(p.both())
				p.nodes(1+one, 1+other) // the other lock has two nodes
				node := p.own(one)
				if withheld {
					p.withhold(node)
				}
				p.Must(p.Witness.Client().Delete(node, -1))
				p.CatchUp(p.conn)
				taken := p.held(one)
				if withheld {
					time.Sleep(10 * time.Second) // virtual: what was listed is not trusted any more
				}
				p.release(busy)
				waiting.Waits()
				p.release(taken)
				hold := waiting.Granted()
				p.Must(hold.Verify(p.Ctx))
				p.nodes(1, 1)
				p.release(hold)
			})
		})
	}
}

// A turn is a caller that waits for permits and for lock 0, which the other client holds.
type turn struct {
	*pair
	path         string // of the semaphore of two permits
	theirs       *semaphore.Semaphore
	permit, busy *zklocks.Hold // of the other client
	waiting      *contract.Attempt[*zklocks.Hold]
}

// atTurn runs a test of a caller that wants some permits. If it wants one, its turn at the
// semaphore has come.
func atTurn(t *testing.T, wants int, lockFirst bool, play func(*turn)) {
	inPair(t, func(p *pair) {
		c := &turn{pair: p, path: p.Path + "-permits"}
		c.theirs = semaphore.New(locks.On(p.other), c.path, 2)
		c.permit, c.busy = p.take(c.theirs.Locker(1).Lock), p.held(0)
		some := []zklocks.Locker{semaphore.New(locks.On(p.conn), c.path, 2).Locker(wants), p.lock(0)}
		if lockFirst {
			slices.Reverse(some)
		}
		c.waiting = p.begin(zklocks.All(some...))
		p.nodes(2, 0)
		play(c)
		test.AssertEmpty(p, p.Witness.Client(), c.path+"/queue")
	})
}

// The number of permits shrinks after the caller's turn at the semaphore has come; perhaps the
// server withholds the event, and the caller reads the number at its next recheck. The turn comes
// again when the other permit is released.
func TestALimitThatShrinksAfterTheTurnHasComeIsKept(t *testing.T) {
	for name, how := range map[string]struct{ lockFirst, withheld bool }{
		"permit first": {}, "lock first": {lockFirst: true}, "without an event": {withheld: true},
	} {
		t.Run(name, func(t *testing.T) {
			atTurn(t, 1, how.lockFirst, func(c *turn) {
				if how.withheld {
					const long = 10 * time.Second
					time.Sleep(long) // virtual: the first recheck has passed
					c.withhold(c.path)
					c.Must(second(c.Witness.Client().Set(c.path, []byte("1"), -1)))
					c.Must(second(c.Witness.Client().SetACL(c.path, open, -1)))
					time.Sleep(long) // virtual: the recheck
				} else {
					c.Must(c.theirs.Resize(c.Ctx, 1))
				}
				c.CatchUp(c.conn)
				before := c.proxy.Seen(proxy.AnyOp)
				c.release(c.busy)
				c.waiting.Waits()
				if n := c.proxy.Seen(proxy.AnyOp) - before; n > 5 && !how.withheld { // it reads the number, lists, and sets its watches
					c.Errorf("%d requests after one of two turns has come", n)
				}
				c.release(c.permit)
				c.release(c.waiting.Granted())
			})
		})
	}
}

// The turn at one lock ends when the turn at the other comes: both events arrive at once. In each
// round the client may process either event first.
func TestALimitThatShrinksWithTheLastTurnIsKept(t *testing.T) {
	atDesk(t, func(d *desk) {
		theirs := semaphore.New(d.other, "/permits", 2)
		both := zklocks.All(semaphore.New(d.conn, "/permits", 2).Locker(1), d.lock)
		for range 20 {
			permit, busy := take(d, theirs.Locker(1).Lock), take(d, rwlock.New(d.other, path).Lock)
			granted := make(chan *zklocks.Hold)
			go func() { granted <- take(d, both.Lock) }()
			synctest.Wait()
			time.Sleep(100 * time.Millisecond) // virtual: its turn at the semaphore has come
			d.host.Freeze()
			must(d, theirs.Resize(d.Context(), 1))
			release(d, busy)
			d.host.Thaw()
			select {
			case <-granted:
				d.Fatal("granted, although the only permit is held")
			case <-time.After(time.Second): // virtual: the events have arrived
			}
			release(d, permit)
			release(d, <-granted)
			must(d, theirs.Resize(d.Context(), 2))
		}
	})
}

// One lock fails while the caller waits for both: the call returns at once, and its error names
// that lock.
func TestAFailureAtOneLockEndsTheWaitForTheOthers(t *testing.T) {
	atTurn(t, 2, true, func(c *turn) {
		c.Must(c.theirs.Resize(c.Ctx, 1))
		c.CatchUp(c.conn)
		c.release(c.busy)
		err := c.waiting.Failed()
		c.Is(err, semaphore.ErrTooMany)
		if !strings.Contains(err.Error(), ": "+c.path+": ") {
			c.Errorf("error %q, want one of %s", err, c.path)
		}
		c.nodes(0, 0)
		c.release(c.permit)
	})
}

// A writer of the process is queued behind a node of All that is first in this directory, at once
// or after a wait, and that waits for the other lock. Its observers receive Queued with one node
// ahead.
func TestAFollowerOfANodeWhoseTurnHasComeCountsOne(t *testing.T) {
	for name, waited := range map[string]bool{"at once": false, "after a wait": true} {
		t.Run(name, func(t *testing.T) {
			inPair(t, func(p *pair) {
				events := contract.NewEvents(p)
				a := p.lock(0, zklocks.WithObserver(events.Observer()))
				busy, told := p.held(1), 0
				var waiting *contract.Attempt[*zklocks.Hold]
				if waited {
					first := p.held(0)
					waiting = p.begin(zklocks.All(a, p.lock(1)))
					p.nodes(2, 2)
					p.release(first)
					told = 1
				} else {
					waiting = p.begin(zklocks.All(a, p.lock(1)))
				}
				p.nodes(1, 2)
				next := p.begin(a)
				p.nodes(2, 2)
				if queued := contract.Next[observe.Queued](events, told+1); queued.Ahead != 1 {
					p.Errorf("%+v, want one node ahead", queued)
				}
				p.release(busy)
				hold := waiting.Granted()
				next.Waits()
				p.release(hold)
				p.release(next.Granted())
				events.Balanced()
			})
		})
	}
}

// TryLock reads each of the locks before it writes.
func TestATryOfSeveralThatFindsOneTakenWritesNothing(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		p.release(p.take(p.both().Lock)) // creates the directories
		taken := p.held(one)
		before := p.proxy.Seen(proxy.CreateOp)
		_, err := p.both().TryLock(p.Ctx)
		p.Is(err, zklocks.ErrBusy)
		if err != nil && !strings.HasSuffix(err.Error(), p.paths[one]+": busy") {
			p.Errorf("error %q, want one of %s", err, p.paths[one])
		}
		if n := p.proxy.Seen(proxy.CreateOp) - before; n != 0 {
			p.Errorf("%d creates", n)
		}
		p.nodes(other, one)
		// Nor does TryLock store the number of a semaphore that does not exist.
		fresh := p.paths[other] + "-fresh"
		var some [2]zklocks.Locker
		some[other], some[one] = semaphore.New(locks.On(p.conn), fresh, 5).Locker(1), p.lock(one)
		_, err = zklocks.All(some[0], some[1]).TryLock(p.Ctx)
		p.Is(err, zklocks.ErrBusy)
		if there, _, err := p.Witness.Client().Exists(fresh); there || err != nil {
			p.Errorf("%s exists: %v, %v", fresh, there, err)
		}
		p.release(taken)
	})
}

// Another client acquires one of the locks between TryLock's reads and its create.
func TestATryOfSeveralThatCameSecondLeavesNothing(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		create := p.proxy.Next(proxy.CreateOp, proxy.HoldRequest)
		p.release(p.held(0)) // creates the directories
		p.release(p.held(1))
		try := contract.Begin(p, p.Ctx, p.both().TryLock)
		<-create.Fired()
		taken := p.held(one)
		create.Release()
		p.Is(try.Failed(), zklocks.ErrBusy)
		p.nodes(other, one)
		p.release(taken)
	})
}

// An All of two Alls takes the locks of both.
func TestAllMayBeNested(t *testing.T) {
	inPair(t, func(p *pair) {
		third := p.Path + "-c"
		nested := zklocks.All(zklocks.All(p.lock(0)), zklocks.All(zklocks.All(p.lock(1).RLocker()), rwlock.New(locks.On(p.conn), third)))
		hold := p.take(nested.Lock)
		p.nodes(1, 1)
		if n := len(test.Children(p, p.Witness.Client(), third)); n != 1 || len(hold.Guard()) != 3 {
			p.Errorf("%d nodes in the third directory, guard %v", n, hold.Guard())
		}
		p.release(hold)
		test.AssertEmpty(p, p.Witness.Client(), third)
	})
}

// embedding is a program's type that embeds a lock and has its own Lock, which All would not call.
type embedding struct {
	*rwlock.RWMutex
	_ []string // makes values incomparable
}

func (e embedding) Lock(context.Context) (*zklocks.Hold, error) { panic("called") }

// foreign is a program's own Locker.
type foreign struct{}

func (foreign) Lock(context.Context) (*zklocks.Hold, error)    { panic("called") }
func (foreign) TryLock(context.Context) (*zklocks.Hold, error) { panic("called") }

// These say whether a call may send a request before it fails.
const never, always = false, true

// Bad input is an error at once, which names the lock. If the mistake can be found without a
// server, no request is sent. No node is left in any case.
func TestBadInputOfAll(t *testing.T) {
	inPair(t, func(p *pair) {
		p.Venue.Latency(time.Millisecond) // so that a call that never returns reaches its deadline
		conn, other := locks.On(p.conn), locks.On(p.other)
		ok := p.lock(0)
		b := p.paths[1]
		owned := reentrant.New(conn, b)
		entered, err := owned.Lock(p.Ctx)
		p.Must(err)
		p.release(p.take(ok.Lock)) // creates the directory

		private := p.Path + "-private"
		_, err = p.Witness.Client().Create(private, nil, 0, zk.WorldACL(zk.PermRead))
		p.Must(err)
		stored := p.Path + "-stored"
		p.release(p.take(semaphore.New(other, stored, 3).Locker(1).Lock))
		mismatch := p.Path + "-mismatch"
		p.release(p.take(semaphore.New(other, mismatch, 3).Locker(1).Lock))
		lists := semaphore.New(conn, stored, 3) // knows the stored number
		p.release(p.take(lists.Locker(3).Lock))
		copied := new(rwlock.RWMutex)
		reflect.ValueOf(copied).Elem().Set(reflect.ValueOf(p.lock(1)).Elem())
		large, full := p.Path+"-large", zklocks.WithData(make([]byte, 510<<10))

		for name, c := range map[string]struct {
			all  []zklocks.Locker
			of   string // the path that the error names
			says string
			asks bool
		}{
			"no lock":                       {nil, "", "no lock", never},
			"no lock, nested":               {[]zklocks.Locker{ok, zklocks.All()}, "", "no lock", never},
			"nil":                           {[]zklocks.Locker{ok, nil}, "", "<nil>: not a lock that New of rwlock, reentrant or semaphore has made, or nil", never},
			"a nil lock":                    {[]zklocks.Locker{ok, (*rwlock.RWMutex)(nil)}, "", "*rwlock.RWMutex: not a lock", never},
			"a zero lock":                   {[]zklocks.Locker{ok, new(rwlock.RWMutex)}, "", "not a lock", never},
			"a zero reentrant lock":         {[]zklocks.Locker{ok, new(reentrant.Mutex)}, "", "not a lock", never},
			"a foreign lock":                {[]zklocks.Locker{ok, foreign{}}, "", "foreign: not a lock", never},
			"a lock that is embedded":       {[]zklocks.Locker{ok, embedding{RWMutex: p.lock(1)}}, "", "embedding: not a lock", never},
			"a nil lock that is embedded":   {[]zklocks.Locker{ok, embedding{}}, "", "embedding: not a lock", never},
			"a struct around the interface": {[]zklocks.Locker{ok, struct{ zklocks.Locker }{}}, "", "not a lock", never},
			"a copy":                        {[]zklocks.Locker{ok, copied}, "", "not a lock", never},
			"one that is nested":            {[]zklocks.Locker{ok, zklocks.All(foreign{})}, "", "foreign: not a lock", never},
			"a lock twice":                  {[]zklocks.Locker{p.lock(1), ok, p.lock(1)}, b, "twice", never},
			"a value twice":                 {[]zklocks.Locker{ok, ok}, p.paths[0], "twice", never},
			"for reading and for writing":   {[]zklocks.Locker{ok.RLocker(), ok}, p.paths[0], "twice", never},
			"a lock twice, nested":          {[]zklocks.Locker{zklocks.All(ok, p.lock(1)), zklocks.All(zklocks.All(p.lock(1)))}, b, "twice", never},
			"a lock of another recipe":      {[]zklocks.Locker{ok, reentrant.New(conn, p.paths[0])}, p.paths[0], "twice", never},
			"a lock and permits":            {[]zklocks.Locker{rwlock.New(conn, b), semaphore.New(conn, b, 3).Locker(1)}, b, "twice", never},
			"permits and a lock":            {[]zklocks.Locker{semaphore.New(conn, b, 3).Locker(1), rwlock.New(conn, b)}, b, "twice", never},
			"permits in a queue of permits": {[]zklocks.Locker{semaphore.New(conn, b, 3).Locker(1), semaphore.New(conn, b+"/queue", 3).Locker(1)}, b + "/queue", "twice", never},
			"a lock in a queue of permits":  {[]zklocks.Locker{ok, semaphore.New(conn, b, 3).Locker(1), reentrant.New(conn, b+"/queue")}, b + "/queue", "twice", never},
			"two connections":               {[]zklocks.Locker{ok, rwlock.New(other, b)}, b, "connection", never},
			"no connection":                 {[]zklocks.Locker{ok, rwlock.New(nil, b).RLocker()}, b, "connection is nil", never},
			"no connection of permits":      {[]zklocks.Locker{ok, semaphore.New(nil, b, 3).Locker(1)}, b, "connection is nil", never},
			"an invalid path":               {[]zklocks.Locker{ok, reentrant.New(conn, "b/")}, "b/", "relative", never},
			"no permit":                     {[]zklocks.Locker{ok, semaphore.New(conn, b, 3).Locker(0)}, b, "at least 1", never},
			"too many permits":              {[]zklocks.Locker{ok, semaphore.New(conn, b, 3).Locker(4)}, b, "only 3", never},
			"more than are stored":          {[]zklocks.Locker{ok, lists.Locker(4)}, stored, "only 3", always},
			"another number is stored":      {[]zklocks.Locker{ok, semaphore.New(conn, mismatch, 2).Locker(1)}, mismatch, "3 permits, not 2", always},
			"a lock that is held":           {[]zklocks.Locker{ok, owned}, b, "holds the lock already", never},
			"no right":                      {[]zklocks.Locker{ok, rwlock.New(conn, private)}, private, "WRITE on " + private, always},
			"no right at the first":         {[]zklocks.Locker{rwlock.New(conn, private, rwlock.WithKazooNames()), ok}, private, "CREATE on " + private, always},
			"more data than a request holds": {[]zklocks.Locker{
				ok, rwlock.New(conn, b, full), rwlock.New(conn, p.Path, full).RLocker(),
			}, "", "3 nodes make a request", never},
			"more nodes than a request holds": {[]zklocks.Locker{
				semaphore.New(conn, large, 5000).Locker(3000), semaphore.New(conn, large+"-2", 5000).Locker(3000),
			}, "", "6000 nodes make a request", never},
			"more nodes than an int counts": {[]zklocks.Locker{
				ok, semaphore.New(conn, large, math.MaxInt).Locker(math.MaxInt), semaphore.New(conn, large+"-2", math.MaxInt).Locker(math.MaxInt),
			}, "", fmt.Sprint(uint64(math.MaxInt)+1) + " nodes make a request of over 1000000 bytes", never},
		} {
			both := zklocks.All(c.all...)
			for op, take := range map[string]func(context.Context) (*zklocks.Hold, error){"lock": both.Lock, "try lock": both.TryLock} {
				before := p.proxy.Seen(proxy.AnyOp)
				ctx, cancel := context.WithTimeout(p.Ctx, time.Second)
				hold, err := take(ctx)
				cancel()
				asked := p.proxy.Seen(proxy.AnyOp) > before
				if err == nil {
					p.release(hold)
					p.Errorf("%s, %s: no error", name, op)
					continue
				}
				if text := err.Error(); hold != nil || asked && !c.asks || !strings.HasPrefix(text, "zklocks: "+op+" ") ||
					c.of != "" && !strings.Contains(text, ": "+c.of+": ") || !strings.Contains(text, c.says) {
					p.Errorf("%s, %s: hold %v, error %q, asked %v; want one %q that says %q", name, op, hold, err, asked, c.of, c.says)
				}
				p.nodes(0, 1)
			}
		}
		for _, dir := range []string{private, p.Path, stored + "/queue", mismatch + "/queue"} {
			test.AssertEmpty(p, p.Witness.Client(), dir)
		}
		if found, _, err := p.Witness.Client().Exists(large); err != nil || found {
			p.Errorf("%s exists: %v, %v", large, found, err)
		}
		p.release(entered)
	})
}

// The error of a canceled context, or of a closed connection, names none of the locks, at whichever
// request of a call it comes, or during the wait.
func TestAnEndIsOfNoLock(t *testing.T) {
	for op, take := range map[proxy.Op]func(zklocks.Locker, context.Context) (*zklocks.Hold, error){
		proxy.CreateOp: zklocks.Locker.Lock, proxy.ListOp: zklocks.Locker.TryLock, proxy.ReadOp: zklocks.Locker.Lock,
	} {
		for end, do := range map[string]func(p *pair, cancel func()){
			"context": func(_ *pair, cancel func()) { cancel() }, "connection": func(p *pair, _ func()) { p.conn.Close() },
		} {
			if op == proxy.ReadOp && end == "context" {
				continue // this error says what the call has waited for
			}
			t.Run(op.String()+", end of the "+end, func(t *testing.T) {
				inPair(t, func(p *pair) {
					p.release(p.take(p.both().Lock)) // so that both directories exist
					busy := p.held(1)
					f := p.proxy.Next(op, proxy.HoldRequest)
					a := contract.Begin(p, p.Ctx, func(ctx context.Context) (*zklocks.Hold, error) { return take(p.both(), ctx) })
					<-f.Fired()
					do(p, a.Cancel)
					err := a.Failed()
					f.Cancel()
					for _, path := range p.paths {
						if strings.Contains(err.Error(), ": "+path+": ") {
							p.Error(err)
						}
					}
					p.release(busy)
				})
			})
		}
	}
}

// The caller may change its slice afterwards, and may use the Locker as the key of a map.
func TestAllCopiesItsListOfLocks(t *testing.T) {
	inPair(t, func(p *pair) {
		some := []zklocks.Locker{p.lock(0), p.lock(1)}
		both := zklocks.All(some...)
		some[0] = p.lock(1)
		p.release(p.take(both.Lock))
		if n := len(map[zklocks.Locker]int{both: 1, zklocks.All(some...): 2}); n != 2 {
			p.Errorf("%d keys in a map, want 2", n)
		}
	})
}

// An invalid path in an error does not break the line of a log.
func TestABadPathInAnError(t *testing.T) {
	inPair(t, func(p *pair) {
		conn := locks.On(p.conn)
		for _, path := range []string{"/a\nb", "/\x1b[2J", "/\xff", "/" + strings.Repeat("a", 1<<20)} {
			_, alone := rwlock.New(conn, path).Lock(p.Ctx)
			_, both := zklocks.All(p.lock(0), reentrant.New(conn, path)).Lock(p.Ctx)
			for call, err := range map[string]error{
				"lock": alone, "all": both, "request": conn.RequestRelease(p.Ctx, zklocks.Member{Path: path}),
			} {
				if text := fmt.Sprint(err); err == nil || len(text) > 1000 || strings.ContainsAny(text, "\n\x1b") || !utf8.ValidString(text) {
					p.Errorf("%s of %.20q: %.200q", call, path, text)
				}
			}
		}
	})
}

// A hold of several locks is released as a whole, so a request to any of its nodes asks for all. A
// re-entry of one of the locks is asked by a request to the node of that lock alone. A downgrade
// and a release ask for nothing.
func TestAHoldOfSeveralIsAskedAtAnyOfThem(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		rw, r := p.lock(one), reentrant.New(locks.On(p.conn), p.paths[other])
		for _, ask := range [][]int{{one}, {other}, {one, other}, nil} {
			hold := p.take(zklocks.All(rw, r).Lock)
			again := p.take(func(ctx context.Context) (*zklocks.Hold, error) { return r.Lock(hold.Context(ctx)) })
			asked, too := hold.ReleaseRequested(), again.ReleaseRequested()
			p.CatchUp(p.conn)
			p.Must(rw.Downgrade(p.Ctx, hold))
			p.CatchUp(p.conn)
			p.asked("after the downgrade", asked, false)
			for _, i := range ask {
				node := p.own(i)
				_, stat, err := p.Witness.Client().Exists(node)
				p.Must(err)
				p.Must(locks.On(p.other).RequestRelease(p.Ctx, zklocks.Member{Path: node, Token: stat.Czxid}))
			}
			p.CatchUp(p.conn)
			p.asked(fmt.Sprint("the hold, by requests to ", ask), asked, ask != nil)
			p.asked(fmt.Sprint("the re-entry, by requests to ", ask), too, slices.Contains(ask, other))
			p.Must(hold.Verify(p.Ctx))
			p.release(hold)
			p.release(again)
			p.asked(fmt.Sprint("after the release, by requests to ", ask), asked, ask != nil)
		}
	})
}

func (p *pair) asked(what string, asked <-chan struct{}, want bool) {
	p.Helper()
	select {
	case <-asked:
		if !want {
			p.Errorf("asked to release: %s", what)
		}
	default:
		if want {
			p.Errorf("not asked to release: %s", what)
		}
	}
}

// The node of one lock is deleted. Whichever call detects that, the hold is lost by this lock, and
// the other lock is released.
func TestTheLossOfOneLockIsTheLossOfAll(t *testing.T) {
	for what, detect := range map[string]func(p *pair, hold *zklocks.Hold, kill func()) error{
		"Lost": func(p *pair, hold *zklocks.Hold, kill func()) error {
			lost, ctx := hold.Lost(), hold.Context(p.Ctx)
			p.CatchUp(p.conn) // the watches are set
			kill()
			p.Lost(lost)
			return context.Cause(ctx)
		},
		"Verify": func(p *pair, hold *zklocks.Hold, kill func()) error {
			p.Must(hold.Verify(p.Ctx))
			kill()
			return hold.Verify(p.Ctx)
		},
		"Multi": func(p *pair, hold *zklocks.Hold, kill func()) error {
			p.Must(second(hold.Multi(p.Ctx)))
			kill()
			return second(hold.Multi(p.Ctx))
		},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(p *pair, one, other int) {
				hold := p.take(p.both().Lock)
				guarded := hold.Guard()
				p.Must(second(p.conn.Client().Multi(guarded...)))
				err := detect(p, hold, func() { p.kill(one) })
				p.Is(err, zklocks.ErrLost)
				if !strings.Contains(err.Error(), p.paths[one]+": lock lost") {
					p.Errorf("%v does not say that %s is lost", err, p.paths[one])
				}
				p.nodes(0, 0) // the hold has deleted the other node
				p.Is(second(p.conn.Client().Multi(guarded...)), zk.ErrNoNode)
				p.Is(hold.Err(), zklocks.ErrLost)
				if !hold.ValidUntil().IsZero() {
					p.Errorf("deadline %v", hold.ValidUntil())
				}
				p.Is(hold.Release(p.Ctx), zklocks.ErrLost)
				p.Is(hold.Release(p.Ctx), zklocks.ErrReleased)
			})
		})
	}
}

// The client lacks READ on one node. The error names that right (docs/reference/failures.md), and
// the hold continues.
func TestAQuestionOfSeveralLocksNamesTheNodeThatMayNotBeRead(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		hold := p.take(p.both().Lock)
		node, readable := p.own(one), p.own(other)
		p.withhold(node)
		for what, err := range map[string]error{"Verify": hold.Verify(p.Ctx), "Multi": second(hold.Multi(p.Ctx))} {
			p.Is(err, zk.ErrNoAuth)
			if text := err.Error(); !strings.Contains(text, "READ on "+node) || strings.Contains(text, readable) {
				p.Errorf("%s: %v; the node is %s", what, err, node)
			}
		}
		p.release(hold)
		p.nodes(0, 0)
	})
}

// The reply to the create is lost, and one of the nodes is deleted before the client searches for
// them: it does not use the other.
func TestNodesOfSeveralLocksAreUsedTogether(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		p.release(p.take(p.both().Lock)) // creates the directories
		cut := p.proxy.Next(proxy.CreateOp, proxy.CutAfterCommit)
		search := p.proxy.Next(proxy.CheckOp, proxy.HoldRequest)
		waiting := p.begin(p.both())
		<-cut.Fired()
		<-search.Fired()
		left := p.own(other)
		p.Must(p.Witness.Client().Delete(p.own(one), -1))
		search.Release()
		hold := waiting.Granted()
		p.nodes(1, 1)
		if node := p.own(other); node == left {
			p.Errorf("%s is held, although what was created with it is gone", node)
		}
		p.Must(hold.Verify(p.Ctx))
		p.release(hold)
	})
}

// The holder of several locks may enter the reentrant lock again, on its goroutine or with the
// context of the hold. The lock is released with the last hold on it.
func TestAReentrantLockAmongSeveral(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		r := reentrant.New(locks.On(p.conn), p.paths[one])
		some := [2]zklocks.Locker{p.lock(0), p.lock(1)}
		some[one] = r
		hold, err := zklocks.All(some[0], some[1]).Lock(p.Ctx)
		p.Must(err)
		if n := r.HoldCount(); n != 1 {
			p.Errorf("%d holds, want 1", n)
		}
		again, err := r.TryLock(p.Ctx)
		p.Must(err)
		carried := p.take(func(ctx context.Context) (*zklocks.Hold, error) { return r.TryLock(hold.Context(ctx)) })
		p.nodes(1, 1)
		p.release(carried)
		ended := hold.Context(p.Ctx)
		p.release(hold)
		p.nodes(other, one) // the reentrant lock alone
		_, err = r.TryLock(ended)
		p.Is(err, zklocks.ErrReleased)
		if n := r.HoldCount(); n != 1 || !again.Held() {
			p.Errorf("%d holds, want 1: %v", n, again.Err())
		}
		p.release(again)
		p.nodes(0, 0)
		if n := r.HoldCount(); n != 0 {
			p.Errorf("%d holds after the last one", n)
		}
	})
}

// All refuses a reentrant lock that the caller already holds. If the caller has lost it and not
// released it, All returns ErrLost, as Lock does.
func TestAReentrantLockThatIsHeldIsRefused(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		r := reentrant.New(locks.On(p.conn), p.paths[one])
		both := zklocks.All(r, p.lock(other))
		hold, err := r.Lock(p.Ctx)
		p.Must(err)
		for who, err := range map[string]error{
			"the goroutine": second(both.Lock(p.Ctx)), "the context": contract.Begin(p, hold.Context(p.Ctx), both.Lock).Failed(),
		} {
			if err == nil || !strings.Contains(err.Error(), ": "+p.paths[one]+": the caller holds the lock already") {
				p.Errorf("%s: error %v", who, err)
			}
		}
		waiting := p.begin(both) // another goroutine is another owner
		p.nodes(1+other, 1+one)
		waiting.Waits()
		p.release(hold)
		p.release(waiting.Granted())

		hold, err = r.Lock(p.Ctx)
		p.Must(err)
		p.kill(one)
		p.Is(hold.Verify(p.Ctx), zklocks.ErrLost)
		p.Is(second(r.Lock(p.Ctx)), zklocks.ErrLost)
		p.Is(second(both.Lock(p.Ctx)), zklocks.ErrLost)
		p.Is(hold.Release(p.Ctx), zklocks.ErrLost)
	})
}

// The answer to Verify or Multi arrives after the hold was released, which has deleted one of the
// nodes. The other node belongs to a re-entry, which continues.
func TestAQuestionThatComesAfterTheReleaseEndsNoOtherHold(t *testing.T) {
	for _, what := range []string{"Verify", "Multi"} {
		t.Run(what, func(t *testing.T) {
			each(t, func(p *pair, one, other int) {
				r := reentrant.New(locks.On(p.conn), p.paths[one])
				hold, err := zklocks.All(r, p.lock(other)).Lock(p.Ctx)
				p.Must(err)
				again, err := r.Lock(p.Ctx)
				p.Must(err)
				slow := p.proxy.Next(proxy.CheckOp, proxy.Answer(-127)) // the client sends the request again a moment later
				asked := contract.Begin(p, p.Ctx, func(ctx context.Context) (any, error) {
					if what == "Multi" {
						return hold.Multi(ctx)
					}
					return nil, hold.Verify(ctx)
				})
				<-slow.Fired()
				p.release(hold)
				p.Is(asked.Failed(), zklocks.ErrReleased)
				if err := again.Verify(p.Ctx); err != nil {
					p.Errorf("the re-entry has ended: %v", err)
				}
				p.nodes(other, one) // the reentrant lock alone
				p.release(again)
			})
		})
	}
}

// The loss of any lock of All also ends a hold on the reentrant lock alone. Until the holder has
// released it, "if the caller owned the lock and lost it" holds for reentrant.Mutex.Lock, also with
// the context of the hold.
func TestAReentryEndsWithTheLossOfAll(t *testing.T) {
	each(t, func(p *pair, dies, _ int) {
		r := reentrant.New(locks.On(p.conn), p.paths[0])
		hold, err := zklocks.All(r, p.lock(1)).Lock(p.Ctx)
		p.Must(err)
		again, err := r.Lock(p.Ctx)
		p.Must(err)
		ctx, lost := hold.Context(p.Ctx), hold.Lost()
		p.CatchUp(p.conn) // the watches are set
		p.kill(dies)
		p.Lost(lost)
		p.Is(again.Err(), zklocks.ErrLost)
		p.Is(second(r.Lock(ctx)), zklocks.ErrLost)
		p.Is(second(r.Lock(p.Ctx)), zklocks.ErrLost)
		p.Is(again.Release(p.Ctx), zklocks.ErrLost)
		p.Is(hold.Release(p.Ctx), zklocks.ErrLost)
		p.nodes(0, 0)
		p.release(p.take(r.Lock)) // the reentrant lock has no owner
	})
}

// Downgrade admits readers to its own lock only.
func TestADowngradeOfOneOfSeveral(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		some := [2]*rwlock.RWMutex{p.lock(0), p.lock(1)}
		hold := p.take(zklocks.All(some[0], some[1]).Lock)
		token := hold.Token()
		p.Must(some[one].Downgrade(p.Ctx, hold))
		if hold.Token() != token {
			p.Errorf("token %d, before %d", hold.Token(), token)
		}
		p.Must(hold.Verify(p.Ctx))
		read := p.take(rwlock.New(locks.On(p.other), p.paths[one]).RLock)
		_, err := rwlock.New(locks.On(p.other), p.paths[other]).TryRLock(p.Ctx)
		p.Is(err, zklocks.ErrBusy)
		if err := p.lock(one).Downgrade(p.Ctx, hold); err == nil {
			p.Error("downgraded through another value")
		}
		p.release(read)
		p.release(hold)
		p.nodes(0, 0)
		p.Is(some[other].Downgrade(p.Ctx, hold), zklocks.ErrReleased)
	})
}

// The observers of each lock receive the same events as without All.
func TestTheObserversOfEachLockAreNotified(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		events := [2]*contract.Events{contract.NewEvents(p), contract.NewEvents(p)}
		var some [2]zklocks.Locker
		for i := range some {
			some[i] = p.lock(i, zklocks.WithObserver(events[i].Observer()))
		}
		both := zklocks.All(some[0], some[1])
		hold := p.take(both.Lock)
		for i := range some {
			granted := contract.Next[observe.Granted](events[i], 1)
			if granted.Path != p.paths[i] || granted.Token != hold.Token() || granted.Joined || p.paths[i]+"/"+granted.Node != p.own(i) {
				p.Errorf("%+v", granted)
			}
		}
		p.release(hold)
		for i := range some {
			contract.Next[observe.Released](events[i], 1)
		}

		hold = p.take(both.Lock)
		lost := hold.Lost()
		p.CatchUp(p.conn) // the watches are set
		p.kill(other)
		p.Lost(lost)
		for i := range some {
			p.Is(contract.Next[observe.Lost](events[i], 1).Cause, zklocks.ErrLost)
		}
		p.Is(hold.Release(p.Ctx), zklocks.ErrLost)

		busy := p.held(one)
		waiting := p.begin(both)
		p.nodes(1+other, 1+one)
		time.Sleep(time.Second) // virtual: the wait lasts
		waiting.Stop()
		p.nodes(other, one)
		for i := range some {
			failed := contract.Next[observe.Failed](events[i], 1)
			if failed.Path != p.paths[i] || failed.Waited != time.Since(waiting.Began) || failed.Cause != waiting.Err {
				p.Errorf("%+v, want that of %s", failed, p.paths[i])
			}
			events[i].Balanced()
		}
		p.release(busy)
	})
}

// The reply to a create is lost, and the caller lacks the right to list: the error says so, and the
// value remains usable. The node remains until the session ends.
func TestALostReplyWithoutTheRightToList(t *testing.T) {
	for name, open := range map[string]func(*zklocks.Conn, string) zklocks.Locker{
		"one": func(c *zklocks.Conn, path string) zklocks.Locker { return rwlock.New(c, path) },
		"all": func(c *zklocks.Conn, path string) zklocks.Locker {
			return zklocks.All(rwlock.New(c, path+"-besides"), rwlock.New(c, path))
		},
		"all, the other way round": func(c *zklocks.Conn, path string) zklocks.Locker {
			return zklocks.All(rwlock.New(c, path), rwlock.New(c, path+"-besides"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				conn, through := s.Behind()
				_, err := s.Witness.Client().Create(s.Path, nil, 0, zk.WorldACL(zk.PermAll))
				s.Must(err)
				lock := open(locks.On(conn), s.Path)
				usable := func() { // with the right, which is then missing
					s.Must(second(s.Witness.Client().SetACL(s.Path, zk.WorldACL(zk.PermAll), -1)))
					for range 2 {
						hold, err := lock.Lock(s.Ctx)
						s.Must(err)
						s.Must(hold.Release(s.Ctx))
					}
					s.Must(second(s.Witness.Client().SetACL(s.Path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)))
				}
				usable()
				cut := through.Next(proxy.CreateOp, proxy.CutAfterCommit)
				_, err = lock.Lock(s.Ctx)
				<-cut.Fired()
				s.Is(err, zk.ErrNoAuth)
				if err == nil || !strings.Contains(err.Error(), "READ on "+s.Path+",") {
					s.Errorf("%v does not name the right and the path", err)
				}
				// A client that may list a directory finds and deletes the node that it has created
				// there.
				besides := func() {
					s.Settle()
					if left, _, err := s.Witness.Client().Children(s.Path + "-besides"); err != zk.ErrNoNode && (err != nil || len(left) > 0) {
						s.Errorf("%q stay besides, %v", left, err)
					}
				}
				besides()
				s.Expire(conn)
				s.Settle()
				usable()
				// ctx is canceled before the session has a connection again.
				cut = through.Next(proxy.CreateOp, proxy.CutAfterCommit)
				ctx, cancel := context.WithCancel(s.Ctx)
				gone := contract.Begin(s, ctx, lock.Lock)
				<-cut.Fired()
				cancel()
				s.Is(gone.Failed(), context.Canceled)
				time.Sleep(time.Second) // virtual: the client is connected again
				besides()
				s.Expire(conn)
				s.Settle()
				usable()
				_, err = s.Witness.Client().SetACL(s.Path, zk.WorldACL(zk.PermAll), -1)
				s.Must(err)
				s.EmptyNow()
			})
		})
	}
}

// Lock is called with the context of another hold, which was derived from the context of the
// caller's own hold. The other hold was lost first, and the caller released its own hold later. So
// the error does not match ErrReleased.
func TestLockWithTheContextOfAnotherLostHold(t *testing.T) {
	inPair(t, func(p *pair) {
		r := reentrant.New(locks.On(p.conn), p.paths[0])
		own, err := r.Lock(p.Ctx)
		p.Must(err)
		other := p.take(p.lock(1).Lock)
		ctx, lost := other.Context(own.Context(p.Ctx)), other.Lost()
		p.CatchUp(p.conn)
		p.Must(p.Witness.Client().Delete(contract.NodeOf(other), -1))
		<-lost
		p.Is(other.Release(p.Ctx), zklocks.ErrLost)
		p.Must(own.Release(p.Ctx))
		if _, err := r.Lock(ctx); errors.Is(err, zklocks.ErrReleased) || !errors.Is(err, context.Canceled) {
			p.Errorf("%v", err)
		}
	})
}

// Twenty clients take random pairs of eight locks, in random order.
func TestPairsInRandomOrderDoNotDeadlock(t *testing.T) {
	const clients, mutexes = 20, 8
	contract.InMemory(t, "", func(s *contract.Stage) {
		s.Venue.Latency(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(s.Ctx, 12*time.Second)
		defer cancel()
		begun := time.Now()
		var last [clients]atomic.Int64 // when each client held last
		var inside [mutexes]atomic.Int32
		var all sync.WaitGroup
		for i := range clients {
			conn := locks.On(s.Connect())
			var own []zklocks.Locker
			for m := range mutexes {
				own = append(own, reentrant.New(conn, s.Path+"-"+string(rune('a'+m))))
			}
			r := rand.New(rand.NewPCG(uint64(i), 1))
			all.Go(func() {
				for {
					two := r.Perm(mutexes)[:2]
					hold, err := zklocks.All(own[two[0]], own[two[1]]).Lock(ctx)
					if err != nil {
						return
					}
					for _, m := range two {
						if n := inside[m].Add(1); n != 1 {
							s.Errorf("%d hold one lock", n)
						}
					}
					last[i].Store(int64(time.Since(begun)))
					time.Sleep(time.Duration(r.IntN(int(10 * time.Millisecond)))) // virtual: the hold takes a while
					for _, m := range two {
						inside[m].Add(-1)
					}
					_ = hold.Release(context.Background())
				}
			})
		}
		all.Wait()
		for i := range last {
			if idle := time.Since(begun) - time.Duration(last[i].Load()); idle > 5*time.Second {
				s.Errorf("client %d held last %v before the end", i, idle)
			}
		}
	})
}
