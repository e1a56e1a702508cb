package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// settings are the arguments of again.
type settings struct {
	runs    int
	busy    int    // processes that keep the machine busy meanwhile
	logs    string // the directory for the logs of runs that failed
	command []string
}

func againFromFlags(ctx context.Context, args []string) (passed bool, err error) {
	var s settings
	flags := flag.NewFlagSet("again", flag.ContinueOnError)
	flags.IntVar(&s.runs, "n", 50, "how many `runs`")
	flags.IntVar(&s.busy, "busy", 2, "how many `processes` keep the machine busy meanwhile")
	flags.StringVar(&s.logs, "logs", "", "`directory` for the logs of runs that failed; default: a new temporary one")
	if err := flags.Parse(args); err != nil {
		return false, flag.ErrHelp // flag has printed it
	}
	s.command = flags.Args()
	switch {
	case s.runs < 1 || s.busy < 0:
		return false, fmt.Errorf("-n %d -busy %d: too few", s.runs, s.busy)
	case len(s.command) == 0:
		return false, errors.New("which command?")
	case s.logs == "":
		s.logs, err = os.MkdirTemp("", "zklocks-again-")
	default:
		err = os.MkdirAll(s.logs, 0o755)
	}
	if err != nil {
		return false, err
	}
	return again(ctx, s, os.Stdout)
}

// again runs the command s.runs times beside s.busy busy processes. It returns true when no run has
// failed.
func again(ctx context.Context, s settings, w io.Writer) (passed bool, err error) {
	stop, err := keepBusy(s.busy)
	if err != nil {
		return false, err
	}
	defer stop()
	var t table
	for n := 1; n <= s.runs && ctx.Err() == nil; n++ {
		log := filepath.Join(s.logs, fmt.Sprintf("run-%03d.log", n))
		seconds, failed, err := once(ctx, s.command, log)
		if ctx.Err() != nil { // an interrupted run says nothing of the tests
			break
		}
		if err != nil {
			return false, err
		}
		t.add(seconds, failed, log)
		verdict := "ok"
		if len(failed) > 0 {
			verdict = "FAILED " + strings.Join(failed, ", ")
		}
		fmt.Fprintf(w, "run %d of %d: %.1f s, %s\n", n, s.runs, seconds, verdict)
	}
	fmt.Fprint(w, "\n"+t.String())
	if t.failed > 0 {
		fmt.Fprintf(w, "The logs are in %s\n", s.logs)
	} else {
		_ = os.Remove(s.logs) // which stays when it was there before, with something in it
	}
	return t.failed == 0 && len(t.seconds) == s.runs, nil
}

// once runs the command and returns how long it took and what has failed. A run that fails leaves a
// log.
func once(ctx context.Context, command []string, log string) (seconds float64, failed []string, err error) {
	begun := time.Now()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var cries bytes.Buffer
	cmd.Stderr = &cries
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, nil, err
	}
	inGroup(cmd)
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	rep, err := read(out, nil)
	ended := cmd.Wait()
	if err != nil {
		return 0, nil, err
	}
	seconds = time.Since(begun).Seconds()
	text, failed := rep.verdict()
	if tests := rep.ran(); tests == 0 && len(failed) == 0 {
		// A command that runs nothing would be taken for one whose tests all pass.
		return 0, nil, fmt.Errorf("%s: no test was run: %v\n%s%s", strings.Join(command, " "), ended, &rep.other, &cries)
	}
	if ended != nil && len(failed) == 0 {
		failed = []string{"(the command: " + ended.Error() + ")"}
	}
	if len(failed) == 0 {
		return seconds, nil, nil
	}
	text += rep.other.String() + cries.String()
	return seconds, failed, os.WriteFile(log, []byte(text), 0o644)
}

// verdict names what has failed, and gives the output of the packages in which it did.
func (r *report) verdict() (output string, failed []string) {
	var b strings.Builder
	for _, p := range r.sorted() {
		names := p.failures()
		for _, name := range names {
			failed = append(failed, p.name+" "+name)
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "### %s: %s\n%s\n", p.name, strings.Join(names, ", "), p.output.String())
		}
	}
	return b.String(), failed
}

// ran is how many tests were run.
func (r *report) ran() int {
	n := 0
	for _, p := range r.packs {
		n += len(p.tests)
	}
	return n
}

// table is the result of the runs.
type table struct {
	seconds []float64
	failed  int // runs
	rows    []row
}

type row struct {
	test  string
	times int
	log   string // of the first one
}

func (t *table) add(seconds float64, failed []string, log string) {
	t.seconds = append(t.seconds, seconds)
	if len(failed) > 0 {
		t.failed++
	}
	for _, test := range failed {
		i := slices.IndexFunc(t.rows, func(r row) bool { return r.test == test })
		if i < 0 {
			i = len(t.rows)
			t.rows = append(t.rows, row{test: test, log: filepath.Base(log)})
		}
		t.rows[i].times++
	}
}

// String is the table of failures, the most frequent first, and a line about the runs.
func (t *table) String() string {
	var b strings.Builder
	if len(t.rows) > 0 {
		rows := slices.Clone(t.rows)
		slices.SortStableFunc(rows, func(a, b row) int { return b.times - a.times })
		w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "test\tfailures\tof runs\tfirst log")
		for _, r := range rows {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", r.test, r.times, len(t.seconds), r.log)
		}
		w.Flush()
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s, %d failed", number(len(t.seconds), "run"), t.failed)
	if len(t.seconds) > 0 {
		s := slices.Sorted(slices.Values(t.seconds))
		median := (s[(len(s)-1)/2] + s[len(s)/2]) / 2
		fmt.Fprintf(&b, "; seconds a run: %.1f to %.1f, median %.1f", s[0], s[len(s)-1], median)
	}
	b.WriteByte('\n')
	return b.String()
}

// spinner is the argument that makes a copy of this program keep a processor busy.
const spinner = "spin"

// keepBusy starts n processes that do nothing but use a processor each, until stop.
func keepBusy(n int) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for range n {
		cmd := exec.Command(self, spinner)
		// It ends with its standard input, so also when this process is killed.
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("keep the machine busy: %w", err)
		}
		stops = append(stops, func() {
			in.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed, as expected
		})
	}
	return stop, nil
}

// spin is what such a process does.
func spin() {
	runtime.GOMAXPROCS(1)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for n := 0; ; n++ {
		runtime.KeepAlive(n) // computes without a system call, which would yield the processor
	}
}
