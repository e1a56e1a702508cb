package zklocks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

// The node of one lock is deleted: the hold is lost, and the other lock is given back.
func TestTheLossOfOneLockIsTheLossOfAll(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		hold := p.take(p.both().Lock)
		lost, ctx := hold.Lost(), hold.Context(p.Ctx)
		p.CatchUp(p.conn) // the watches are set
		p.kill(one)
		select {
		case <-lost:
		default:
			p.Fatal("the hold goes on")
		}
		p.Is(context.Cause(ctx), zklocks.ErrLost)
		p.Is(hold.Err(), zklocks.ErrLost)
		p.nodes(0, 0) // also that of the other
		if !hold.ValidUntil().IsZero() {
			p.Errorf("deadline %v", hold.ValidUntil())
		}
		p.Is(hold.Release(p.Ctx), zklocks.ErrLost)
		p.Is(hold.Release(p.Ctx), zklocks.ErrReleased)
	})
}

var questions = map[string]func(p *pair, hold *zklocks.Hold) error{
	"Verify": func(p *pair, hold *zklocks.Hold) error { return hold.Verify(p.Ctx) },
	"Multi":  func(p *pair, hold *zklocks.Hold) error { _, err := hold.Multi(p.Ctx); return err },
}

// No watch is set, so only the server can tell that a node is gone: whichever it is.
func TestAQuestionOfSeveralLocksIsOfAllTheirNodes(t *testing.T) {
	for what, ask := range questions {
		t.Run(what, func(t *testing.T) {
			each(t, func(p *pair, one, other int) {
				hold := p.take(p.both().Lock)
				p.Must(ask(p, hold))
				p.kill(one)
				p.Is(ask(p, hold), zklocks.ErrLost)
				p.nodes(0, 0)
				p.Is(hold.Release(p.Ctx), zklocks.ErrLost)
			})
		})
	}
}

// One node may not be read, and the error names that one; the hold goes on.
func TestAQuestionOfSeveralLocksNamesTheNodeThatMayNotBeRead(t *testing.T) {
	for what, ask := range questions {
		t.Run(what, func(t *testing.T) {
			each(t, func(p *pair, one, other int) {
				hold := p.take(p.both().Lock)
				node, readable := p.own(one), p.own(other)
				_, err := p.Witness.SetACL(node, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
				p.Must(err)
				err = ask(p, hold)
				p.Is(err, zk.ErrNoAuth)
				if text := err.Error(); !strings.Contains(text, "READ on "+node) || strings.Contains(text, readable) {
					p.Errorf("%v; the node is %s", err, node)
				}
				p.release(hold)
				p.nodes(0, 0)
			})
		})
	}
}

// A transaction behind the guard passes only while all the nodes exist.
func TestTheGuardOfSeveralLocksIsOfAllTheirNodes(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		hold := p.take(p.both().Lock)
		guarded := hold.Guard()
		_, err := p.conn.Multi(guarded...)
		p.Must(err)
		p.kill(one)
		_, err = p.conn.Multi(guarded...)
		p.Is(err, zk.ErrNoNode)
		p.Is(hold.Release(p.Ctx), zklocks.ErrLost)
		p.nodes(0, 0)
	})
}

// The reply to the create is lost. The client finds all of its nodes, or none of them counts.
func TestNodesOfSeveralLocksAreFoundAfterALostReply(t *testing.T) {
	t.Run("all are there", func(t *testing.T) {
		inPair(t, func(p *pair) {
			p.release(p.take(p.both().Lock)) // makes the directories
			cut := p.proxy.Next(proxy.CreateOp, proxy.CutAfterCommit)
			hold := p.take(p.both().Lock)
			<-cut.Fired()
			p.nodes(1, 1)
			p.Must(hold.Verify(p.Ctx))
			p.release(hold)
		})
	})
	t.Run("one was deleted", func(t *testing.T) {
		each(t, func(p *pair, one, other int) {
			p.release(p.take(p.both().Lock)) // makes the directories
			cut := p.proxy.Next(proxy.CreateOp, proxy.CutAfterCommit)
			search := p.proxy.Next(proxy.CheckOp, proxy.HoldRequest)
			waiting := contract.Begin(p, p.Ctx, p.both().Lock)
			<-cut.Fired()
			<-search.Fired()
			left := p.own(other)
			p.Must(p.Witness.Delete(p.own(one), -1))
			search.Release()
			hold := waiting.Granted()
			p.nodes(1, 1)
			if node := p.own(other); node == left {
				p.Errorf("%s is held, although what was created with it is gone", node)
			}
			p.Must(hold.Verify(p.Ctx))
			p.release(hold)
		})
	})
	t.Run("the caller has gone", func(t *testing.T) {
		inPair(t, func(p *pair) {
			p.release(p.take(p.both().Lock)) // makes the directories
			reply := p.proxy.Next(proxy.CreateOp, proxy.HoldReply)
			waiting := contract.Begin(p, p.Ctx, p.both().Lock)
			<-reply.Fired()
			waiting.Stop()
			p.nodes(1, 1)
			reply.Release()
			p.nodes(0, 0)
		})
	})
}

