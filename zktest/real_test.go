package zktest_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/zktest"
)

func TestReal(t *testing.T) {
	t.Parallel()
	realzk.Installed(t)
	conn, err := zklocks.Connect(t.Context(), zktest.Real(t), 10*time.Second)
	must(t, err)
	defer conn.Close()
	_, err = answers(conn.Client())
	must(t, err)
}

func TestRealServersThatAreNamed(t *testing.T) {
	t.Setenv("ZK_SERVERS", "zk1:2181, zk2:2181")
	if got := zktest.Real(t); !slices.Equal(got, []string{"zk1:2181", "zk2:2181"}) {
		t.Errorf("servers %q", got)
	}
	synctest.Test(t, func(t *testing.T) {
		fails(t, func(t testing.TB) { zktest.Real(t) }, "Real in a synctest bubble")
	})
}

func TestRealTakesAddressesAlone(t *testing.T) {
	for servers, says := range map[string]string{
		"zk1:2181/jobs": "ZK_SERVERS has a path, /jobs",
		"zk1:port":      "ZK_SERVERS: ",
	} {
		t.Setenv("ZK_SERVERS", servers)
		fails(t, func(t testing.TB) { zktest.Real(t) }, says)
	}
}

// TestRealIsAskedFor runs in another process, for TestRealWithoutJava.
func TestRealIsAskedFor(t *testing.T) { zktest.Real(t) }

// Without Java the test is skipped, with a message that says what to do.
func TestRealWithoutJava(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	must(t, err)
	cmd := exec.Command(program, "-test.run=^TestRealIsAskedFor$", "-test.v")
	cmd.Env = []string{"PATH=", "JAVA_HOME="}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- SKIP: TestRealIsAskedFor") || !strings.Contains(string(out), "set ZK_SERVERS") {
		t.Errorf("%v\n%s", err, out)
	}
}
