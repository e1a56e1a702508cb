package contract

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var canceling = []scenario{
	{"Lock, TryLock and Release are canceled at any request, whatever was before", canceledAtARequest, inMemory},
	{"a Lock is canceled at the instant of its grant", canceledAtGrant, 0},
	{"a Lock is canceled while there is no connection", canceledOffline, 0},
	{"a Release with a canceled context deletes the node", releasedByTheDead, 0},
	{"questions to a silent server end with their context", questionsEnd, 0},
}

var holds = []proxy.Action{proxy.HoldRequest, proxy.HoldReply}

// canceledAtARequest cancels a Lock, a TryLock or a Release before it begins, and before and after
// the server does its n-th request, and a Lock that waits: with each of the recipe's options, after up
// to three cycles, alone, with another caller of the value, and with another client. Then a client
// gets the lock at once.
func canceledAtARequest(s *scene) {
	s.Ctx = context.Background() // it takes longer than a scenario
	other := s.client()
	for name, open := range s.options() {
		conn, p := s.Behind()
		for i := range 4 * 3 * 3 {
			cycles, company, what := i%4, i/4%3, []string{"Lock", "TryLock", "Release"}[i/12]
			for n, met := 0, true; met; n++ {
				s.move(test.Path(s))
				c := &client{s, open(locks.On(conn), s.Path), conn, p}
				for range cycles {
					s.release(c.lock())
				}
				mate, rest := c, func() {}
				if company == 2 {
					mate = &client{s, open(locks.On(other.conn), s.Path), other.conn, nil}
				}
				call := map[string]lockFunc{"Lock": c.Lock, "TryLock": c.TryLock}[what]
				if what == "Release" {
					call = only(c.lock().Release)
				}
				switch {
				case company > 0 && what == "Release":
					next := mate.begin(mate.Block)
					rest = func() { s.release(next.Granted()) }
				case company > 0:
					h := mate.block()
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
				case a.Err != nil && (what != "TryLock" || company == 0 || !errors.Is(a.Err, zklocks.ErrBusy)):
					s.Is(a.Err, context.Canceled)
				case a.Err == nil && what != "Release":
					s.release(a.Hold)
				}
				rest()
				began := time.Now()
				s.release((&client{s, open(locks.On(other.conn), s.Path), other.conn, nil}).block())
				if took := time.Since(began); took > time.Second || s.Failed() {
					s.Fatalf("%s, %d cycles, company %d, %s, request %d: the next client waits %v", name, cycles, company, what, n/2, took)
				}
			}
		}
		conn.Close()
	}
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
