package test

import (
	"bytes"
	"regexp"
	"runtime"
)

var bubble = regexp.MustCompile(`^goroutine \d+ \[[^\]]*(synctest bubble \d+)\]`)

// Goroutines returns the number of goroutines in the caller's bubble, or in the program if the
// caller is not in a bubble. Other tests may run outside of the bubble.
func Goroutines() int {
	if own() == nil {
		return runtime.NumGoroutine()
	}
	return len(Stacks())
}

// Stacks returns the stacks of the goroutines that Goroutines counts.
func Stacks() (all []string) {
	mine := own()
	for stack := range bytes.SplitSeq(stacks(true), []byte("\n\n")) {
		if of := bubble.FindSubmatch(stack); mine == nil || of != nil && bytes.Equal(of[1], mine) {
			all = append(all, string(stack))
		}
	}
	return all
}

// own returns the name of the caller's bubble, or nil.
func own() []byte {
	if mine := bubble.FindSubmatch(stacks(false)); mine != nil {
		return mine[1]
	}
	return nil
}

// stacks returns the stacks of the caller or of all goroutines, each after an empty line.
func stacks(all bool) []byte {
	for buf := make([]byte, 64<<10); ; buf = make([]byte, 2*len(buf)) {
		if n := runtime.Stack(buf, all); n < len(buf) {
			return buf[:n]
		}
	}
}
