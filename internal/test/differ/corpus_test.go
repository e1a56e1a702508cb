package differ

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded are the versions of Java servers whose answers to the corpus are in testdata, so that
// the in-memory server is compared with them without Java. DIFFER_RECORD=1 writes them again.
var recorded = []string{"3.8.0", "3.9.3"}

// readCorpus reads the sequences that once differed, and some that fix what must be exact. The
// beginning of the name is the server's mode.
func readCorpus(t *testing.T) map[string]Sequence {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	corpus := map[string]Sequence{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Parse(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		corpus[strings.TrimSuffix(filepath.Base(file), ".txt")] = q
	}
	return corpus
}

var modes = map[string]mode{"calm": calm, "lapse": lapsing, "sweep": sweeping}

// modeOf returns "lapse", "sweep", or "calm".
func modeOf(name string) string {
	if prefix, _, _ := strings.Cut(name, "-"); modes[prefix].tick > 0 {
		return prefix
	}
	return "calm"
}

func recording(name, version string) string { return filepath.Join("testdata", version, name+".txt") }

// TestRecorded needs no Java.
func TestRecorded(t *testing.T) {
	corpus := readCorpus(t)
	for _, version := range recorded {
		for kind, m := range modes {
			t.Run(version+"/"+kind, func(t *testing.T) {
				t.Parallel() // most of the time it waits
				target := memory(t, version, m)
				for name, q := range corpus {
					if modeOf(name) == kind {
						checkRecording(t, target, name, q)
					}
				}
			})
		}
	}
}

func checkRecording(t *testing.T, target *Target, name string, q Sequence) {
	t.Helper()
	want, err := os.ReadFile(recording(name, target.Version))
	if err != nil {
		t.Error(err)
		return
	}
	if got := inTime(t, q, target.Run).Beside(q); got != string(want) {
		t.Errorf("%s:\n%s", name, diff(string(want), got))
	}
}

// replay plays the sequences of a mode, and compares the recording with the Java server's answers
// now.
func (p pair) replay(t *testing.T, kind string, corpus map[string]Sequence) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(corpus)) {
		if modeOf(name) == kind {
			p.replayOne(t, name, corpus[name])
		}
	}
}

func (p pair) replayOne(t *testing.T, name string, q Sequence) {
	t.Helper()
	scripts := p.play(t, q)
	if d, _ := Compare(q, p.names(), scripts[0], scripts[1], nil); d != nil {
		t.Errorf("%s:\n%s", name, d)
	}
	file, text := recording(name, p[0].Version), scripts[0].Beside(q)
	if os.Getenv("DIFFER_RECORD") != "" {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist): // recorded for another version only
	case err != nil:
		t.Error(err)
	case string(want) != text:
		t.Errorf("%s: Java has answered differently when it was recorded:\n%s", name, diff(string(want), text))
	}
}

// diff marks the lines that differ, from the first difference on.
func diff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	around := func(lines []string) string {
		return strings.Join(lines[max(0, min(at-3, len(lines))):min(at+3, len(lines))], "\n")
	}
	return "want\n" + around(a) + "\ngot\n" + around(b)
}
