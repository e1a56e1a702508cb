package main

import "testing"

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
