package realzk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A test that needs a server, see below.
func TestShared(t *testing.T) { Shared(t) }

// Some returns an address even if ZooKeeper is not installed.
func TestSome(t *testing.T) {
	if addrs := Some(t); len(addrs) == 0 {
		t.Error("no address")
	}
}

func TestWithoutZooKeeperATestIsSkippedOrFails(t *testing.T) {
	t.Parallel()
	const asks = "TestShared"
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	list := filepath.Join(t.TempDir(), "list")
	none := []string{LeftOutEnv + "=", "PATH=" + nowhere, "JAVA_HOME=", "ZK_HOME=", "ZOOKEEPER_HOME=", "ZK_SERVERS=", "ZKLOCKS_REAL="}
	for name, c := range map[string]struct {
		run  string
		env  []string
		fail bool
		says []string
	}{
		"make quick":                 {run: asks, env: []string{LeftOutEnv + "=" + list, "JAVA_HOME=" + someJava(t)}, says: []string{"--- SKIP: ", ": " + leftOut + "\n"}},
		"a server is asked for":      {run: asks, says: []string{"--- SKIP: ", ": " + leftOut + "\n"}},
		"a real one must be there":   {run: asks, env: []string{"ZKLOCKS_REAL=1"}, fail: true, says: []string{"no java in JAVA_HOME or PATH"}},
		"some server":                {run: "TestSome", says: []string{"--- PASS: TestSome"}},
		"some server, a real one":    {run: "TestSome", env: []string{"ZKLOCKS_REAL=1"}, fail: true, says: []string{"no java in JAVA_HOME or PATH"}},
		"the variable leads nowhere": {run: asks, env: []string{"JAVA_HOME=" + someJava(t), "ZK_HOME=" + nowhere}, fail: true, says: []string{"no zookeeper jar under ZK_HOME=" + nowhere}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+c.run+"$")
			cmd.Env = append(append(os.Environ(), none...), c.env...) // of two values the last one applies
			var out []byte
			var err error
			test.Within(t, startTimeout, "a copy of this program", func() { out, err = cmd.CombinedOutput() })
			if (err != nil) != c.fail {
				t.Errorf("it ends with %v, want a failure: %v", err, c.fail)
			}
			for _, want := range c.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not say %q", want)
				}
			}
			if lines, _ := os.ReadFile(list); name == "make quick" && string(lines) != asks+"\n" {
				t.Errorf("the tests that were left out are %q", lines)
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}

// someJava returns a JAVA_HOME with a program that is never run.
func someJava(t *testing.T) string {
	home := t.TempDir()
	must(t, os.Mkdir(filepath.Join(home, "bin"), 0o755))
	must(t, os.WriteFile(filepath.Join(home, "bin", "java"), nil, 0o755))
	return home
}
