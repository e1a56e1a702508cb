package realzk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// CuratorProgram compiles a program of one file for Apache Curator's recipes, as Debian has them,
// and returns the command that runs it. missing says what to install instead.
func CuratorProgram(tb testing.TB, source string, args ...string) (cmd *exec.Cmd, missing string) {
	tb.Helper()
	const jar = "/usr/share/java/curator-recipes.jar" // it names what it depends on
	java, err := findProgram()
	javac, err2 := exec.LookPath("javac")
	if _, err3 := os.Stat(jar); err != nil || err2 != nil || err3 != nil {
		return nil, "Curator is skipped: apt-get install libcurator-recipes-java default-jdk-headless"
	}
	classes := tb.TempDir()
	if out, err := exec.Command(javac, "-d", classes, "-cp", jar, source).CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", source, err, out)
	}
	path := strings.Join([]string{classes, jar, "/usr/share/java/slf4j-nop.jar"}, string(os.PathListSeparator))
	main := strings.TrimSuffix(filepath.Base(source), ".java")
	return exec.Command(java, append([]string{"-cp", path, main}, args...)...), ""
}

// KazooProgram returns the command that runs a script for kazoo. missing says what to install
// instead. Debian's Python comes first, for another that is first on PATH does not see Debian's
// packages.
func KazooProgram(script string, args ...string) (cmd *exec.Cmd, missing string) {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import kazoo.client").Run() == nil {
			return exec.Command(python, append([]string{script}, args...)...), ""
		}
	}
	return nil, "kazoo is skipped: apt-get install python3-kazoo"
}
