package zktest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/zktest"
)

// block matches a file in docs/how-to/test-your-code.md: its first line is its name.
var block = regexp.MustCompile("(?s)```go\n// (\\w+\\.go)\n\n(.*?)```")

// The code of docs/how-to/test-your-code.md is a module of its own. Without Java its tests take
// less than a second. Its first test fails if the program ignores the loss of its lock.
func TestAProgramOutsideOfTheModule(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/how-to/test-your-code.md")
	must(t, err)
	files := block.FindAllStringSubmatch(strings.ReplaceAll(string(doc), "\r\n", "\n"), -1)
	if shown := strings.Count(string(doc), "```go\n"); len(files) != shown || shown < 3 {
		t.Fatalf("%d of %d blocks of Go name their file", len(files), shown)
	}
	checkout, err := filepath.Abs("..")
	must(t, err)
	dir := t.TempDir()
	write := func(name, text string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) }
	for _, f := range files {
		write(f[1], f[2])
	}
	write("go.mod", fmt.Sprintf("module example.com/nightly\n\ngo 1.25.0\n\n"+
		"require github.com/zklocks/zklocks v0.0.0\n\nreplace github.com/zklocks/zklocks => %s\n", strconv.Quote(checkout)))
	sums, err := os.ReadFile("../go.sum")
	must(t, err)
	// Without goleak: importers of zktest do not get it.
	write("go.sum", regexp.MustCompile(`(?m)^go\.uber\.org/goleak \S+ h1:.*\n`).ReplaceAllString(string(sums), ""))

	out, err := goTest(t, dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("\n%s", out)
	if sums, err := os.ReadFile(filepath.Join(dir, "go.sum")); err != nil || regexp.MustCompile(`goleak \S+ h1:`).Match(sums) {
		t.Errorf("the program needs goleak, or: %v", err)
	}
	took := regexp.MustCompile(`(?m)^ok\s+example\.com/nightly\s+([0-9.]+)s`).FindStringSubmatch(out)
	if took == nil {
		t.Fatalf("no time is printed:\n%s", out)
	}
	// The tests take less than a second on an idle machine; in real time they would take eleven.
	if seconds, err := strconv.ParseFloat(took[1], 64); err != nil || seconds >= 8 {
		t.Errorf("the tests take %ss, %v", took[1], err)
	}
	for _, name := range []string{"TestTheJobStopsWhenItsLockIsLost", "TestTheReplyIsLost", "TestAProgramThatConnects"} {
		if !strings.Contains(out, "--- PASS: "+name) {
			t.Errorf("%s does not pass:\n%s", name, out)
		}
	}
	if !strings.Contains(out, "--- SKIP: TestOnARealServer") {
		t.Errorf("without Java a test on a real server is not skipped:\n%s", out)
	}

	for _, f := range files {
		if f[1] == "nightly.go" {
			forgetful := strings.Replace(f[2], "job(held)", "job(ctx)", 1)
			if forgetful == f[2] {
				t.Fatal("the program does not give the job the context that ends with the hold")
			}
			write(f[1], forgetful)
		}
	}
	out, err = goTest(t, dir)
	if err == nil || !strings.Contains(out, "another process has the lock, and the job still runs") {
		t.Errorf("a program that does not notice the loss: %v\n%s", err, out)
	}
}

// goTest runs the tests of the module in dir, without Java and without a network.
func goTest(t *testing.T, dir string) (string, error) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	cmd := exec.Command(filepath.Join(strings.TrimSpace(string(root)), "bin", "go"), "test", "-count=1", "-v", "./...")
	cmd.Dir = dir
	for _, variable := range os.Environ() {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "PATH", "JAVA_HOME", "ZK_SERVERS", "GOFLAGS", "GOPROXY", "GOWORK", "PWD":
		default:
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "PATH=", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "CGO_ENABLED=0", "PWD="+dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

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

// The examples of the documentation are tests: an Example cannot run them, because it has no t.
func TestExamples(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Next": theReplyIsLost, "Dial": theLeaderDies,
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// Methods that would fail a test panic in an Example. end runs the cleanups, once.
func TestForExample(t *testing.T) {
	e, end := zktest.ForExample()
	var order []int
	for i := range 2 {
		e.Cleanup(func() { order = append(order, i) })
	}
	fails := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic", what)
			}
		}()
		f()
	}
	fails("Fatal", func() { e.Fatal("no") })
	fails("Errorf", func() { e.Errorf("no %d", 1) })
	end()
	end()
	if !slices.Equal(order, []int{1, 0}) {
		t.Errorf("cleanups ran in the order %d", order)
	}
}

// The documentation names no package that users cannot import.
func TestTheDocumentationNamesNothingInternal(t *testing.T) {
	out, err := exec.Command("go", "doc", "-all", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "func NewServer") {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		for _, internal := range []string{"proxy.", "memzk", "memnet", "realzk", "internal/"} {
			if strings.Contains(line, internal) {
				t.Errorf("%q", line)
			}
		}
	}
}
