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

// current reads the number from the runtime's own structure. Package goid has its layout for each
// Go version, and would return a wrong number for an unknown version. So choose compares it with a
// stack trace, and uses stack traces if they differ (microseconds, not nanoseconds).
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

// fromStack reads the number from the first line of a stack trace, "goroutine 18 [running]:", as it
// has been since Go 1.0. The small buffer keeps the runtime from printing the frames.
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
