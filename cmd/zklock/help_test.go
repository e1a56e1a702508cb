package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Each text is printed once, on standard output, without repeated words.
func TestHelpSaysEverythingOnce(t *testing.T) {
	t.Parallel()
	asked := [][]string{{"help"}, {"-h"}, {"-help"}, {"--help"}, {"-help", "-help"}, {"help", "-help"}}
	asked = append(asked, []string{"help", "connection"}, []string{"help", "exit"})
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

// Every help text fits on a screen of 24 lines by 80 columns, and begins with a usage line and
// examples.
func TestHelpFitsOnAScreen(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"overview": overview(commands()), "connection": connection(), "exit": exitCodes}
	for _, c := range commands() {
		text := c.help()
		texts[c.name] = text
		if !strings.HasPrefix(text, "zklock "+c.name) || c.name != "version" && !strings.Contains(text, "\n\n  ") {
			t.Errorf("%s does not begin with examples:\n%s", c.name, text)
		}
	}
	for name, text := range texts {
		if n := strings.Count(text, "\n"); n > 24 {
			t.Errorf("%s has %d lines:\n%s", name, n, text)
		}
		for line := range strings.Lines(text) {
			if len(line) > 81 {
				t.Errorf("%s has a line of %d columns: %s", name, len(line)-1, line)
			}
		}
	}
}

// The manual page has all commands and flags, and groff formats it without a warning.
func TestTheManualPage(t *testing.T) {
	t.Parallel()
	page := man(commands())
	for _, want := range []string{".TH ZKLOCK 1", `zklock \- run a command`, `.SH "EXIT STATUS"`, `\-session\-timeout duration`, `\-ignore\-ask`, `.SS "zklock resize`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	path, err := exec.LookPath("groff")
	if err != nil {
		return
	}
	cmd := exec.Command(path, "-man", "-ww", "-Tascii")
	cmd.Stdin = strings.NewReader(page)
	var cries strings.Builder
	cmd.Stderr = &cries
	if out, err := cmd.Output(); err != nil || cries.Len() > 0 || !strings.Contains(string(out), "zklock ls -r /jobs") {
		t.Errorf("groff: %v, %s", err, &cries)
	}
}
