// Package goid returns the calling goroutine's number.
package goid

import (
	"bytes"
	"runtime"
	"strconv"

	"github.com/petermattis/goid"
)

// ID returns the number of the calling goroutine. Numbers are never reused within a process.
func ID() int64 { return current() }

// current reads the number from the runtime's own structure, whose layout the goid package knows by
// Go version. On an unknown version it would silently return a wrong number. So it is checked once
// at start, and if it disagrees the number is read from a stack trace instead (microseconds, not
// nanoseconds).
var current = choose(goid.Get)

func choose(fast func() int64) func() int64 {
	for range 3 {
		agree := make(chan bool)
		go func() { agree <- fast() == fromStack() }()
		if !<-agree {
			return fromStack
		}
	}
	return fast
}

// fromStack reads the number from the first line of a stack trace, "goroutine 18 [running]:", which
// has had this form since Go 1.0. A small buffer keeps the runtime from printing the frames.
func fromStack() int64 {
	var buf [40]byte
	line := buf[:runtime.Stack(buf[:], false)]
	number, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("goroutine ")), []byte(" "))
	id, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		panic("zklocks: cannot read the goroutine's number from " + strconv.Quote(string(line)))
	}
	return id
}
