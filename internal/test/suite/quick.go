package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// quick runs go test -json, shows what go test shows, and says what was left out: tests, and the
// modules below, which are no part of ./...
func quick(ctx context.Context, command []string, w io.Writer) error {
	begun := time.Now()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	inGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	rep, err := read(out, func(_ *report, p *pack) { fmt.Fprint(w, p.brief()) })
	ended := cmd.Wait()
	if err != nil {
		return err
	}
	fmt.Fprint(w, rep.other.String())
	tests := 0
	for _, p := range rep.packs {
		tests += len(p.tests)
	}
	if tests == 0 && ended == nil {
		return fmt.Errorf("%s: no test was run", strings.Join(command, " "))
	}
	fmt.Fprintf(w, "\n%s %.0f s.\n", rep.summary(), time.Since(begun).Seconds())
	if below := modules(); len(below) > 0 {
		fmt.Fprintf(w, "Not of this module, and left out, too: %s.\n", strings.Join(below, ", "))
	}
	return ended
}

// modules are the directories below that have a go.mod and packages.
func modules() (dirs []string) {
	for _, pattern := range []string{"*/go.mod", "*/*/go.mod"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if dir := filepath.Dir(file); dir != "tools" {
				dirs = append(dirs, filepath.ToSlash(dir))
			}
		}
	}
	return dirs
}

// brief is what go test prints of a package, and how many of its tests were left out.
func (p *pack) brief() string {
	if p.state == "fail" {
		var b strings.Builder
		for _, name := range p.deepest(func(t *testcase) bool { return t.state == "fail" }) {
			b.WriteString(p.tests[name].output.String())
		}
		if b.Len() == 0 { // it did not build, or its program did not end by itself
			return p.output.String()
		}
		return b.String() + p.own.String()
	}
	line := lastLine(p.own.String())
	if left, _ := p.skipped(); left > 0 {
		line = fmt.Sprintf("%s\t[%d left out]", line, left)
	}
	return line + "\n"
}

func lastLine(text string) string {
	text = strings.TrimRight(text, "\n")
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// summary says in a line what was not run.
func (r *report) summary() string {
	left, others, packages := 0, 0, 0
	for _, p := range r.packs {
		l, o := p.skipped()
		left, others = left+l, others+o
		if l > 0 {
			packages++
		}
	}
	var b strings.Builder
	if left == 0 {
		b.WriteString("No test was left out for want of a ZooKeeper.")
	} else {
		fmt.Fprintf(&b, "%s in %s left out, because no ZooKeeper is installed: make test installs one and runs all.",
			number(left, "test"), number(packages, "package"))
	}
	if others > 0 {
		fmt.Fprintf(&b, " %s skipped for other reasons, which go test -v names.", number(others, "test"))
	}
	return b.String()
}

func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
