// Package slot connects the recipe packages with the types of the root package. Each of these types
// embeds a type of this package that has no exported field or method. So the documentation does not
// show it and no program can reach it. The functions here accept only types that embed such a type.
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

// Held is a hold together with H, the caller's zklocks.Hold: one allocation for both.
type Held[H any] struct {
	queue.Hold
	public H
}

// Give begins h on a grant, see queue.Hold.Begin, and returns the caller's zklocks.Hold. If an
// observer wants reports of leaks, Give allocates it separately: only the caller refers to it, and a
// cleanup runs when the caller has dropped it.
func Give[H any, P interface {
	*H
	Holder
}](h *Held[H], g *queue.Grant, in *queue.Queue, leaver queue.Leaver, call queue.Call) P {
	h.Begin(g, in, leaver, call)
	own := P(&h.public)
	if leaked := h.Leaked(); leaked != nil {
		own = new(H)
		runtime.AddCleanup(own, func(report func()) { report() }, leaked)
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

// PutConn stores a connection in a Conn that no other goroutine has yet. defaults are the options
// of its locks.
func PutConn(c Connector, conn *wire.Conn, chroot Chroot, defaults ...Common) {
	slot := c.connSlot()
	slot.wire, slot.chroot, slot.defaults = conn, chroot, defaults
}

// Wire returns the connection in a Conn, nil for the zero Conn.
func Wire(c Connector) *wire.Conn { return c.connSlot().wire }

// Path puts the path of a program's node below the chroot. The root becomes the chroot itself. A
// relative path remains as it is, and invalid: behind the chroot it would name another node.
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

// Config returns the default configuration of a lock at path, of the package recipe. conn may be
// nil, which queue.New reports.
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
	if znode.ValidatePath(path) == nil { // with a chroot in front an invalid path might be valid
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
	lock any // the lock that embeds this Lock
	part func() queue.Part
}

func (l *Lock) lockSlot() *Lock { return l }

// A Locker embeds a Lock.
type Locker interface{ lockSlot() *Lock }

// PutPart initializes the Lock that a lock embeds. part describes the lock to zklocks.All.
func PutPart(slot *Lock, lock Locker, part func() queue.Part) {
	*slot = Lock{lock: lock, part: part}
}

// ErrNoLock is the error for a value that no recipe has made.
var ErrNoLock = errors.New("not a lock that New of rwlock, reentrant or semaphore has made, or nil")

// PartOf describes a lock to zklocks.All. It refuses a program's type that embeds a lock: All would
// not call its Lock.
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

// NoCopy makes go vet report copies of a type that has such a field.
type NoCopy = [0]sync.Mutex

// Members converts the members of a queue to the public type.
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
