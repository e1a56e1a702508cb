// Package checks is called by the copy of the library that package yields writes. It panics if a
// goroutine acquires mutexes out of order, if it waits while it holds a mutex, and if an invariant
// is broken.
package checks

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/zklocks/zklocks/internal/goid"
)

// Tiers are the mutexes of the library, as package.type.field. A goroutine that holds a mutex
// acquires only mutexes of later tiers.
var Tiers = [][]string{
	{ // recipes
		"queue.Callers.mu", "reentrant.Mutex.mu",
	},
	{"hold.listeners.telling"},
	{"hold.listeners.mu", "zkclient.monitor.mu", "semaphore.permitCount.mu"},
	{"wire.state.mu"},
}

// nests are mutexes that a goroutine may acquire while it holds another with the same name.
var nests = []string{"hold.listeners.telling"}

// current returns the number of the calling goroutine.
func current() int64 { return goid.ID() }

func tier(name string) int {
	return slices.IndexFunc(Tiers, func(names []string) bool { return slices.Contains(names, name) })
}

// held has the mutexes that each goroutine holds, in the order of acquisition.
var held = struct {
	mu sync.Mutex
	by map[int64][]string
}{by: make(map[int64][]string)}

// Mutex is a sync.Mutex whose name is derived from the type Name.
type Mutex[Name any] struct {
	mu    sync.Mutex
	owner int64 // guarded by mu
}

func (m *Mutex[Name]) name() string {
	pkg, field, _ := strings.Cut(reflect.TypeFor[Name]().String(), ".lock_")
	return pkg + "." + strings.ReplaceAll(field, "_", ".")
}

// Lock panics if the goroutine holds a mutex of the same or a later tier.
func (m *Mutex[Name]) Lock() {
	me, name := current(), m.name()
	take(me, name)
	m.mu.Lock()
	m.owner = me
}

func (m *Mutex[Name]) Unlock() {
	give(m.owner, m.name())
	m.mu.Unlock()
}

func take(me int64, name string) {
	mine := tier(name)
	if mine < 0 {
		panic("checks: " + name + " has no place among the tiers")
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	for _, other := range held.by[me] {
		if tier(other) >= mine && !(other == name && slices.Contains(nests, name)) {
			panic(fmt.Sprintf("checks: takes %s and holds %s", name, other))
		}
	}
	held.by[me] = append(held.by[me], name)
}

func give(me int64, name string) {
	held.mu.Lock()
	defer held.mu.Unlock()
	all := held.by[me]
	i := slices.Index(all, name)
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(held.by, me)
	} else {
		held.by[me] = all
	}
}

// Waits is called before a goroutine waits. It panics if the goroutine holds a mutex.
func Waits() {
	held.mu.Lock()
	defer held.mu.Unlock()
	if all := held.by[current()]; len(all) > 0 {
		panic(fmt.Sprintf("checks: waits and holds %q", all))
	}
}

// Invariant panics if invariant n of internal/queue/doc.go does not hold.
func Invariant(n int, holds bool) {
	if !holds {
		panic(fmt.Sprintf("checks: invariant %d does not hold", n))
	}
}
