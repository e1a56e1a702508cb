package differ

import (
	"os"
	"testing"
)

// TestPlay plays the sequence in the file DIFFER_PLAY on the installed Java server and in memory,
// and prints the answers.
func TestPlay(t *testing.T) {
	name := os.Getenv("DIFFER_PLAY")
	if name == "" {
		t.Skip("DIFFER_PLAY names no file with a sequence to play")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	q, err := Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	real := java(t, "", calm)
	p := pair{real, memory(t, real.Version, calm)}
	for i, script := range p.play(t, q) {
		t.Logf("%s:\n%s", p[i].Name, script.Beside(q))
	}
}
