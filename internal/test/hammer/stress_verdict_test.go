package hammer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/test/history"
)

// verdict is the result of a round's records.
type verdict struct {
	cycles     int // nodes that were granted and released
	crossings  int
	contended  int
	violations int
	unfenced   int // overlaps with holds that the nemesis took: the store must compare tokens
	checking   time.Duration
}

// judge checks one round, adds what is wrong to f, and returns all holds.
func (s *stress) judge(paths, records []string, hand *byHand, f *found) map[string][]history.Hold {
	began := time.Now()
	byPath := make(map[string][]history.Hold)
	granted, lost := make(map[lock]history.Hold), make(map[lock]bool)
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
			// Whatever the fault, a token is given to one process only.
			if of, known := granted[l]; known && h.Token != 0 && processOf(of) != processOf(h) {
				s.violations++
				f.doubts = append(f.doubts, doubt{h.Path, h.Acquired, fmt.Sprintf("token %d was given to two processes", h.Token), []history.Hold{of, h}})
			}
			granted[l] = h
			byPath[h.Path] = append(byPath[h.Path], h)
		}
		suspects = append(suspects, r.Suspects...)
	}
	s.cycles += len(granted) - len(lost)

	for i, path := range paths {
		all := slices.Clone(byPath[path])
		if n := history.Check(kindRules(i), all).Total; n > 0 {
			s.unfenced += n
			for i, h := range all {
				if at, taken := hand.taken(h, nodes[lock{h.Path, h.Token}]); taken && h.Ended > at {
					all[i].Ended = max(at, h.Acquired)
				}
			}
		}
		report := history.Check(kindRules(i), all)
		s.contended += report.Contended
		s.unfenced -= report.Total
		s.violations += report.Total
		for _, v := range report.Violations {
			by := v.Holds[len(v.Holds)-1]
			f.doubts = append(f.doubts, doubt{path, by.Acquired, fmt.Sprintf("%s: %s", v.Rule, v.Text), v.Holds})
		}
		r := result{}
		r.contention(all)
		s.crossings += r.crossings
	}
	for _, u := range suspects {
		h := history.Hold{Path: u.Lock.Path, Token: u.Lock.Token, Who: u.Who}
		if at, taken := hand.taken(h, nodes[u.Lock]); taken && u.At > at {
			s.unfenced++
			continue
		}
		s.violations++
		d := doubt{path: u.Lock.Path, at: u.At, text: fmt.Sprintf("%s with token %d was still sure of it after %d had been inside", u.Who, u.Lock.Token, u.Later)}
		for _, h := range byPath[u.Lock.Path] {
			if h.Token == u.Lock.Token || h.Token == u.Later {
				d.by = append(d.by, h)
			}
		}
		f.doubts = append(f.doubts, d)
	}
	s.checking += time.Since(began)
	return byPath
}
