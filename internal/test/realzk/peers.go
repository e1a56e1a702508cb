package realzk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// CuratorProgram compiles a Java program of one file that uses Apache Curator's recipes, and
// returns the command that runs it. missing says what to install otherwise. It uses the jars in the
// directory lib of CURATOR_HOME, or Debian's Curator.
func CuratorProgram(tb testing.TB, source string, args ...string) (cmd *exec.Cmd, missing string) {
	tb.Helper()
	jars := []string{"/usr/share/java/curator-recipes.jar"} // its manifest names its dependencies
	if home := os.Getenv("CURATOR_HOME"); home != "" {
		jars, _ = filepath.Glob(filepath.Join(home, "lib", "*.jar"))
		if len(jars) == 0 {
			tb.Fatalf("no jar in lib of CURATOR_HOME=%s", home)
		}
	}
	java, err := findProgram()
	javac, err2 := exec.LookPath("javac")
	if _, err3 := os.Stat(jars[0]); err != nil || err2 != nil || err3 != nil {
		return nil, "Curator is skipped: apt-get install libcurator-recipes-java default-jdk-headless"
	}
	classes, path := tb.TempDir(), strings.Join(jars, string(os.PathListSeparator))
	if out, err := exec.Command(javac, "-d", classes, "-cp", path, source).CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", source, err, out)
	}
	path = strings.Join([]string{classes, path, "/usr/share/java/slf4j-nop.jar"}, string(os.PathListSeparator))
	main := strings.TrimSuffix(filepath.Base(source), ".java")
	return exec.Command(java, append([]string{"-cp", path, main}, args...)...), ""
}

// KazooProgram returns the command that runs a script that uses kazoo. missing says what to install
// otherwise. Debian's Python comes first, because another Python on PATH does not have Debian's
// packages. KAZOO_HOME is the directory of another kazoo.
func KazooProgram(script string, args ...string) (cmd *exec.Cmd, missing string) {
	env := os.Environ()
	if home := os.Getenv("KAZOO_HOME"); home != "" {
		env = append(env, "PYTHONPATH="+home)
	}
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		try := exec.Command(python, "-c", "import kazoo.client")
		try.Env = env
		if try.Run() == nil {
			cmd := exec.Command(python, append([]string{script}, args...)...)
			cmd.Env = env
			return cmd, ""
		}
	}
	return nil, "kazoo is skipped: apt-get install python3-kazoo"
}
