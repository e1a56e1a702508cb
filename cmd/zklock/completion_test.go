package main

import (
	"os/exec"
	"strings"
	"testing"
)

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
