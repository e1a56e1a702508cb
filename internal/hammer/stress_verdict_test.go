package hammer

import (
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/zktest/history"
)

// verdict is what the records say.
type verdict struct {
	cycles     int // nodes that were granted and given back
	crossings  int
	contended  int
	violations int
	unfenced   int // overlaps with what the nemesis had taken from its holder: the store must compare tokens
	checking   time.Duration
}

// judge checks one round, and reports whether something is wrong.
func (s *stress) judge(paths, records []string, hand *byHand) bool {
	began := time.Now()
	byPath := make(map[string][]history.Hold)
	granted, lost := make(map[lock]string), make(map[lock]bool)
	before := s.violations
	nodes := make(map[lock]string)
	var suspects []suspect
	for _, file := range records {
		var r record
		if err := r.load(file); err != nil {
			s.Fatal(err)
		}
		for node, token := range r.Nodes {
			nodes[lock{strings.TrimSuffix(node[:strings.LastIndexByte(node, '/')], "/queue"), token}] = node
		}
		for _, l := range r.Lost {
			lost[l] = true
		}
		for _, h := range r.Holds {
			l := lock{h.Path, h.Token}
			// Whatever breaks, a token is given to one process alone.
			if of, known := granted[l]; known && of != processOf(h) {
				s.violations++
				s.Errorf("token %d of %s was given to %s and %s", h.Token, h.Path, of, processOf(h))
			}
			granted[l] = processOf(h)
			byPath[h.Path] = append(byPath[h.Path], h)
		}
		suspects = append(suspects, r.Suspects...)
	}
	s.cycles += len(granted) - len(lost)

	cut := func(h history.Hold) history.Hold {
		if at, taken := hand.taken(h, nodes[lock{h.Path, h.Token}]); taken && h.Ended > at {
			h.Ended = max(at, h.Acquired)
		}
		return h
	}
	for i, path := range paths {
		all := byPath[path]
		if n := history.Check(strainRules(i), all).Total; n > 0 {
			s.unfenced += n
			for i := range all {
				all[i] = cut(all[i])
			}
		}
		report := history.Check(strainRules(i), all)
		s.contended += report.Contended
		s.unfenced -= report.Total
		s.violations += report.Total
		if err := report.Err(); err != nil {
			s.Error(err)
		}
		r := result{}
		r.contention(all)
		s.crossings += r.crossings
	}
	for _, u := range suspects {
		at, taken := hand.taken(history.Hold{Path: u.Path, Token: u.Token, Who: u.Who}, nodes[u.lock])
		if taken && u.At > at {
			s.unfenced++
			continue
		}
		s.violations++
		s.Errorf("%s was sure of %s with token %d at %d, after %d had been inside", u.Who, u.Path, u.Token, u.At, u.Later)
	}
	s.checking += time.Since(began)
	return s.violations > before
}
