package hammer

import (
	"strings"

	"github.com/zklocks/zklocks/internal/zktest"
)

func membersDeck() *deck {
	return &deck{often: []string{
		"kill leader", "kill follower", "pause leader", "pause follower", "isolate leader", "isolate follower",
	}}
}

// assail breaks one member of the ensemble, and mends it before anything else
// is broken: two of three must go on.
func (h *hand) assail(card string) bool {
	how, who, _ := strings.Cut(card, " ")
	s, err := h.members.Leader()
	if who == "follower" && err == nil {
		var followers []*zktest.Server
		if followers, err = h.members.Followers(); err == nil {
			s = followers[h.random.IntN(len(followers))]
		}
	}
	if err != nil {
		return false
	}
	h.say("%s %s", card, s.Addr())
	defer h.say("%s %s: over", card, s.Addr())
	switch how {
	case "kill":
		err = s.Kill()
		h.pause(h.upTo(h.session))
		if again := s.Restart(); again != nil {
			h.t.Error(again)
		}
	case "pause":
		err = s.Pause()
		h.pause(h.upTo(h.session * 3 / 2))
		if again := s.Resume(); again != nil {
			h.t.Error(again)
		}
	case "isolate":
		err = h.members.Isolate(s)
		h.pause(h.upTo(2 * h.session))
		h.members.Heal()
	}
	if err != nil {
		h.t.Error(err)
	}
	return true
}
