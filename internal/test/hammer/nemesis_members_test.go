package hammer

import (
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// membersDeck strikes followers more often than the leader: without a leader no worker gets a lock,
// and such a run proves nothing. A member that was killed takes a while to come back.
func membersDeck() *deck {
	one := []string{"isolate follower", "kill leader", "pause follower", "isolate leader", "kill follower", "pause leader"}
	return &deck{
		often: append([]string{"pause follower", "pause follower", "isolate follower", "isolate follower"}, one...),
		left:  one, // first, so that a minute is enough
	}
}

// quorumPatience is how long a member may be silent before the others drop it.
const quorumPatience = time.Second

// assail breaks one member of the ensemble, and repairs it before another member is broken: two of
// three must serve.
func (h *hand) assail(card string) bool {
	// A fault of an ensemble that is still down has no effect.
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
	// The other members notice some and do not notice others; a few last longer than a session
	// whose client cannot be reached.
	away := h.upTo(2 * quorumPatience)
	if h.random.IntN(8) == 0 {
		away = h.session + h.upTo(h.session)
	}
	defer h.say("", "%s %s", card, s.Addr())()
	switch how {
	case "kill":
		err = s.Kill()
		h.pause(away / 4) // a restart takes a while, too
		// It may not serve at once, because of an election; whole checks that.
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
