package zktest

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/wire"
)

// clients records the connections that hosts have dialed, to report open connections.
type clients struct {
	mu     sync.Mutex
	dialed []*dialed
}

// dialed is a connection, or an attempt at one.
type dialed struct {
	host *Host
	ours *wire.Conn   // the client; nil if it is another program's
	conn *memnet.Conn // nil during the attempt
	late bool         // dialed while the server was being stopped

	// forgets: the client is a zk.Conn. If its session has expired it drops the connection without
	// closing it, and the server closes it.
	forgets bool
}

func (d *dialed) String() string {
	return fmt.Sprintf("host %q (%s)", d.host.name, d.host.made)
}

// over reports whether the client no longer uses the connection: it has closed the connection, or
// dropped it.
func (d *dialed) over() bool {
	return d.conn != nil && (d.conn.Closed() || d.forgets && d.conn.Ended())
}

func (c *clients) dials(ctx context.Context, h *Host, forgets bool) *dialed {
	d := &dialed{host: h, ours: wire.Dialing(ctx), late: h.s.isStopping(), forgets: forgets}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialed = slices.DeleteFunc(c.dialed, func(d *dialed) bool { return !d.late && d.over() })
	c.dialed = append(c.dialed, d)
	return d
}

// failed removes an attempt, unless it shows that the client still runs when the test ends.
func (c *clients) failed(d *dialed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !d.late {
		c.dialed = slices.DeleteFunc(c.dialed, func(e *dialed) bool { return e == d })
	}
}

func (c *clients) opened(d *dialed, conn *memnet.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d.conn = conn
}

// open returns the dial attempts without a connection, and the connections in use (see over).
func (c *clients) open() []*dialed {
	return c.which(func(d *dialed) bool { return !d.over() })
}

// late returns the connections and attempts that were dialed while the server was being stopped.
func (c *clients) late() []*dialed { return c.which(func(d *dialed) bool { return d.late }) }

func (c *clients) which(those func(*dialed) bool) []*dialed {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*dialed
	for _, d := range c.dialed {
		if those(d) {
			list = append(list, d)
		}
	}
	return list
}

// caller returns the file and line of the innermost frame outside of this package.
func caller() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "github.com/zklocks/zklocks/zktest.") {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

// goroot is the folder of Go's own packages; "" in a program built with -trimpath.
var goroot = func() string {
	f, _ := runtime.CallersFrames([]uintptr{reflect.ValueOf(strings.Cut).Pointer()}).Next()
	root, _, _ := strings.Cut(f.File, "strings/")
	return root
}()

func ofGo(function, file string) bool {
	if goroot != "" {
		return strings.HasPrefix(file, goroot)
	}
	// Without folders only the paths of packages remain. Paths of Go's packages have no dot before
	// the first slash.
	path, _, _ := strings.Cut(function, "/")
	return path == function || !strings.Contains(path, ".")
}
