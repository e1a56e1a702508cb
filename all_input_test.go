package zklocks_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// embedding is a lock of a program's, with a Lock of its own, which All would not call.
type embedding struct {
	*rwlock.RWMutex
	_ []string // values of it cannot be compared
}

func (e embedding) Lock(context.Context) (*zklocks.Hold, error) { panic("called") }

// foreign is a Locker of a program's.
type foreign struct{}

func (foreign) Lock(context.Context) (*zklocks.Hold, error)    { panic("called") }
func (foreign) TryLock(context.Context) (*zklocks.Hold, error) { panic("called") }

// Whether a call may ask a server before it fails.
const never, always = false, true

// Bad input is an error at once, which names the lock that it is of. What shows without a server
// takes no request. No node is left in any case.
func TestBadInputOfAll(t *testing.T) {
	inPair(t, func(p *pair) {
		p.Venue.Latency(time.Millisecond) // so that a call that goes on forever meets its deadline
		conn, other := locks.On(p.conn), locks.On(p.other)
		ok := p.lock(0)
		b := p.paths[1]
		owned := reentrant.New(conn, b)
		entered, err := owned.Lock(p.Ctx)
		p.Must(err)
		p.release(p.take(ok.Lock)) // makes the directory

		private := p.Path + "-private"
		_, err = p.Witness.Create(private, nil, 0, zk.WorldACL(zk.PermRead))
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
			of   string // the path that the error is of
			says string
			asks bool
		}{
			"no lock":                       {nil, "", "no lock", never},
			"no lock, nested":               {[]zklocks.Locker{ok, zklocks.All()}, "", "no lock", never},
			"nil":                           {[]zklocks.Locker{ok, nil}, "", "not a lock", never},
			"a nil lock":                    {[]zklocks.Locker{ok, (*rwlock.RWMutex)(nil)}, "", "not a lock", never},
			"a zero lock":                   {[]zklocks.Locker{ok, new(rwlock.RWMutex)}, "", "not a lock", never},
			"a zero reentrant lock":         {[]zklocks.Locker{ok, new(reentrant.Mutex)}, "", "not a lock", never},
			"a foreign lock":                {[]zklocks.Locker{ok, foreign{}}, "", "foreign: not a lock", never},
			"a lock that is embedded":       {[]zklocks.Locker{ok, embedding{RWMutex: p.lock(1)}}, "", "embedding: not a lock", never},
			"a pointer to one":              {[]zklocks.Locker{ok, &embedding{RWMutex: p.lock(1)}}, "", "embedding: not a lock", never},
			"a nil lock that is embedded":   {[]zklocks.Locker{ok, embedding{}}, "", "embedding: not a lock", never},
			"a pointer to it":               {[]zklocks.Locker{ok, new(embedding)}, "", "embedding: not a lock", never},
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
			"no right at the first":         {[]zklocks.Locker{rwlock.New(conn, private, rwlock.WithKazooNames()), ok}, private, "WRITE on " + private, always},
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
			test.AssertEmpty(p, p.Witness, dir)
		}
		if found, _, err := p.Witness.Exists(large); err != nil || found {
			p.Errorf("%s exists: %v, %v", large, found, err)
		}
		p.release(entered)
	})
}

// A context that has ended, and none, are what they are for one lock.
func TestContextsOfAll(t *testing.T) {
	inPair(t, func(p *pair) {
		ended, cancel := context.WithCancel(p.Ctx)
		cancel()
		before := p.proxy.Seen(proxy.AnyOp)
		for _, take := range []func(context.Context) (*zklocks.Hold, error){p.both().Lock, p.both().TryLock} {
			_, err := take(ended)
			p.Is(err, context.Canceled)
			func() {
				defer func() {
					if recover() == nil {
						p.Error("a nil context is no panic")
					}
				}()
				var none context.Context
				_, _ = take(none)
			}()
		}
		if n := p.proxy.Seen(proxy.AnyOp) - before; n != 0 {
			p.Errorf("%d requests", n)
		}
	})
}

// The end of the context, or of the connection, is of none of the locks.
func TestAnEndIsOfNoLock(t *testing.T) {
	for op, take := range map[proxy.Op]func(zklocks.Locker, context.Context) (*zklocks.Hold, error){
		proxy.CreateOp: zklocks.Locker.Lock, proxy.ListOp: zklocks.Locker.TryLock,
	} {
		for end, do := range map[string]func(p *pair, cancel func()){
			"context": func(_ *pair, cancel func()) { cancel() }, "connection": func(p *pair, _ func()) { p.conn.Close() },
		} {
			t.Run(op.String()+", end of the "+end, func(t *testing.T) {
				inPair(t, func(p *pair) {
					p.release(p.take(p.both().Lock)) // so that both directories exist
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
				})
			})
		}
	}
}

func TestAnEndWhileAllWaitIsOfNoLock(t *testing.T) {
	inPair(t, func(p *pair) {
		h := p.take(rwlock.New(locks.On(p.other), p.paths[1]).Lock)
		a := contract.Begin(p, p.Ctx, p.both().Lock)
		p.nodes(1, 2)
		p.conn.Close()
		if err := a.Failed(); !errors.Is(err, zk.ErrClosing) || strings.Contains(err.Error(), ": "+p.paths[1]+": ") {
			p.Error(err)
		}
		p.release(h)
	})
}

// The directory of the second lock does not exist: it is made, and no other.
func TestTheDirectoryOfEachLockIsMade(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		p.Venue.Latency(time.Millisecond) // so that a call that goes on forever meets its deadline
		p.release(p.held(other))          // makes that of the other
		ctx, cancel := context.WithTimeout(p.Ctx, 20*time.Second)
		defer cancel()
		before := p.proxy.Seen(proxy.MkdirOp)
		p.release(contract.Begin(p, ctx, p.both().Lock).Granted())
		if n := p.proxy.Seen(proxy.MkdirOp) - before; n != 1 {
			p.Errorf("%d directories made", n)
		}
	})
}

// The caller may use its slice for something else, and the value as the key of a map.
func TestTheLocksOfAllAreThoseItWasGiven(t *testing.T) {
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

// An error names the path as the program gave it.
func TestThePathInAnError(t *testing.T) {
	inPair(t, func(p *pair) {
		for _, path := range []string{"", "b/", "/"} {
			_, err := semaphore.New(locks.On(p.conn), path, 1).Acquire(p.Ctx, 1)
			if err == nil || !strings.Contains(err.Error(), "acquire "+path+": ") {
				p.Errorf("%q: %v", path, err)
			}
		}
	})
}

// Where it is none, the error is one line of a log all the same.
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

// docs/reference/failures.md: "A right is missing: zk.ErrNoAuth, which names the right."
func TestVerifyAndMultiNameTheRight(t *testing.T) {
	inPair(t, func(p *pair) {
		lock := p.lock(0, zklocks.WithACL(zk.WorldACL(zk.PermAll&^zk.PermRead)))
		p.release(p.take(p.lock(0).Lock)) // makes the directory
		hold := p.take(lock.Lock)
		node := hold.Guard()[0].(*zk.CheckVersionRequest).Path
		_, multi := hold.Multi(p.Ctx, &zk.CreateRequest{Path: "/other", Acl: zk.WorldACL(zk.PermAll)})
		for what, err := range map[string]error{"verify": hold.Verify(p.Ctx), "multi": multi} {
			p.Is(err, zk.ErrNoAuth)
			if err == nil || !strings.Contains(err.Error(), "READ on "+node) {
				p.Errorf("%s: %v does not name READ on the lock's node", what, err)
			}
		}
		p.release(hold)
	})
}
