package main

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// The picture is well-formed, has each line that was printed, and moves forward.
func TestARecordingShowsEachLine(t *testing.T) {
	lines, err := record([]string{"printf", `PROVED: 1 < 2\n\na & b\nlast\nnot shown\n`}, "last")
	if err != nil {
		t.Fatal(err)
	}
	drawn := draw("make <demo>", lines)
	var texts []string
	for in := xml.NewDecoder(strings.NewReader(drawn)); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, drawn)
		}
		if text, ok := token.(xml.CharData); ok {
			texts = append(texts, string(text))
		}
	}
	all := strings.Join(texts, "|")
	for _, want := range []string{"$ make <demo>", "PROVED: 1 < 2", "a & b"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in it:\n%s", want, drawn)
		}
	}
	if strings.Contains(all, "not shown") {
		t.Errorf("the line after the last one is in it:\n%s", drawn)
	}
	if frames := strings.Count(drawn, "translateY"); frames < 2 {
		t.Errorf("nothing moves:\n%s", drawn)
	}
}

// Long lines break between words; what follows the time of a line is below its text.
func TestLongLinesBreak(t *testing.T) {
	got := wrap("  0.1s  " + strings.Repeat("word ", 15) + strings.Repeat("x", columns))
	want := []string{"  0.1s " + strings.Repeat(" word", 9), "       " + strings.Repeat(" word", 6), "        " + strings.Repeat("x", 48), "        xxxxxxxx"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatCannotBeRecorded(t *testing.T) {
	for _, args := range [][]string{{"true"}, {"sh", "-c", "echo a; exit 3"}, {"/no/such/command"}} {
		if lines, err := record(args, ""); err == nil {
			t.Errorf("%q: %v", args, lines)
		}
	}
}
