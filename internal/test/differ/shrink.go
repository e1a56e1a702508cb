package differ

import (
	"regexp"
	"slices"
	"strings"
)

// Shrink searches for a shorter sequence that still differs. differs plays a sequence on both
// servers and returns the difference, or nil; Shrink calls it at most tries times.
func Shrink(d *Difference, tries int, differs func(Sequence) *Difference) *Difference {
	s := &shrinker{best: d, tries: tries, differs: differs, kind: d.Kind()}
	// The steps after the difference do not matter.
	s.try(slices.Clone(d.Sequence[:min(d.Step+1, len(d.Sequence))]))
	for again := true; again && s.tries > 0; {
		again = s.remove()
		again = s.flatten() || again
		again = s.simplify() || again
	}
	s.rename()
	return s.best
}

type shrinker struct {
	best    *Difference
	kind    string
	tries   int
	differs func(Sequence) *Difference
}

// try keeps the sequence if it differs in the same way.
func (s *shrinker) try(q Sequence) bool {
	if s.tries <= 0 {
		return false
	}
	s.tries--
	d := s.differs(q)
	if d == nil || d.Kind() != s.kind {
		return false
	}
	s.best = d
	if d.Step+1 < len(q) {
		// The difference came earlier than before.
		s.best.Sequence = q[:d.Step+1]
	}
	return true
}

// remove removes steps: halves first, then quarters, down to single steps.
func (s *shrinker) remove() (better bool) {
	for size := max(1, len(s.best.Sequence)/2); ; size /= 2 {
		for from := len(s.best.Sequence) - size; from >= 0; from -= size {
			if from+size > len(s.best.Sequence) {
				continue
			}
			q := slices.Concat(s.best.Sequence[:from], s.best.Sequence[from+size:])
			better = s.try(q) || better
		}
		if size <= 1 {
			return better
		}
	}
}

// flatten sends the requests of a burst one by one.
func (s *shrinker) flatten() (better bool) {
	for i := len(s.best.Sequence) - 1; i >= 0; i-- {
		step := s.best.Sequence[min(i, len(s.best.Sequence)-1)]
		if step.Verb != "burst" {
			continue
		}
		q := slices.Clone(s.best.Sequence[:i])
		for _, op := range step.Ops {
			op.Conn = step.Conn
			q = append(q, op)
		}
		better = s.try(append(q, s.best.Sequence[i+1:]...)) || better
	}
	return better
}

// rename gives nodes short names.
func (s *shrinker) rename() {
	text := s.best.Sequence.String()
	var names []string
	for _, path := range quotedPath.FindAllString(text, -1) {
		for name := range strings.SplitSeq(strings.Trim(path, `"`), "/") {
			if len(name) > 1 && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	// A name comes before the names that it contains.
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		for _, short := range []string{"x", "y", "z"} {
			text := s.best.Sequence.String()
			if strings.Contains(text, "/"+short) {
				continue
			}
			if q, err := Parse(strings.NewReader(strings.ReplaceAll(text, "/"+name, "/"+short))); err == nil {
				s.try(q)
			}
			break
		}
	}
}

var quotedPath = regexp.MustCompile(`"(/[-a-z0-9]+)+"`)

// simplify makes each step simpler, one change at a time.
func (s *shrinker) simplify() (better bool) {
	for i := 0; i < len(s.best.Sequence); i++ {
		for _, plainer := range plainer(s.best.Sequence[i]) {
			if i >= len(s.best.Sequence) {
				break
			}
			q := slices.Clone(s.best.Sequence)
			q[i] = plainer
			if s.try(q) {
				better = true
				i-- // the same step again: it may become simpler still
				break
			}
		}
	}
	return better
}

// plainer returns variants of the step that are simpler in one respect. Each is less in a fixed
// order, so shrinking ends.
func plainer(s Step) []Step {
	var list []Step
	change := func(edit func(*Step)) {
		t := s
		edit(&t)
		if t.String() != s.String() {
			list = append(list, t)
		}
	}
	if (s.Verb == "burst" || s.Verb == "multi") && len(s.Ops) == 1 {
		alone := s.Ops[0]
		alone.Conn = s.Conn
		list = append(list, alone)
	}
	for i := range s.Ops {
		change(func(t *Step) { t.Ops = slices.Delete(slices.Clone(s.Ops), i, i+1) })
	}
	for i, op := range s.Ops {
		for _, p := range plainer(op) {
			change(func(t *Step) {
				t.Ops = slices.Clone(s.Ops)
				t.Ops[i] = p
			})
		}
	}
	if strings.HasPrefix(s.Path, "/") {
		change(func(t *Step) { t.Literal = false })
		if last := strings.LastIndexByte(s.Path, '/'); last > 0 && last < len(s.Path)-1 {
			change(func(t *Step) { t.Path = s.Path[last:] })
		}
	}
	change(func(t *Step) { t.Data, t.Size, t.Null = "", 0, false })
	change(func(t *Step) { t.ACL = nil })
	for i := range s.ACL {
		if len(s.ACL) > 1 {
			change(func(t *Step) { t.ACL = slices.Delete(slices.Clone(s.ACL), i, i+1) })
		}
	}
	for _, field := range []func(*Step) *[]string{
		func(t *Step) *[]string { return &t.DataW }, func(t *Step) *[]string { return &t.Exist },
		func(t *Step) *[]string { return &t.Child }, func(t *Step) *[]string { return &t.Persist },
		func(t *Step) *[]string { return &t.Recursive },
	} {
		paths := *field(&s)
		for i := range paths {
			change(func(t *Step) {
				*field(t) = slices.Delete(slices.Clone(paths), i, i+1)
				if len(*field(t)) == 0 {
					*field(t) = nil
				}
			})
		}
	}
	// Fewer connections are simpler.
	for conn := range s.Conn {
		change(func(t *Step) { t.Conn = conn })
	}
	change(func(t *Step) { t.Watch = false })
	change(func(t *Step) { t.Old = false })
	change(func(t *Step) { t.Seen, t.Zxid = false, 0 })
	change(func(t *Step) { t.Timeout = 0 })
	change(func(t *Step) { t.Cut, t.More, t.NoPath = 0, 0, false })
	change(func(t *Step) { t.Password = "" })
	if s.Version != -1 && s.Version != 0 {
		change(func(t *Step) { t.Version = 0 })
	}
	if strings.HasPrefix(s.Verb, "create") && s.Verb != "create" {
		change(func(t *Step) { t.Verb, t.Flags, t.TTL = "create", 0, 0 })
	}
	if s.Flags != 0 && s.Verb != "createTTL" && s.Verb != "createContainer" {
		change(func(t *Step) { t.Flags = 0 })
	}
	return list
}
