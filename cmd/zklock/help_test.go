package main

import (
	"regexp"
	"strings"
	"testing"
)

// Each text is printed once, on standard output, and no word follows itself.
func TestHelpSaysEverythingOnce(t *testing.T) {
	t.Parallel()
	asked := [][]string{{"help"}, {"-h"}, {"-help"}, {"--help"}, {"-help", "-help"}, {"help", "-help"}}
	for _, c := range commands() {
		asked = append(asked, []string{"help", c.name}, []string{c.name, "-help"}, []string{c.name, "-help", "-help"})
	}
	for _, args := range asked {
		cmd := zklockCommand(t, "none", args...)
		var cries strings.Builder
		cmd.Stderr = &cries
		out, err := cmd.Output()
		if err != nil || cries.Len() > 0 || len(out) == 0 {
			t.Errorf("%q: %v, prints %q, and %q on standard error", args, err, out, &cries)
		}
		lines := map[string]bool{}
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSpace(line)
			if line != "" && lines[line] {
				t.Errorf("%q prints twice: %s", args, line)
			}
			lines[line] = true
			before := ""
			for word := range strings.FieldsSeq(line) {
				word = strings.ToLower(strings.Trim(word, "-.,:;()"))
				if word != "" && word == before {
					t.Errorf("%q stutters: %s", args, line)
				}
				before = word
			}
		}
	}
	for _, args := range [][]string{{"run"}, {"run", "-no-such-flag"}, {"walk"}, {"run", "-servers", "zk1:no-such-port", "/jobs", "--", "true"}} {
		_, cries := start(t, "none", args...).Ends()
		if regexp.MustCompile(`zklocks?: zklock`).MatchString(cries) {
			t.Errorf("%q stutters: %s", args, cries)
		}
	}
}
