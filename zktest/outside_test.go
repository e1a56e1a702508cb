package zktest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
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
