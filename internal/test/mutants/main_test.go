package main

import "testing"

func TestChoose(t *testing.T) {
	if got, err := choose(""); err != nil || len(got) != len(mutants) || len(got) > 60 {
		t.Errorf("without a name: %d of %d, at most 60; %v", len(got), len(mutants), err)
	}
	if got, err := choose(mutants[0].name); err != nil || len(got) != 1 || got[0].name != mutants[0].name {
		t.Errorf("by its name: %d, %v", len(got), err)
	}
	for _, bad := range []string{"there is none", "("} {
		if got, err := choose(bad); err == nil {
			t.Errorf("%q: %d", bad, len(got))
		}
	}
}

func TestFailure(t *testing.T) {
	for text, want := range map[string]string{
		"--- FAIL: TestA (1s)\n    --- PASS: TestA/x (0s)\n    --- FAIL: TestA/y (0s)\nFAIL\n": "TestA/y",
		"=== RUN TestA\npanic: test timed out after 2m0s\n":                                    "panic: test timed out after 2m0s",
		"--- PASS: TestA (0s)\nPASS\ngoleak: left over\n":                                      "after the tests: goleak: left over",
	} {
		if got := failure(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for run, want := range map[string]string{"TestA/a b (c)": `^(TestA)$/^(a_b_\(c\))$`, "TestA|TestB": "^(TestA|TestB)$", "": "."} {
		if got := (target{run: run}).pattern(); got != want {
			t.Errorf("pattern %s, want %s", got, want)
		}
	}
}
