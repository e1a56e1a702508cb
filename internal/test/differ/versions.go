package differ

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Change is something in which versions differ for a client. It excuses a difference between a
// server that has it and a server that lacks it, not between two servers of the same version.
type Change struct {
	Name string
	// In has the first versions with the change, one for each line of releases: "3.8.5", "3.9.3".
	// Versions of later lines have it, too.
	In []string
	// Line rewrites a line, so that lines that differ only because of this change become equal. It
	// is for a change after which the states of the two servers remain equal.
	Line func(string) string
	// Step reports whether the change explains the difference at step i. The states may then
	// differ, so the rest of the sequence is not compared.
	Step func(q Sequence, i int, lines [2][]string) bool
}

var eventZxid = regexp.MustCompile(`\] event zxid=\S+`)

// Changes are all known differences between versions.
var Changes = []Change{
	{
		Name: "the header of an event has the zxid of its cause (ZOOKEEPER-4655)",
		In:   []string{"3.9.0"},
		Line: func(line string) string { return eventZxid.ReplaceAllString(line, "] event") },
	},
	{
		Name: "a check outside of a multi is an unknown request (ZOOKEEPER-2623)",
		In:   []string{"3.8.5", "3.9.3"},
		Step: func(q Sequence, i int, lines [2][]string) bool {
			return q[i].Verb == "check" && anySide(lines, "reply to check: zxid=-1 err=-6")
		},
	},
	{
		Name: "a create2 in a multi has a stat; flags that are unknown and an ACL of null there fail all of it (ZOOKEEPER-4026)",
		In:   []string{"3.8.2", "3.9.0"},
		Step: func(q Sequence, i int, lines [2][]string) bool {
			return q[i].mentions(func(s Step) bool {
				return s.Verb == "multi" && slices.ContainsFunc(s.Ops, func(op Step) bool {
					return op.Verb == "create2" || strings.HasPrefix(op.Verb, "create") &&
						(op.Flags < 0 || op.Flags > 4 || slices.Equal(op.ACL, []string{"null"}))
				})
			}) && anySide(lines, "reply to multi")
		},
	},
	{
		Name: "a standard, a persistent and a recursive watch on one path are three (ZOOKEEPER-4466, 4471)",
		In:   []string{"3.9.0"},
		Step: func(q Sequence, i int, lines [2][]string) bool {
			return slices.ContainsFunc(q[:i+1], func(s Step) bool {
				return s.mentions(func(s Step) bool { return s.Verb == "addWatch" || s.Verb == "setWatches2" })
			}) && (slices.Equal(withoutEvents(lines[0]), withoutEvents(lines[1])) || q[i].mentions(isRemoveWatches))
		},
	},
	{
		Name: "removeWatches and checkWatches have kinds for persistent and recursive watches (ZOOKEEPER-4471)",
		In:   []string{"3.9.0"},
		Step: func(q Sequence, i int, lines [2][]string) bool {
			return q[i].mentions(func(s Step) bool {
				return (isRemoveWatches(s) || s.Verb == "checkWatches") && (s.Kind == 4 || s.Kind == 5)
			})
		},
	},
	{
		Name: "checkWatches counts the watches of the connection that asks, not those of all (ZOOKEEPER-4466)",
		In:   []string{"3.9.0"},
		Step: func(q Sequence, i int, lines [2][]string) bool {
			return q[i].mentions(func(s Step) bool { return s.Verb == "checkWatches" })
		},
	},
	{
		Name: "a client's deleteContainer is understood",
		In:   []string{"3.9.0"},
		Step: func(q Sequence, i int, lines [2][]string) bool {
			return q[i].mentions(func(s Step) bool { return s.Verb == "deleteContainer" }) && anySide(lines, "reply to deleteContainer")
		},
	},
	{
		Name: "exists needs READ (ZOOKEEPER-2590)",
		In:   []string{"3.8.4", "3.9.2"},
		Step: func(q Sequence, i int, lines [2][]string) bool {
			return q[i].mentions(func(s Step) bool { return s.Verb == "exists" }) && anySide(lines, "err=-102")
		},
	},
	{
		Name: "a write that cannot be read takes no zxid, a multi with a path of null does",
		In:   []string{"3.9.0"},
		Step: func(q Sequence, i int, lines [2][]string) bool {
			return q[i].mentions(func(s Step) bool { return s.Cut > 0 || s.NoPath }) &&
				containing(lines[0], "err=-5") && containing(lines[1], "err=-5")
		},
	},
}

func isRemoveWatches(s Step) bool { return s.Verb == "removeWatches" }

func withoutEvents(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, "] event ") })
}

func anySide(lines [2][]string, what string) bool {
	return containing(lines[0], what) || containing(lines[1], what)
}

// parseVersion parses three numbers.
func parseVersion(version string) (v [3]int) {
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]); err != nil {
		panic(fmt.Sprintf("differ: version %q: want three numbers, as in 3.9.3", version))
	}
	return v
}

// has reports whether a version has the change.
func (c Change) has(version string) bool {
	v := parseVersion(version)
	newest := [3]int{}
	for _, in := range c.In {
		first := parseVersion(in)
		if v[0] == first[0] && v[1] == first[1] {
			return v[2] >= first[2]
		}
		if slices.Compare(first[:], newest[:]) > 0 {
			newest = first
		}
	}
	return slices.Compare(v[:], newest[:]) > 0
}

// Between returns the changes that one of two versions has and the other lacks.
func Between(a, b string) []Change {
	var list []Change
	for _, c := range Changes {
		if c.has(a) != c.has(b) {
			list = append(list, c)
		}
	}
	return list
}

// mentions reports whether the step, or a step inside it, satisfies is.
func (s Step) mentions(is func(Step) bool) bool {
	return is(s) || slices.ContainsFunc(s.Ops, func(op Step) bool { return op.mentions(is) })
}

func containing(lines []string, what string) bool {
	return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, what) })
}
