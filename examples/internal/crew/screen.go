package crew

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// How often a live view is redrawn on a terminal, or printed elsewhere.
const (
	redraw  = 50 * time.Millisecond
	reprint = 500 * time.Millisecond
)

// screen prints lines with the time since the start, and a live line below them that is redrawn.
type screen struct {
	mu       sync.Mutex
	begun    time.Time
	terminal bool
	live     bool      // the last line is a live view
	ended    bool      // the verdict was printed: no more live views
	printed  time.Time // when the last live view was printed
}

func (s *screen) begin() {
	s.begun = time.Now()
	info, err := os.Stdout.Stat()
	s.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (s *screen) stamp() string { return fmt.Sprintf("%5.1fs  ", time.Since(s.begun).Seconds()) }

// print cancels the example if its output is closed, as with "| head".
func (c *Crew) print(text string) {
	if _, err := os.Stdout.WriteString(text); err != nil {
		c.cancel(errInterrupted)
	}
}

// Note prints a line that remains.
func (c *Crew) Note(format string, args ...any) {
	s := &c.screen
	s.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	c.print(s.stamp() + fmt.Sprintf(format, args...) + "\n")
}

// Live shows the present state: on a terminal it redraws the live line, elsewhere it prints a new
// line at most twice a second.
func (c *Crew) Live(format string, args ...any) {
	s := &c.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.stamp() + fmt.Sprintf(format, args...)
	switch {
	case s.ended:
	case s.terminal && time.Since(s.printed) >= redraw:
		c.print(fmt.Sprintf("\r%.79s\x1b[K", line)) // a wrapped line could not be redrawn
		s.live, s.printed = true, time.Now()
	case !s.terminal && time.Since(s.printed) >= reprint:
		c.print(line + "\n")
		s.printed = time.Now()
	}
}

// Proved prints what the example has proved, or returns the error if the example has failed.
func (c *Crew) Proved(format string, args ...any) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	c.screen.end()
	fmt.Printf("PROVED: "+format+"\n", args...)
	return nil
}

func (s *screen) end() {
	s.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// clear removes the live view.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live {
		fmt.Print("\r\x1b[K")
		s.live = false
	}
}

// Verdict returns the text for the result of an attempt.
func Verdict(err error) string {
	if err != nil {
		return "refused, " + err.Error()
	}
	return "accepted"
}
