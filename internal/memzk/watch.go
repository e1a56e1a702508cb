package memzk

import (
	"slices"

	"github.com/zklocks/zklocks/internal/jute"
)

// Kinds of events.
const (
	eventCreated  int32 = 1
	eventDeleted  int32 = 2
	eventChanged  int32 = 3
	eventChildren int32 = 4

	stateConnected int32 = 3
)

// mode is a set: a connection can have watches of several modes on one path.
type mode uint8

const (
	standard mode = 1 << iota
	persistent
	recursive

	anyMode = standard | persistent | recursive
)

// Kinds of watches in requests to remove them.
const (
	watcherChildren   int32 = 1
	watcherData       int32 = 2
	watcherAny        int32 = 3
	watcherPersistent int32 = 4
	watcherRecursive  int32 = 5
)

// watcher is a connection that watches a path.
type watcher struct {
	c     *conn
	modes mode
}

// watchTable keeps the watches of one kind of a member, by path and by connection.
type watchTable struct {
	paths     map[string][]watcher
	recursive int  // how many watches are recursive; if 0, parents are not searched
	single    bool // a connection has one mode for each path, the last, as before 3.9
}

func (w *watchTable) add(path string, c *conn, of map[string]struct{}, m mode) {
	list := w.paths[path]
	for i := range list {
		if list[i].c == c {
			had := list[i].modes
			if w.single {
				list[i].modes = m
			} else {
				list[i].modes |= m
			}
			w.count(had, list[i].modes)
			return
		}
	}
	w.paths[path] = append(list, watcher{c, m})
	of[path] = struct{}{}
	w.count(0, m)
}

func (w *watchTable) count(before, after mode) {
	if before&recursive != 0 {
		w.recursive--
	}
	if after&recursive != 0 {
		w.recursive++
	}
}

// has reports whether the connection watches the path in any of the modes; before 3.9, whether any
// connection watches it.
func (w *watchTable) has(path string, c *conn, m mode) bool {
	if w.single {
		return len(w.paths[path]) > 0
	}
	return slices.ContainsFunc(w.paths[path], func(e watcher) bool { return e.c == c && e.modes&m != 0 })
}

// remove removes modes, and reports whether the connection had any of them.
func (w *watchTable) remove(path string, c *conn, of map[string]struct{}, m mode) bool {
	list := w.paths[path]
	for i := range list {
		if list[i].c != c {
			continue
		}
		had := list[i].modes
		if w.single {
			m = anyMode
		}
		if had&m == 0 {
			return false
		}
		list[i].modes = had &^ m
		w.count(had, list[i].modes)
		if list[i].modes == 0 {
			delete(of, path)
			w.set(path, slices.Delete(list, i, i+1))
		}
		return true
	}
	return false
}

func (w *watchTable) set(path string, list []watcher) {
	if len(list) == 0 {
		delete(w.paths, path)
		return
	}
	w.paths[path] = list
}

// watches are all watches of a member, in memory only: a restarted member has none.
type watches struct {
	data, child watchTable
	behavior    *behavior
	hit         []*conn // reused by fire
}

func newWatches(b *behavior) *watches {
	return &watches{
		data:     watchTable{paths: map[string][]watcher{}, single: !b.watchModes},
		child:    watchTable{paths: map[string][]watcher{}, single: !b.watchModes},
		behavior: b,
	}
}

func (w *watches) watchData(path string, c *conn, m mode)  { w.data.add(path, c, c.dataPaths, m) }
func (w *watches) watchChild(path string, c *conn, m mode) { w.child.add(path, c, c.childPaths, m) }

// watchAll adds a persistent or a recursive watch.
func (w *watches) watchAll(path string, c *conn, m mode) {
	w.watchData(path, c, m)
	if m == persistent || w.child.single {
		w.watchChild(path, c, m)
	}
}

// forget removes all watches of a connection.
func (w *watches) forget(c *conn) {
	for path := range c.dataPaths {
		w.data.remove(path, c, c.dataPaths, anyMode)
	}
	for path := range c.childPaths {
		w.child.remove(path, c, c.childPaths, anyMode)
	}
}

