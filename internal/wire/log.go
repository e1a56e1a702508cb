package wire

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A quietLogger receives all messages of the zk client, and logs each at most once in quietFor: the
// client repeats a few of them several times a second while it can reach no server.
type quietLogger struct {
	to   zk.Logger
	mu   sync.Mutex
	last map[string]said // by message; guarded by mu
}

type said struct {
	at      time.Time
	dropped int // how often it was repeated since then
}

const quietFor = 5 * time.Second

func (l *quietLogger) Printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(args) == 2 { // "failed to connect to %s: %v": the error names the server, too
		text = strings.Replace(text, fmt.Sprintf("%v: %[1]v: ", args[0]), fmt.Sprintf("%v: ", args[0]), 1)
	}
	l.mu.Lock()
	s, now := l.last[text], time.Now()
	if now.Sub(s.at) < quietFor || strings.HasPrefix(text, "re-submitting `0` credentials") {
		s.dropped++
		l.last[text] = s
		l.mu.Unlock()
		return
	}
	maps.DeleteFunc(l.last, func(_ string, s said) bool { return now.Sub(s.at) > 10*quietFor })
	l.last[text] = said{at: now}
	l.mu.Unlock()
	if s.dropped > 0 {
		text += fmt.Sprintf(" (%d more in %v)", s.dropped, now.Sub(s.at).Round(time.Second))
	}
	l.to.Printf("%s", text)
}
