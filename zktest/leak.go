package zktest

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
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
	made   map[string]string // by goroutine id: where the client that dials was made
}

// dialed is a connection, or an attempt at one.
type dialed struct {
	host *Host
	made string
	ours *wire.Conn   // the client; nil if it is another program's
	conn *memnet.Conn // nil during the attempt
	late bool         // dialed while the server was being stopped

	// forgets: the client is a zk.Conn. If its session has expired it drops the connection without
	// closing it, and the server closes it.
	forgets bool
}

func (d *dialed) String() string {
	if d.made == "" {
		return fmt.Sprintf("host %q (%s)", d.host.name, d.host.made)
	}
	return fmt.Sprintf("host %q, made near %s", d.host.name, d.made)
}

// over reports whether the client no longer uses the connection: it has closed the connection, or
// dropped it.
func (d *dialed) over() bool {
	return d.conn != nil && (d.conn.Closed() || d.forgets && d.conn.Ended())
}

func (c *clients) dials(ctx context.Context, h *Host, forgets bool) *dialed {
	d := &dialed{host: h, ours: wire.Dialing(ctx), late: h.s.isStopping(), forgets: forgets}
	stack := stackOf(false)
	id, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
	c.mu.Lock()
	made, known := c.made[id]
	c.mu.Unlock()
	if !known {
		made = madeNear(stack)
	}
	d.made = made
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made = make(map[string]string)
	}
	c.made[id] = made
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

var (
	createdBy = regexp.MustCompile(`\ncreated by .* in goroutine (\d+)\n`)
	frame     = regexp.MustCompile(`(?m)^(\S+)\(.*\)\n\t(\S+):(\d+)`)
)

// libraries matches functions, besides Go's own, that do not show where a client was made.
var libraries = regexp.MustCompile(`^github\.com/(go-zookeeper/zk|zklocks/zklocks(/internal/wire|/zktest)?)\.`)

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

// madeNear returns about where the client that dials now was made. A client dials on a goroutine of
// its own, and the goroutine that made it usually still waits for the first session. So madeNear
// searches this stack, and then the stack of the goroutine that started this one. It returns "" if
// it finds nothing.
func madeNear(stack string) string {
	for range 4 { // generations of goroutines
		for _, f := range frame.FindAllStringSubmatch(stack, -1) {
			if !libraries.MatchString(f[1]) && !ofGo(f[1], f[2]) {
				return fmt.Sprintf("%s:%s", filepath.Base(f[2]), f[3])
			}
		}
		parent := createdBy.FindStringSubmatch(stack)
		if parent == nil {
			return ""
		}
		_, stack, _ = strings.Cut("\n\n"+stackOf(true), "\n\ngoroutine "+parent[1]+" ")
		stack, _, _ = strings.Cut(stack, "\n\n")
		stack += "\n"
	}
	return ""
}

func stackOf(all bool) string {
	buf := make([]byte, 16<<10)
	for {
		n := runtime.Stack(buf, all)
		if n < len(buf) || len(buf) > 16<<20 {
			return string(buf[:n])
		}
		buf = make([]byte, 4*len(buf))
	}
}
