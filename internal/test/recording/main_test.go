package main

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
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
	last := -1.0
	for _, frame := range regexp.MustCompile(`(?m)^([0-9.]+)% \{`).FindAllStringSubmatch(drawn, -1) {
		at, err := strconv.ParseFloat(frame[1], 64)
		if err != nil || at < last || at > 100 {
			t.Errorf("a frame at %s %% comes after one at %v %%", frame[1], last)
		}
		last = at
	}
	if last < 0 {
		t.Error("nothing moves")
	}
}

// Long lines break between words; what follows the time of a line is below its text.
func TestLongLinesBreak(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("word ", 30))
	for _, text := range []string{words, "  0.1s  " + words, strings.Repeat("x", 3*columns), "", "short"} {
		var joined []string
		for i, line := range wrap(text) {
			if len(line) > columns {
				t.Errorf("%q is too long", line)
			}
			if i > 0 && strings.HasPrefix(text, " ") && !strings.HasPrefix(line, "        word") {
				t.Errorf("%q does not hang", line)
			}
			joined = append(joined, strings.Fields(line)...)
		}
		got, want := strings.Join(joined, ""), strings.Join(strings.Fields(text), "")
		if got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestWhatCannotBeRecorded(t *testing.T) {
	for _, args := range [][]string{{"true"}, {"sh", "-c", "echo a; exit 3"}, {"/no/such/command"}} {
		if lines, err := record(args, ""); err == nil {
			t.Errorf("%q: %v", args, lines)
		}
	}
}
