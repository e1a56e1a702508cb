package differ

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is the first step at which two servers differ.
type Difference struct {
	Sequence Sequence
	Step     int // index; len(Sequence) is what connections receive at the end
	Names    [2]string
	Lines    [2][]string
}

// Compare returns the first step at which the transcripts differ, or nil.
func Compare(q Sequence, names [2]string, a, b Transcript) *Difference {
	for i := range max(len(a), len(b)) {
		if lines := [2][]string{at(a, i), at(b, i)}; !slices.Equal(lines[0], lines[1]) {
			return &Difference{q, i, names, lines}
		}
	}
	return nil
}

func at[T any](list []T, i int) (none T) {
	if i < len(list) {
		return list[i]
	}
	return none
}

// Beside returns the transcript next to its sequence, as it is recorded.
func (t Transcript) Beside(q Sequence) string {
	var b strings.Builder
	for i, group := range t {
		if i < len(q) {
			fmt.Fprintln(&b, q[i])
		} else {
			fmt.Fprintln(&b, "end")
		}
		for _, line := range group {
			fmt.Fprintln(&b, "    "+line)
		}
	}
	return b.String()
}

// Kind is equal for differences that are probably the same: it is the beginnings of the first
// differing lines, which contain the verb.
func (d *Difference) Kind() string {
	for i := range max(len(d.Lines[0]), len(d.Lines[1])) {
		if a, b := at(d.Lines[0], i), at(d.Lines[1], i); a != b {
			return gist(a) + " / " + gist(b)
		}
	}
	return ""
}

// gist drops the connection, and numbers that change when steps are removed.
func gist(line string) string {
	if line == "" {
		return "(nothing)"
	}
	if _, rest, found := strings.Cut(line, "] "); found {
		line = rest
	}
	words := slices.DeleteFunc(strings.Fields(line), func(word string) bool {
		return strings.HasPrefix(word, "zxid=") || strings.ContainsAny(word, `{}"[`)
	})
	return strings.Join(words[:min(len(words), 4)], " ")
}

func (d *Difference) String() string {
	var b strings.Builder
	for i, s := range d.Sequence {
		mark := "    "
		if i == d.Step {
			mark = " -> "
		}
		fmt.Fprintf(&b, "%s%s\n", mark, s)
	}
	for side := range d.Names {
		fmt.Fprintf(&b, "%s, after the marked step, or at the end:\n", d.Names[side])
		for _, line := range d.Lines[side] {
			mark := "  "
			if !slices.Contains(d.Lines[1-side], line) {
				mark = "! "
			}
			fmt.Fprintf(&b, "  %s%s\n", mark, line)
		}
	}
	return b.String()
}

// Shrink removes steps, moves them to the first connection, and removes operations within steps, while
// the servers still differ in the same way. differs plays a sequence on both servers and returns the difference, or nil; Shrink calls it
// at most tries times.
func Shrink(d *Difference, tries int, differs func(Sequence) *Difference) *Difference {
	try := func(q Sequence) bool {
		if tries--; tries < 0 {
			return false
		}
		shorter := differs(q)
		if shorter == nil || shorter.Kind() != d.Kind() {
			return false
		}
		d = shorter
		d.Sequence = q[:min(d.Step+1, len(q))] // later steps do not matter
		return true
	}
	drop := func() {
		for size := len(d.Sequence) / 2; size > 0; size /= 2 {
			for from := len(d.Sequence) - size; from >= 0; from = min(from, len(d.Sequence)) - size {
				try(slices.Concat(d.Sequence[:from], d.Sequence[from+size:]))
			}
		}
		for i := len(d.Sequence) - 1; i > 0; i-- { // two steps that need each other
			for j := i - 1; j >= 0 && i < len(d.Sequence); j-- {
				try(slices.Concat(d.Sequence[:j], d.Sequence[j+1:i], d.Sequence[i+1:]))
			}
		}
	}
	try(d.Sequence)
	drop()
	for i := 1; i < len(d.Sequence); i++ {
		q := slices.Clone(d.Sequence)
		q[i].Conn = q[0].Conn
		try(q)
	}
	drop()
	for i := 0; i < len(d.Sequence); i++ {
		for n := len(d.Sequence[i].Ops) - 1; n >= 0 && i < len(d.Sequence); n-- {
			q := slices.Clone(d.Sequence)
			q[i].Ops = slices.Delete(slices.Clone(q[i].Ops), n, n+1)
			try(q)
		}
	}
	return d
}