// The holder of several locks may enter the reentrant one again, on its goroutine or with the
// context of the hold. The lock stays until the last hold on it is released.
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

// A caller that holds a reentrant lock cannot take it once more together with others.
func TestAReentrantLockThatIsHeldIsRefused(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		r := reentrant.New(locks.On(p.conn), p.paths[one])
		both := zklocks.All(r, p.lock(other))
		hold, err := r.Lock(p.Ctx)
		p.Must(err)
		refused := func(err error) {
			p.Helper()
			if err == nil || !strings.Contains(err.Error(), ": "+p.paths[one]+": the caller holds the lock already") {
				p.Errorf("error %v", err)
			}
		}
		_, err = both.Lock(p.Ctx)
		refused(err)
		refused(contract.Begin(p, hold.Context(p.Ctx), both.Lock).Failed())
		waiting := contract.Begin(p, p.Ctx, both.Lock) // another goroutine is another owner
		p.nodes(1+other, 1+one)
		waiting.Waits()
		p.release(hold)
		p.release(waiting.Granted())
	})
}

// A caller that has lost a reentrant lock and not released it hears that from All as from Lock.
func TestAReentrantLockThatIsLostIsRefusedAsLost(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		r := reentrant.New(locks.On(p.conn), p.paths[one])
		hold, err := r.Lock(p.Ctx)
		p.Must(err)
		p.kill(one)
		p.Is(hold.Verify(p.Ctx), zklocks.ErrLost)
		_, err = r.Lock(p.Ctx)
		p.Is(err, zklocks.ErrLost)
		_, err = zklocks.All(r, p.lock(other)).Lock(p.Ctx)
		p.Is(err, zklocks.ErrLost)
		p.Is(hold.Release(p.Ctx), zklocks.ErrLost)
	})
}

// The answer to Verify comes after the release of the hold, which has deleted one of the nodes. The
// other is that of a re-entry, which goes on.
func TestAQuestionThatComesAfterTheReleaseEndsNoOtherHold(t *testing.T) {
	for what, ask := range map[string]func(p *pair, ctx context.Context, hold *zklocks.Hold) error{
		"Verify": func(p *pair, ctx context.Context, hold *zklocks.Hold) error { return hold.Verify(ctx) },
		"Multi": func(p *pair, ctx context.Context, hold *zklocks.Hold) error {
			_, err := hold.Multi(ctx)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(p *pair, one, other int) {
				r := reentrant.New(locks.On(p.conn), p.paths[one])
				hold, err := zklocks.All(r, p.lock(other)).Lock(p.Ctx)
				p.Must(err)
				again, err := r.Lock(p.Ctx)
				p.Must(err)
				slow := p.proxy.Next(proxy.CheckOp, proxy.Answer(-127)) // the client asks again a moment later
				asked := contract.Begin(p, p.Ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, ask(p, ctx, hold) })
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

// A hold on the reentrant lock alone ends with the loss of the others.
func TestAReentryEndsWithTheLossOfAnotherLock(t *testing.T) {
	inPair(t, func(p *pair) {
		r := reentrant.New(locks.On(p.conn), p.paths[0])
		hold, err := zklocks.All(r, p.lock(1)).Lock(p.Ctx)
		p.Must(err)
		again, err := r.Lock(p.Ctx)
		p.Must(err)
		lost := hold.Lost()
		p.CatchUp(p.conn) // the watches are set
		p.kill(1)
		p.Lost(lost)
		p.Is(again.Err(), zklocks.ErrLost)
		p.Is(again.Release(p.Ctx), zklocks.ErrLost)
		p.Is(hold.Release(p.Ctx), zklocks.ErrLost)
		p.nodes(0, 0)
		p.release(p.take(r.Lock)) // its owner has let it go
	})
}

// Downgrade lets readers in to that one lock, and to no other.
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

// The observers of each lock are told of it, as if it had been taken alone.
func TestTheObserversOfEachLockAreTold(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		events := contract.NewEvents(p)
		some := [2]zklocks.Locker{p.lock(0), p.lock(1)}
		some[one] = p.lock(one, zklocks.WithObserver(events.Observer()))
		both := zklocks.All(some[0], some[1])
		hold := p.take(both.Lock)
		granted := contract.Next[observe.Granted](events, 1)
		if granted.Path != p.paths[one] || granted.Token != hold.Token() || granted.Joined || p.paths[one]+"/"+granted.Node != p.own(one) {
			p.Errorf("%+v", granted)
		}
		p.release(hold)
		contract.Next[observe.Released](events, 1)

		hold = p.take(both.Lock)
		lost := hold.Lost()
		p.CatchUp(p.conn) // the watches are set
		p.kill(other)
		p.Lost(lost)
		p.Is(contract.Next[observe.Lost](events, 1).Cause, zklocks.ErrLost)
		p.Is(hold.Release(p.Ctx), zklocks.ErrLost)
		events.Balanced()
		test.AssertEmpty(p, p.Witness, p.paths[one])
	})
}

// The error says which of the locks was lost.
func TestALossNamesTheLock(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		hold := p.take(p.both().Lock)
		p.kill(one)
		err := hold.Release(p.Ctx)
		p.Is(err, zklocks.ErrLost)
		hold = p.take(p.both().Lock)
		lost := hold.Lost()
		p.CatchUp(p.conn)
		p.kill(one)
		<-lost
		if err := hold.Err(); err == nil || !strings.Contains(err.Error(), p.paths[one]) {
			p.Errorf("%v does not name %s", err, p.paths[one])
		}
		_ = hold.Release(p.Ctx)
		hold = p.take(p.both().Lock)
		p.kill(one)
		err = hold.Verify(p.Ctx) // which asks before any event tells
		p.Is(err, zklocks.ErrLost)
		if err == nil || !strings.Contains(err.Error(), p.paths[one]+": lock lost") {
			p.Errorf("%v does not say that %s is lost", err, p.paths[one])
		}
		_ = hold.Release(p.Ctx)
	})
}

