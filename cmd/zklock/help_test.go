package main

import (
	"fmt"
	"os/exec"
	"runtime"
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

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"zklock ":                         "run ls watch ask break resize reap dev completion version",
		"zklock wa":                       "watch",
		"zklock run -sh":                  "-shared",
		"zklock run -s":                   "-sasl-file -servers -servers-from-ensemble -service -session-file -session-timeout -shared -slot",
		"zklock ls -":                     "-auth-file -ca -cert -json -kerberos -key -keytab -principal -r -sasl-file -servers -servers-from-ensemble -service -session-timeout -status -tls",
		"zklock ls -ca secure_t":          "secure_test.go",
		"zklock ls -tls -auth-file main.": "main.go",
		"zklock completion f":             "fish",
		"zklock dev -":                    "-host -port -sasl-file -tick",
		"zklock run /path -- zklock-no-s": "",
	} {
		words := strings.Split(line, " ")
		script := bash(commands()) + "\nCOMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _zklock; echo ${COMPREPLY[*]}"
		out, err := exec.Command("bash", append([]string{"-c", script, "bash"}, words...)...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: %q, want %q (%v)", line, got, want, err)
		}
	}
}

// If zsh or fish is not installed, the test checks that each command and flag is in the script, and
// that all quotes are closed.
func TestScriptsNameAllCommandsAndFlags(t *testing.T) {
	t.Parallel()
	for shell, script := range map[string]string{"zsh": zsh(commands()), "fish": fish(commands())} {
		for _, word := range []string{"run", "ls", "watch", "dev", "completion", "kill-after", "json", "shared"} {
			if !strings.Contains(script, word) {
				t.Errorf("%s: no %q in\n%s", shell, word, script)
			}
		}
		if strings.Count(script, "'")%2 != 0 {
			t.Errorf("%s: a quote without an end in\n%s", shell, script)
		}
		if path, err := exec.LookPath(shell); err == nil {
			cmd := exec.Command(path, "-n", "/dev/stdin")
			cmd.Stdin = strings.NewReader(script)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", shell, err, out)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	want := fmt.Sprintf("zklock (devel), %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH) // a test has no version
	for _, arg := range []string{"version", "-version", "--version"} {
		if code, text := prints(t, "none", nil, arg); code != 0 || text != want {
			t.Errorf("%s: exit code %d, and %q, want %q", arg, code, text, want)
		}
	}
	ends(t, start(t, "none", "version", "1"), exitUsage, `"1" is one argument too many`)
}
