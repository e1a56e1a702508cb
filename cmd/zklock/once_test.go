package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// jobPath returns the path of a job, and deletes its record at the end of the test.
func jobPath(t *testing.T) string {
	t.Helper()
	path := test.Path(t)
	t.Cleanup(func() { _ = realzk.Connect(t, quiet, realzk.Some(t)...).Client().Delete(path+"/last", -1) })
	return path
}

func TestASlotIsRunOnce(t *testing.T) {
	t.Parallel()
	path := jobPath(t)
	run := func(slot, script string, flags ...string) *realzk.Child {
		return start(t, "", append(append([]string{"run", "-slot", slot}, flags...), path, "--", "sh", "-c", script)...)
	}
	ends(t, run("2026-11-26", "exit 3"), 3) // the job fails, so the next process runs it
	first := run("2026-11-26", "echo runs; read line")
	first.Hears("runs")
	second, third := run("2026-11-26", "exit 4"), run("2026-11-26", "exit 4", "-quiet")
	inLine(t, path+"/lock", 3)
	finish(t, first)
	ends(t, second, 0, "zklock: "+path+": done already: slot \"2026-11-26\", by process ")
	if code, cries := third.Ends(); code != 0 || cries != "" {
		t.Errorf("with -quiet: exit code %d, %q", code, cries)
	}
	ends(t, run("2026-11-25", "exit 4", "-quiet"), exitPassed, "zklock: "+path+": slot passed: the record does not have slot \"2026-11-25\"", "the command was not run")
	ends(t, run("2026-11-27", "exit 0"), 0)
	ends(t, run("2026-11-26", "exit 4"), 0, "done already: slot \"2026-11-26\", before slot \"2026-11-27\"")
	if code, text := prints(t, "", nil, "ls", path); code != 0 || !strings.Contains(text, path+": once, last run until 20") || !strings.Contains(text, "for slot 2026-11-27, no holder, no waiter") {
		t.Errorf("ls, exit code %d: %s", code, text)
	}
}

func TestAPeriodIsRunOnce(t *testing.T) {
	t.Parallel()
	path := jobPath(t)
	ends(t, start(t, "", "run", "-once-every", "1h", path, "--", "true"), 0)
	ends(t, start(t, "", "run", "-once-every", "1h", path, "--", "false"), 0, "done already: by process ")
	h := holder(t, "-once-every", "1ns", path)
	l := start(t, "", "ls", path)
	if got := l.Hears(path + ":"); !strings.HasPrefix(got, "once, last run until 20") || !strings.HasSuffix(got, ", 1 holding, 0 waiting") {
		t.Errorf("ls: %q", got)
	}
	l.Hears("holds")
	ends(t, l, 0)
	code, text := prints(t, "", nil, "ls", "-json", "-r", path)
	var job line
	if code != 0 || strings.Count(text, "\n") != 1 || json.Unmarshal([]byte(text), &job) != nil || job.Last == nil || job.Last.Pid == 0 || len(job.Members) != 1 {
		t.Errorf("ls -r, exit code %d: %s", code, text)
	}

	before := job.Last.End
	ends(t, start(t, "", "break", "-yes", path), 0) // the lock is lost: the run is not recorded
	ends(t, h, exitLost, path+": the lock was lost; the command was ended")
	text = ""
	if _, text = prints(t, "", nil, "ls", "-json", path); json.Unmarshal([]byte(text), &job) != nil || !job.Last.End.Equal(before) {
		t.Errorf("after the loss: %s, want the run until %v", text, before)
	}
}

// -wait bounds the wait, not the run.
func TestAJobThatRunsForLongerThanItWouldWait(t *testing.T) {
	t.Parallel()
	path := jobPath(t)
	const wait = "5s" // real: on a busy machine it may take seconds to open a session
	first := start(t, "", "run", "-slot", "1", "-wait", wait, path, "--", "sh", "-c", "echo runs; read line")
	first.Hears("runs")
	ends(t, start(t, "", "run", "-slot", "1", "-wait", wait, path, "--", "true"), exitTimeout, path+" was not free within "+wait)
	finish(t, first)
	ends(t, start(t, "", "run", "-slot", "1", path, "--", "false"), 0, "done already")
}
