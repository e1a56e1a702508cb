// Package slot connects the recipe packages with the types of the root package. Each of these
// embeds a type of this package that has no exported field or method, so their documentation does
// not show it and no program can reach it; the functions here take only types that embed one.
package slot

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// Hold is embedded by zklocks.Hold.
type Hold struct {
	_    NoCopy
	hold *queue.Hold // nil: the zero Hold
}

func (h *Hold) holdSlot() *Hold { return h }

// A Holder embeds a Hold.
type Holder interface{ holdSlot() *Hold }

// Held is a hold together with the zklocks.Hold, H, that the caller gets: one allocation for both.
type Held[H any] struct {
	queue.Hold
	public H
}

// Put returns the zklocks.Hold for the caller. If observers want to be notified of a hold that is
// never released, only the caller refers to it, so that the garbage collector detects when the
// caller has dropped it.
func Put[H any, P interface {
	*H
	Holder
}](h *Held[H]) P {
	own := P(&h.public)
	if h.ReportsLeaks() {
		own = new(H)
		runtime.AddCleanup(own, func(report func()) { report() }, h.Leaked())
	}
	own.holdSlot().hold = &h.Hold
	return own
}

// Get returns the hold in a zklocks.Hold, nil for the zero Hold.
func Get(h Holder) *queue.Hold { return h.holdSlot().hold }

// Conn is embedded by zklocks.Conn.
type Conn struct {
	_        NoCopy
	wire     *wire.Conn
	chroot   Chroot
	defaults []Common
}

func (c *Conn) connSlot() *Conn { return c }

// A Connector embeds a Conn.
type Connector interface{ connSlot() *Conn }

// PutConn stores a connection in a Conn, before another goroutine has the Conn. defaults are the
// options of its locks.
func PutConn(c Connector, conn *wire.Conn, chroot Chroot, defaults ...Common) {
	slot := c.connSlot()
	slot.wire, slot.chroot, slot.defaults = conn, chroot, defaults
}

// Wire returns the connection in a Conn, nil for the zero Conn.
func Wire(c Connector) *wire.Conn { return c.connSlot().wire }

// Path returns the path that a node of the program has on the server: any absolute path is put
// below the chroot, and the root is the chroot itself. A relative path stays invalid: behind the
// chroot it would name another node.
func Path(c Connector, path string) string {
	chroot := string(c.connSlot().chroot)
	switch {
	case chroot == "" || !strings.HasPrefix(path, "/"):
		return path
	case path == "/":
		return chroot
	}
	return chroot + path
}

// Config returns the configuration of a lock at path, of the package recipe, without options of its
// own. The connection may be nil, which queue.New finds wrong.
func Config[C any, P interface {
	*C
	Connector
}](conn P, recipe, path string) queue.Config {
	cfg := queue.Default()
	cfg.Recipe, cfg.Path, cfg.Dir = recipe, path, path
	if conn == nil {
		return cfg
	}
	cfg.Conn = Wire(conn)
	if znode.ValidatePath(path) == nil { // behind a chroot an invalid path might be valid
		cfg.Dir = string(conn.connSlot().chroot) + path
	}
	for _, option := range conn.connSlot().defaults {
		option(&cfg)
	}
	return cfg
}

// Lock is embedded by the locks that zklocks.All takes.
type Lock struct {
	_    NoCopy
	lock any // that embeds it
	part func() queue.Part
}

func (l *Lock) lockSlot() *Lock { return l }

// A Locker embeds a Lock.
type Locker interface{ lockSlot() *Lock }

// PutPart stores in the Lock that a lock embeds what becomes of the lock as one of several.
func PutPart(slot *Lock, lock Locker, part func() queue.Part) {
	*slot = Lock{lock: lock, part: part}
}

// ErrNoLock is the error of a value that no recipe has made.
var ErrNoLock = errors.New("not a lock that New of rwlock, reentrant or semaphore has made, or nil")

// PartOf returns what becomes of a lock as one of several. A type of the program's that embeds a
// lock is none: its own Lock would not be called.
func PartOf(lock any) (queue.Part, error) {
	l := lockOf(lock)
	if l == nil || l.lock != lock {
		return queue.Part{}, fmt.Errorf("%T: %w", lock, ErrNoLock)
	}
	return l.part(), nil
}

func lockOf(lock any) (l *Lock) {
	defer func() { _ = recover() }() // lock is a nil pointer, or embeds one
	if locker, ok := lock.(Locker); ok {
		l = locker.lockSlot()
	}
	return l
}

// NoCopy makes go vet report copies of what has one.
type NoCopy = [0]sync.Mutex

// Members gives the members of a queue the public type.
func Members[M any](members []queue.Member, public func(queue.Member) M) []M {
	if members == nil {
		return nil
	}
	list := make([]M, len(members))
	for i, m := range members {
		list[i] = public(m)
	}
	return list
}