// Mutex.Lock: ErrLost "when the caller owns the lock but has lost it", with the context of the
// hold.
func TestLockWithTheContextOfALostAll(t *testing.T) {
	for name, single := range map[string]bool{"alone": true, "all": false} {
		for kill := range 2 {
			if single && kill == 1 {
				continue
			}
			t.Run(name+" "+string(rune('0'+kill)), func(t *testing.T) {
				inPair(t, func(p *pair) {
					r := reentrant.New(locks.On(p.conn), p.paths[0])
					take := zklocks.All(r, p.lock(1)).Lock
					if single {
						take = r.Lock
					}
					hold, err := take(p.Ctx)
					p.Must(err)
					ctx, lost := hold.Context(p.Ctx), hold.Lost()
					p.CatchUp(p.conn)
					p.kill(kill)
					<-lost
					p.Settle()
					_, err = r.Lock(ctx)
					p.Is(err, zklocks.ErrLost)
					_, err = r.Lock(p.Ctx)
					p.Is(err, zklocks.ErrLost)
					_ = hold.Release(p.Ctx)
				})
			})
		}
	}
}

// The reply to a create is lost, and the caller has not the right to list: the error says so, and
// the value can be used as before. The node stays as long as the session, and no longer.
func TestALostReplyWithoutTheRightToList(t *testing.T) {
	for name, open := range map[string]func(*zklocks.Conn, string) zklocks.Locker{
		"rwlock":    func(c *zklocks.Conn, path string) zklocks.Locker { return rwlock.New(c, path) },
		"reentrant": func(c *zklocks.Conn, path string) zklocks.Locker { return reentrant.New(c, path) },
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
				_, err := s.Witness.Create(s.Path, nil, 0, zk.WorldACL(zk.PermAll&^zk.PermRead))
				s.Must(err)
				lock := open(locks.On(conn), s.Path)
				twice := func() {
					for range 2 {
						hold, err := lock.Lock(s.Ctx)
						s.Must(err)
						s.Must(hold.Release(s.Ctx))
					}
				}
				twice()
				cut := through.Next(proxy.CreateOp, proxy.CutAfterCommit)
				_, err = lock.Lock(s.Ctx)
				<-cut.Fired()
				s.Is(err, zk.ErrNoAuth)
				if err == nil || !strings.Contains(err.Error(), "READ on "+s.Path+",") {
					s.Errorf("%v does not name the right and the path", err)
				}
				// Where it may list, it finds and deletes what it has created.
				besides := func() {
					s.Settle()
					if left, _, err := s.Witness.Children(s.Path + "-besides"); err != zk.ErrNoNode && (err != nil || len(left) > 0) {
						s.Errorf("%q stay besides, %v", left, err)
					}
				}
				besides()
				s.Expire(conn)
				s.Settle()
				twice()
				// The caller goes before its session has a connection again.
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
				twice()
				_, err = s.Witness.SetACL(s.Path, zk.WorldACL(zk.PermAll), -1)
				s.Must(err)
				s.EmptyNow()
			})
		})
	}
}

// The context that was lost is that of another hold: what became of the own one later is not why it
// has ended.
func TestLockWithTheContextOfAnotherLostHold(t *testing.T) {
	inPair(t, func(p *pair) {
		r := reentrant.New(locks.On(p.conn), p.paths[0])
		own, err := r.Lock(p.Ctx)
		p.Must(err)
		other := p.take(p.lock(1).Lock)
		ctx, lost := other.Context(own.Context(p.Ctx)), other.Lost()
		p.CatchUp(p.conn)
		p.Must(p.Witness.Delete(contract.NodeOf(other), -1))
		<-lost
		p.Is(other.Release(p.Ctx), zklocks.ErrLost)
		p.Must(own.Release(p.Ctx))
		if _, err := r.Lock(ctx); errors.Is(err, zklocks.ErrReleased) || !errors.Is(err, context.Canceled) {
			p.Errorf("%v", err)
		}
	})
}