// fired returns the connections that receive the event, and removes their standard watches.
func (w *watches) fired(table *watchTable, of func(*conn) map[string]struct{}, path string, kind int32) []*conn {
	hit := w.hit[:0]
	list := table.paths[path]
	if len(list) > 0 {
		kept := list[:0]
		for _, e := range list {
			// Before 3.9 a recursive watch was also in the table of children, without an effect.
			if e.modes != recursive || kind != eventChildren {
				hit = append(hit, e.c)
			}
			had := e.modes
			if e.modes &^= standard; e.modes == 0 {
				delete(of(e.c), path)
			} else {
				kept = append(kept, e)
			}
			table.count(had, e.modes)
		}
		clear(list[len(kept):])
		table.set(path, kept)
	}
	if table.recursive > 0 && kind != eventChildren {
		for up := path; up != "/" && up != ""; {
			if up = parentOf(up); up == "" {
				up = "/"
			}
			for _, e := range table.paths[up] {
				if e.modes&recursive != 0 && !slices.Contains(hit, e.c) {
					hit = append(hit, e.c)
				}
			}
		}
	}
	w.hit = hit
	return hit
}

func dataPathsOf(c *conn) map[string]struct{}  { return c.dataPaths }
func childPathsOf(c *conn) map[string]struct{} { return c.childPaths }

func (w *watches) tell(to []*conn, kind int32, path string, zxid int64, list []acl) {
	for _, c := range to {
		w.tellOne(c, kind, path, zxid, list)
	}
}

func (w *watches) tellOne(c *conn, kind int32, path string, zxid int64, list []acl) {
	if w.behavior.readForEvents && !allows(list, permRead, c.auth) {
		return
	}
	c.event(kind, path, zxid)
}

func (w *watches) created(path, parent string, zxid int64, list, parentACL []acl) {
	w.tell(w.fired(&w.data, dataPathsOf, path, eventCreated), eventCreated, path, zxid, list)
	w.tell(w.fired(&w.child, childPathsOf, parent, eventChildren), eventChildren, parent, zxid, parentACL)
}

func (w *watches) changed(path string, zxid int64, list []acl) {
	w.tell(w.fired(&w.data, dataPathsOf, path, eventChanged), eventChanged, path, zxid, list)
}

// deleted sends a connection one event for the node, even if it watches both its data and its
// children.
func (w *watches) deleted(path, parent string, zxid int64, list, parentACL []acl) {
	told := w.fired(&w.data, dataPathsOf, path, eventDeleted)
	w.tell(told, eventDeleted, path, zxid, list)
	if len(w.child.paths) == 0 {
		return
	}
	told = slices.Clone(told)
	for _, c := range w.fired(&w.child, childPathsOf, path, eventDeleted) {
		if !slices.Contains(told, c) {
			w.tellOne(c, eventDeleted, path, zxid, list)
		}
	}
	w.tell(w.fired(&w.child, childPathsOf, parent, eventChildren), eventChildren, parent, zxid, parentACL)
}

// checked returns the code of a request that asks for watches of a kind, or removes them.
func (w *watches) checked(path string, kind int32, c *conn, remove bool) int32 {
	m, data, child, known := w.kinds(kind)
	if !known {
		return jute.CodeMarshalling
	}
	found := false
	if remove {
		found = data && w.data.remove(path, c, c.dataPaths, m)
		found = child && w.child.remove(path, c, c.childPaths, m) || found
	} else {
		found = data && w.data.has(path, c, m) || child && w.child.has(path, c, m)
	}
	if !found {
		return jute.CodeNoWatcher
	}
	return jute.CodeOK
}

func (w *watches) kinds(kind int32) (m mode, data, child, known bool) {
	switch {
	case kind == watcherChildren:
		return standard, false, true, true
	case kind == watcherData:
		return standard, true, false, true
	case kind == watcherAny:
		return anyMode, true, true, true
	case kind == watcherPersistent && w.behavior.watchModes:
		return persistent, true, true, true
	case kind == watcherRecursive && w.behavior.watchModes:
		return recursive, true, false, true
	}
	return 0, false, false, false
}
