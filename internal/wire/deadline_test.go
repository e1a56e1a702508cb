package wire

// Models of the servers judge the deadline (deadline.go). They show that the deadline that the
// state computes is never after the end that the leader counts: for the delays of packets, the
// phases of pings, and the moments at which a follower stops or a leader is deposed, that the seeds
// draw. They cannot show that real servers behave like the models: that a follower sends its notes
// with its next answer, that half a tick is at most T/4, and that a successor gives every session a
// full T. The soak measures that (TestSoak with -kind takeover). Nor do they show that the times
// given to the state are right: see heartbeat_test.go.

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A follower reports the sessions in use with its answers to the
// leader's pings. At some time it is cut off or paused. Whatever it has answered until then, the
// client's deadline must not be after the end that the leader counts. The leader pings as rarely as
// a session timeout of two ticks allows: each half tick, and up to 3 % of T for its own work.
func play(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo)+1)) }

	c := newClock()
	zero := c.now()
	l := newState(c.now)

	const halfTick, work = timeout / 4, timeout / 32
	hop := between(1, timeout/8>>r.IntN(24)) // the longest time from the client to the follower
	phase := between(0, halfTick)            // of the leader's pings
	stop := between(timeout/8, 3*timeout)    // the follower stops here
	last := between(1, 20)                   // or right after it has answered so many quorum requests, whichever is sooner
	soonest := r.IntN(2) == 0                // the client sends each quorum request as soon as it can prove something

	handshake := between(1, hop)
	l.begin(session, timeout, zero) // the leader notices it at handshake

	arrived, back := handshake, handshake
	var notes []time.Duration // when the follower received each packet
	for at := time.Duration(1); ; at += between(1, timeout/3) {
		quorum := r.IntN(2) == 0
		if quorum && soonest {
			at = max(at, back+settle(timeout))
		}
		arrived = max(arrived, at+between(1, hop)) // one stream, in order
		answered := arrived
		if arrived >= stop {
			break
		}
		notes = append(notes, arrived)
		if quorum {
			answered++ // to the leader and back, which takes no time in this model
			if last--; last == 0 {
				stop = arrived + 1
			}
		}
		back = max(back, answered+between(1, hop))
		c.run(max(0, back-c.mono))
		l.answered(zero.Add(at), quorum)
		if r.IntN(2) == 0 {
			at = max(at, back) // a caller that waits for the answer
		}
	}

	heard := handshake
	for ping := phase; ping < stop; ping += halfTick + between(0, work) {
		for _, n := range notes {
			if n <= ping {
				heard = max(heard, ping)
			}
		}
		for len(notes) > 0 && notes[0] <= ping {
			notes = notes[1:] // each note is passed on once
		}
	}
	end := heard + timeout
	if deadline := l.Deadline(session).Sub(zero); deadline > end {
		t.Fatalf("seed %d: deadline %v, but the leader ends the session at %v", seed, deadline, end)
	}
}

func TestDeadlineAgainstModel(t *testing.T) {
	for seed := range uint64(20_000) {
		play(t, seed)
	}
}

func FuzzDeadlineAgainstModel(f *testing.F) {
	f.Add(uint64(0))
	f.Fuzz(play)
}

// A leader is deposed, cut off or paused. For a while it answers all requests that
// do not need the quorum. Its successor has no reports of these clients. It counts a full timeout
// for each session from the time of its election.
func playDeposed(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	between := func(lo, hi time.Duration) time.Duration { return lo + time.Duration(r.Int64N(int64(hi-lo)+1)) }

	c := newClock()
	zero := c.now()
	l := newState(c.now)

	hop := between(1, timeout/8)
	alone := between(0, 3*timeout)          // from here on the leader has no quorum
	deposed := alone + between(1, timeout)  // and from here on there is a successor
	leaves := alone + between(1, 2*timeout) // the leader detects that it is deposed
	end := deposed + timeout                // of a session that the successor has not noticed
	l.begin(session, timeout, zero)         // created while there was a quorum

	back := time.Duration(0)
	for at := time.Duration(1); ; at += between(1, timeout/3) {
		at = max(at, back)
		arrived := at + between(1, hop)
		back = arrived + between(1, hop)
		if arrived >= leaves {
			break
		}
		what := r.IntN(3)
		if what == 0 && arrived >= alone {
			continue // never answered
		}
		c.run(back - c.mono)
		switch what {
		case 0:
			l.answered(zero.Add(at), true)
		case 1:
			l.answered(zero.Add(at), false)
		case 2:
			l.disconnect()
			l.begin(session, timeout, zero.Add(at))
		}
		if deadline := l.Deadline(session).Sub(zero); deadline > end {
			t.Fatalf("seed %d: deadline %v, but the next leader ends the session at %v", seed, deadline, end)
		}
	}
}

func TestDeadlineAgainstADeposedLeader(t *testing.T) {
	for seed := range uint64(20_000) {
		playDeposed(t, seed)
	}
}
