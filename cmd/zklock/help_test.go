package main

import (
	"os/exec"
	"strings"
	"testing"
)

// Whoever asks for help gets it on standard output.
func TestHelpIsPrinted(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"help"}, {"-h"}, {"-help"}, {"--help"}, {"help", "-help"}, {"help", "connection"}, {"help", "exit"}, {"help", "run"}, {"run", "-help", "-help"},
	} {
		cmd := zklockCommand(t, "none", args...)
		var cries strings.Builder
		cmd.Stderr = &cries
		if out, err := cmd.Output(); err != nil || cries.Len() > 0 || len(out) == 0 {
			t.Errorf("%q: %v, prints %q, and %q on standard error", args, err, out, &cries)
		}
	}
}

// Every help text fits on a screen of 24 lines by 80 columns, begins with a usage line and
// examples, and says nothing twice.
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
		said := map[string]bool{}
		for line := range strings.Lines(text) {
			if len(line) > 81 {
				t.Errorf("%s has a line of %d columns: %s", name, len(line)-1, line)
			}
			if line = strings.TrimSpace(line); line != "" && said[line] {
				t.Errorf("%s has twice: %s", name, line)
			}
			said[line] = true
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
