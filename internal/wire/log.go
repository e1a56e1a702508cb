package wire

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// quietFor is how long a message that was logged is only counted.
const quietFor = 5 * time.Second

// A quietLogger receives all messages of the zk client, which logs the same few messages several
// times a second while it can reach no server.
type quietLogger struct {
	to zk.Logger

	mu   sync.Mutex
	last map[string]said // by text
}

// said is when a message was logged, and how often it was dropped since then.
type said struct {
	at      time.Time
	dropped int
}

// Printf drops what was logged a moment ago, and what says nothing.
func (l *quietLogger) Printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if strings.HasPrefix(text, "re-submitting `0` credentials") {
		return
	}
	if len(args) == 2 { // "failed to connect to %s: %v", and the error names the server, too
		text = strings.Replace(text, fmt.Sprintf("%v: %[1]v: ", args[0]), fmt.Sprintf("%v: ", args[0]), 1)
	}
	l.mu.Lock()
	now := time.Now()
	before, again := l.last[text]
	again = again && now.Sub(before.at) < quietFor
	if again {
		l.last[text] = said{before.at, before.dropped + 1}
	} else {
		maps.DeleteFunc(l.last, func(_ string, s said) bool { return now.Sub(s.at) > 10*quietFor })
		l.last[text] = said{at: now}
	}
	l.mu.Unlock()
	switch {
	case again:
	case before.dropped > 0:
		l.to.Printf("%s (%d more in %v)", text, before.dropped, now.Sub(before.at).Round(time.Second))
	default:
		l.to.Printf("%s", text)
	}
}
