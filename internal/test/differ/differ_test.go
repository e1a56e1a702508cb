package differ

import (
	"cmp"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	countFlag  = flag.Int64("n", 0, "how many sequences, new ones each time (default: a few, the same each time)")
	seedFlag   = flag.Int64("seed", 0, "the `seed` that a failure prints")
	recordFlag = flag.Bool("record", false, "write the recordings again")
)

// usualCount is the number of sequences without -n, which take some seconds.
const usualCount = 150

// modes are the servers' modes, by the beginnings of the names of recorded sequences. All other
// sequences are calm.
var modes = map[string]mode{"calm": calm, "lapse": lapsing, "sweep": sweeping}

// TestDiffer plays the recorded and then random sequences on the installed Java server and on the
// in-memory server that imitates its version. A failure prints the seed, and -seed repeats
// its sequences.
func TestDiffer(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real := java(t, mode)
			p := pair{real, memory(t, real.Version, mode)}
			for name, q := range recorded(t, name) {
				p.replay(t, name, q)
			}
			if name == "calm" {
				search(t, p)
			}
		})
	}
}

// search plays random sequences and shrinks those that differ, one for each kind of difference.
func search(t *testing.T, p pair) {
	t.Helper()
	count, seed := cmp.Or(*countFlag, usualCount), cmp.Or(*seedFlag, 1)
	// By default the seed is fixed, so that a test does not fail at random for an old difference.
	if *countFlag != 0 && *seedFlag == 0 {
		seed = time.Now().UnixNano() % 1_000_000
	}
	kinds := map[string]int{}
	for i := range count {
		d := p.compare(t, Generate(seed, i))
		if d == nil {
			continue
		}
		kind := d.Kind()
		if kinds[kind]++; kinds[kind] == 1 {
			t.Errorf("-seed %d, sequence %d (%s):\n%s", seed, i, kind, p.shrink(t, d, 300))
		}
		if len(kinds) == 12 {
			t.Fatalf("so many kinds of differences: %v", kinds)
		}
	}
	t.Logf("%s and %s: seed %d, %d sequences, %d requests", p[0].Name, p[1].Name, seed, count, p[0].Requests)
	if count >= usualCount {
		covers(t, p[0].Answers)
	}
}

// expected is what a few hundred sequences must cover, or the generator has lost something: the
// requests and the codes of their answers. After "multi:" are the operations of multis.
const expected = `
create 0 -101 -102 -108 -110 -114 -8
create2 0 -101 -108 -110 -114 -8
createContainer 0 -101 -108 -110
delete 0 -101 -102 -103 -111 -8
exists 0 -101
getData 0 -101 -102
setData 0 -101 -102 -103 -8
getACL 0 -101 -102
setACL 0 -101 -102 -103 -114
getChildren 0 -101
getChildren2 0 -101 -102
sync 0
multi 0
multi:create 0 -101 -108 -110 -114 -2
multi:create2 0 -101 -110 -2
multi:createContainer 0 -101 -110 -2
multi:delete 0 -101 -103 -111 -2
multi:setData 0 -101 -103 -2
multi:check 0 -101 -103 -2
reconfig -123
checkWatches 0 -121
removeWatches 0 -121
setWatches 0
setWatches2 0
addWatch 0
auth 0 -115
close 0
unknown -6`

func covers(t *testing.T, answers map[string]int) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(expected)) {
		codes := strings.Fields(line)
		for _, code := range codes[1:] {
			if answers[codes[0]+" "+code] == 0 {
				t.Errorf("no %s was answered with %s", codes[0], code)
			}
		}
	}
}

// recorded reads the sequences in testdata for a mode.
func recorded(t *testing.T, mode string) map[string]Sequence {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sequences: %v", err)
	}
	all := map[string]Sequence{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		of, _, _ := strings.Cut(name, "-")
		if modes[of].tick == 0 {
			of = "calm"
		}
		if of != mode {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if all[name], err = Parse(strings.NewReader(string(text))); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return all
}

func recording(name, version string) string { return filepath.Join("testdata", version, name+".txt") }

// TestRecorded compares the in-memory server with what Java servers of two versions have answered.
// It needs no Java.
func TestRecorded(t *testing.T) {
	for _, version := range []string{"3.8.0", "3.9.3"} {
		for name, mode := range modes {
			t.Run(version+"/"+name, func(t *testing.T) {
				t.Parallel() // most of the time it waits
				target := memory(t, version, mode)
				for name, q := range recorded(t, name) {
					want, err := os.ReadFile(recording(name, version))
					if err != nil {
						t.Error(err)
					}
					same(t, name, string(want), inTime(t, q, target.Run).Beside(q))
				}
			})
		}
	}
}

// replay plays a sequence, and compares the recording with the Java server's answers now.
// -record writes the recordings again.
func (p pair) replay(t *testing.T, name string, q Sequence) {
	t.Helper()
	if d := p.compare(t, q); d != nil {
		t.Errorf("%s:\n%s", name, d)
	}
	file, text := recording(name, p[0].Version), inTime(t, q, p[0].Run).Beside(q)
	if *recordFlag {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return // recorded for other versions only
	}
	if err != nil {
		t.Fatal(err)
	}
	same(t, name+", when it was recorded", string(want), text)
}

// same compares two texts, and shows the lines around the first difference.
func same(t *testing.T, name, want, got string) {
	t.Helper()
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	if slices.Equal(a, b) {
		return
	}
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	around := func(lines []string) string {
		return strings.Join(lines[max(0, n-3):min(n+3, len(lines))], "\n")
	}
	t.Errorf("%s: want\n%s\ngot\n%s", name, around(a), around(b))
}
