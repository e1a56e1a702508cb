package contract

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var canceling = []scenario{
	{"a free Lock is canceled at any step", canceledWhenFree, alone},
	{"a waiting Lock is canceled at any step", canceledInLine, alone},
	{"a Lock and its Release are canceled at any request, whatever was before", canceledAtARequest, inMemory},
	{"a Lock is canceled at the instant of its grant", canceledAtGrant, 0},
	{"a Lock is canceled while there is no connection", canceledOffline, 0},
	{"a Release with a canceled context deletes the node", releasedByTheDead, 0},
	{"questions to a silent server end with their context", questionsEnd, 0},
}

var holds = []proxy.Action{proxy.HoldRequest, proxy.HoldReply}

func canceledWhenFree(s *scene) {
	c := s.behind()
	ops := []proxy.Op{proxy.CreateOp, proxy.ReadOp, proxy.ListOp}
	s.eachRequest(holds, ops, []proxy.Op{proxy.CreateOp}, func(action proxy.Action, op proxy.Op, n int) (met bool) {
		s.move(test.Path(s)) // a lock that no process has used yet, so its directory does not exist
		c := c.again()
		f := c.proxy.Nth(op, n, action)
		a := c.begin(c.Lock)
		select {
		case <-f.Fired():
			met = true
			a.Stop()
			f.Release()
			c.catchUp() // receives what the proxy has held back
		case <-a.Done:
			f.Cancel()
			s.release(a.Granted())
		}
		s.Empty()
		return met
	})
}

// canceledAtARequest cancels a Lock or a Release before it begins, and before and after the server
// does its n-th request, and a Lock that waits: with each of the recipe's options, after up to three
// cycles, with another caller of the value and without. Then another client gets the lock at once.
func canceledAtARequest(s *scene) {
	s.Ctx = context.Background() // it takes longer than a scenario
	other := s.client()
	for name, open := range s.options() {
		conn, p := s.Behind()
		for i := range 4 * 2 * 2 {
			cycles, two, releases := i%4, i/4%2 == 1, i/8 == 1
			for n, met := 0, true; met; n++ {
				s.move(test.Path(s))
				c := &client{s, open(locks.On(conn), s.Path), conn, p}
				for range cycles {
					s.release(c.lock())
				}
				call, rest := c.Lock, func() {}
				if releases {
					call = only(c.lock().Release)
				}
				switch {
				case two && releases:
					next := c.begin(c.Block)
					rest = func() { s.release(next.Granted()) }
				case two:
					h := c.block()
					rest = func() { s.release(h) }
				}
				s.Settle()
				ctx, cancel := context.WithCancel(s.Ctx)
				f := p.Nth(proxy.AnyOp, max(1, n/2), holds[n%2])
				if met = n < 2; met {
					cancel()
				}
				a := Begin(s, ctx, call)
				select {
				case <-f.Fired():
					met = true
				case <-a.Done:
				case <-time.After(time.Second): // it waits
				}
				cancel()
				a.Ended()
				f.Cancel()
				f.Release()
				switch {
				case a.Err != nil:
					s.Is(a.Err, context.Canceled)
				case !releases:
					s.release(a.Hold)
				}
				rest()
				began := time.Now()
				s.release((&client{s, open(locks.On(other.conn), s.Path), other.conn, nil}).block())
				if took := time.Since(began); took > time.Second || s.Failed() {
					s.Fatalf("%s, %d cycles, two callers %v, release %v, request %d: the next client waits %v", name, cycles, two, releases, n/2, took)
				}
			}
		}
		conn.Close()
	}
}

func canceledInLine(s *scene) {
	holder, c := s.client(), s.behind()
	s.release(c.lock()) // creates the directories
	ops := []proxy.Op{proxy.CreateOp, proxy.ListOp, proxy.ReadOp}
	s.eachRequest(holds, ops, ops, func(action proxy.Action, op proxy.Op, n int) (met bool) {
		h := holder.block()
		ahead := s.Dir + "/" + test.Children(s, s.Witness.Client(), s.Dir)[0]
		f := c.proxy.Nth(op, n, action)
		// The last request before the wait watches the node ahead.
		end := c.proxy.Where(func(r proxy.Request) bool {
			return r.Is(proxy.ReadOp) && slices.Contains(r.Paths, ahead)
		}, 1, proxy.HoldReply)
		a := c.begin(c.Lock)
		select {
		case <-f.Fired():
			met = true
		case <-end.Fired():
		}
		a.Stop()
		f.Cancel()
		end.Cancel()
		c.catchUp()
		s.inLine(1)
		s.release(h)
		return met
	})

	h := holder.block()
	a := c.wait(2)
	c.waits(a)
	a.Stop()
	s.inLine(1)
	s.release(h)
}

// canceledAtGrant lets the grant and the cancellation race. A caller that gets an error must have
// released the lock. Otherwise the next round cannot begin.
func canceledAtGrant(s *scene) {
	const rounds = 60
	holder, c := s.client(), s.client()
	events := c.observed()
	granted := 0
	for i := range rounds {
		h := holder.block()
		a := c.wait(2)
		var both sync.WaitGroup
		both.Go(func() { s.Must(h.Release(s.Ctx)) })
		both.Go(func() {
			for range i * i {
				runtime.Gosched()
			}
			a.Stop()
		})
		both.Wait()
		if a.Err == nil {
			granted++
			s.Must(a.Hold.Verify(s.Ctx))
			s.release(a.Hold)
		}
	}
	s.Logf("granted in %d of %d rounds", granted, rounds)
	events.Balanced()
}

func canceledOffline(s *scene) {
	c := s.behind()
	s.release(c.lock())

	c.proxy.Refuse()
	a := c.begin(c.Lock)
	s.release(s.client().lock()) // takes longer than the call of c needs to begin its wait
	a.Stop()
	s.Must(c.proxy.Accept())
	c.catchUp()
	s.Empty()

	h := s.client().block()
	for _, hole := range []func(){c.proxy.Mute, c.proxy.Refuse} {
		a := c.wait(2)
		hole()
		a.Stop()
		c.proxy.Unmute()
		s.Must(c.proxy.Accept())
		s.inLine(1)
	}
	s.release(h)
}

func releasedByTheDead(s *scene) {
	c := s.client()
	dead, cancel := context.WithCancel(s.Ctx)
	cancel()
	for range 10 {
		h := c.lock()
		if err := h.Release(dead); err != nil {
			s.Is(err, context.Canceled)
		}
		if h.Held() {
			s.Error("held after the release")
		}
		s.Empty()
	}
}

func questionsEnd(s *scene) {
	c := s.behind()
	h := c.lock()
	c.proxy.Mute()
	verify := c.ask(h.Verify)
	queue := c.ask(c.look)
	asked := []*attempt{verify, queue, c.ask(multi(h))}
	if !s.r.Joins { // readers that join send no request
		asked = append(asked, c.begin(c.TryLock))
	}
	for _, a := range asked {
		a.Waits()
		a.Stop()
		s.Is(a.Err, context.Canceled)
	}
	c.proxy.Unmute()
	c.catchUp()
	s.release(h)
}
