package hammer

import (
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// membersDeck: without a leader nobody locks, and a run in which nobody locks says nothing. So the
// followers have their turn more often; and a member that was killed takes its time to come back.
func membersDeck() *deck {
	one := []string{"isolate follower", "kill leader", "pause follower", "isolate leader", "kill follower", "pause leader"}
	return &deck{
		often: append([]string{"pause follower", "pause follower", "isolate follower", "isolate follower"}, one...),
		left:  one, // first, so that a minute is enough
	}
}

// quorumPatience is after what time members take each other for dead.
const quorumPatience = time.Second

// assail breaks one member of the ensemble, and mends it before anything else is broken: two of
// three must go on.
func (h *hand) assail(card string) bool {
	// What strikes an ensemble that is still down strikes nothing.
	for !h.whole() {
		if !h.pause(20 * time.Millisecond) {
			return false
		}
	}
	how, who, _ := strings.Cut(card, " ")
	s, err := h.members.Leader()
	if who == "follower" && err == nil {
		var followers []*realzk.Server
		if followers, err = h.members.Followers(); err == nil {
			s = followers[h.random.IntN(len(followers))]
		}
	}
	if err != nil {
		return false
	}
	// Some are noticed by the other members and some are not; a few last longer than a session that
	// nobody hears of.
	away := h.upTo(2 * quorumPatience)
	if h.random.IntN(8) == 0 {
		away = h.session + h.upTo(h.session)
	}
	defer h.say("", "%s %s", card, s.Addr())()
	switch how {
	case "kill":
		err = s.Kill()
		h.pause(away / 4) // and it takes its time to start
		// It may not serve at once, in an election; whole will see.
		if again := s.Restart(); again != nil && !s.Alive() {
			h.t.Error(again)
		}
	case "pause":
		err = s.Pause()
		h.pause(away)
		if again := s.Resume(); again != nil {
			h.t.Error(again)
		}
	case "isolate":
		err = h.members.Isolate(s)
		h.pause(away)
		h.members.Heal()
	}
	if err != nil {
		h.t.Error(err)
	}
	return true
}

// whole reports whether all members serve, one of them as the leader.
func (n *nemesis) whole() bool {
	followers, err := n.members.Followers()
	return err == nil && len(followers) == len(n.servers)-1
}
