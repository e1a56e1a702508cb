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

// Compare finds the first step at which the transcripts differ and the changes do not explain it.
// excused are the names of the changes that explained something.
func Compare(q Sequence, names [2]string, a, b Transcript, changes []Change) (d *Difference, excused []string) {
	for i := range max(len(a), len(b)) {
		lines := [2][]string{slices.Clone(at(a, i)), slices.Clone(at(b, i))}
		for _, c := range changes {
			if slices.Equal(lines[0], lines[1]) {
				break
			}
			if c.Line != nil {
				before := slices.Concat(lines[0], lines[1])
				for _, side := range lines {
					for n := range side {
						side[n] = c.Line(side[n])
					}
				}
				if !slices.Equal(before, slices.Concat(lines[0], lines[1])) {
					excused = append(excused, c.Name)
				}
			}
			if c.Step != nil && i < len(q) && c.Step(q, i, lines) {
				return nil, append(excused, c.Name)
			}
		}
		if !slices.Equal(lines[0], lines[1]) {
			return &Difference{q, i, names, lines}, excused
		}
	}
	return nil, excused
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

func at(t Transcript, i int) []string {
	if i < len(t) {
		return t[i]
	}
	return nil
}

// Kind is equal for differences that are probably the same: it is the beginnings of the first
// differing lines, which contain the verb.
func (d *Difference) Kind() string {
	a, b := d.firstLines()
	return gist(a) + " / " + gist(b)
}

func (d *Difference) firstLines() (a, b string) {
	for i := range max(len(d.Lines[0]), len(d.Lines[1])) {
		if a, b = line(d.Lines[0], i), line(d.Lines[1], i); a != b {
			return a, b
		}
	}
	return "", ""
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// gist drops the connection, and numbers that change when steps are removed.
func gist(line string) string {
	if _, rest, found := strings.Cut(line, "] "); found {
		line = rest
	}
	words := strings.Fields(line)
	words = slices.DeleteFunc(words, func(word string) bool {
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
	if d.Step >= len(d.Sequence) {
		b.WriteString(" -> (the end: what connections were sent besides)\n")
	}
	for side := range d.Names {
		fmt.Fprintf(&b, "%s:\n", d.Names[side])
		for _, line := range d.Lines[side] {
			mark := "  "
			if !slices.Contains(d.Lines[1-side], line) {
				mark = "! "
			}
			fmt.Fprintf(&b, "  %s%s\n", mark, line)
		}
		if len(d.Lines[side]) == 0 {
			b.WriteString("    (nothing)\n")
		}
	}
	return b.String()
}
