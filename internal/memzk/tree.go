package memzk

import (
	"cmp"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/zklocks/zklocks/internal/jute"
)

// ownerContainer is the owner of containers.
const ownerContainer = int64(-1 << 63)

// ephemeral reports whether a session is the owner.
func ephemeral(owner int64) bool { return owner != 0 && owner != ownerContainer }

type stat struct {
	czxid, mzxid, pzxid         int64
	ctime, mtime                int64
	version, cversion, aversion int32
	owner                       int64
	dataLength, numChildren     int32
}

// node is a znode. creates is the number of children that have been created, which ZooKeeper stores
// as cversion. It is also the number of the next sequential child. A Stat shows another cversion.
type node struct {
	path     string
	parent   *node
	slot     int    // in parent.children
	hash     uint32 // of the name
	children []*node
	mine     int // index in the list of its session's ephemeral nodes

	data              []byte
	acl               []acl
	owner             int64
	czxid, mzxid      int64
	pzxid             int64
	ctime, mtime      int64
	version, aversion int32
	creates           int32
}

func (n *node) name() string { return n.path[strings.LastIndexByte(n.path, '/')+1:] }

func (n *node) stat() stat {
	owner := n.owner
	if !ephemeral(owner) {
		owner = 0
	}
	return stat{
		czxid: n.czxid, mzxid: n.mzxid, pzxid: n.pzxid,
		ctime: n.ctime, mtime: n.mtime,
		version: n.version, aversion: n.aversion,
		// Each created child was deleted again, except the present children.
		cversion: n.creates*2 - int32(len(n.children)),
		owner:    owner, dataLength: int32(len(n.data)), numChildren: int32(len(n.children)),
	}
}

// txn is an entry of the log. All members share it; it is immutable.
type txn struct {
	kind    int32 // a type of request, or jute.OpError
	zxid    int64
	time    int64 // in milliseconds since 1970
	session int64
	code    int32 // for jute.OpError
	path    string
	data    []byte
	acl     []acl
	owner   int64    // owner of a created node
	version int32    // the new version or aversion, or the parent's new count of creates
	timeout int32    // timeout of a new session, in milliseconds
	subs    []txn    // operations of a multi
	paths   []string // ephemeral nodes of a closed session, in the order of their deletion
}

// result is the content of a reply.
type result struct {
	kind int32
	code int32
	path string
	stat stat
	subs []result
}

// tree is the state after a prefix of the log.
type tree struct {
	nodes      map[string]*node
	root       *node
	ephemerals map[int64][]*node
	containers map[string]*node
	sessions   map[int64]int32 // timeouts in milliseconds
	zxid       int64           // of the last transaction
	watches    *watches        // fired by apply; nil in a tree without clients
}

// newTree returns the state of a fresh server.
func newTree() *tree {
	t := &tree{
		nodes:      map[string]*node{},
		ephemerals: map[int64][]*node{},
		containers: map[string]*node{},
		sessions:   map[int64]int32{},
	}
	t.root = &node{path: "/", acl: openACL, data: []byte{}}
	// ZooKeeper has its root under two names.
	t.nodes["/"], t.nodes[""] = t.root, t.root
	for _, path := range []string{"/zookeeper", "/zookeeper/quota", configPath} {
		n := &node{path: path, acl: openACL, data: []byte{}}
		t.nodes[path] = n
		t.nodes[parentOf(path)].adopt(n)
	}
	config := t.nodes[configPath]
	config.acl, config.aversion = readACL, -1
	return t
}

// parentOf returns the parent's path, "" for a child of the root.
func parentOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

func (n *node) adopt(child *node) {
	child.parent, child.slot, child.hash = n, len(n.children), hashOf(child.name())
	n.children = append(n.children, child)
}

// disown fills the gap with the last child: the order of children has no meaning.
func (n *node) disown(child *node) {
	last := len(n.children) - 1
	n.children[child.slot] = n.children[last]
	n.children[child.slot].slot = child.slot
	n.children[last] = nil
	n.children = n.children[:last]
}

func hashOf(name string) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, name) // never fails
	return h.Sum32()
}

// listing returns the children in an order that is unrelated to their creation and their names, as
// in ZooKeeper's hash table.
func (n *node) listing() []*node {
	children := slices.Clone(n.children)
	slices.SortFunc(children, func(a, b *node) int { return cmp.Or(cmp.Compare(a.hash, b.hash), strings.Compare(a.path, b.path)) })
	return children
}

// apply is the only function that changes state. The transaction was validated against the state
// before it, so apply cannot fail.
func (t *tree) apply(x *txn) result {
	r := t.applyOne(x, x)
	if x.zxid > t.zxid {
		t.zxid = x.zxid
	}
	return r
}

// applyOne applies a transaction, or an operation of the multi whole.
func (t *tree) applyOne(x, whole *txn) result {
	switch x.kind {
	case jute.OpError:
		return result{kind: jute.OpError, code: x.code}
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		n := t.create(x, whole)
		return result{kind: x.kind, path: n.path, stat: n.stat()}
	case jute.OpDelete, jute.OpDeleteContainer:
		t.remove(x.path, whole.zxid)
		return result{kind: x.kind, path: x.path}
	case jute.OpSetData:
		n := t.nodes[x.path]
		n.data, n.version, n.mzxid, n.mtime = x.data, x.version, whole.zxid, whole.time
		// The reply shows the node before later operations of the multi.
		r := result{kind: x.kind, path: x.path, stat: n.stat()}
		if t.watches != nil {
			t.watches.changed(x.path, whole.zxid, n.acl)
		}
		return r
	case jute.OpSetACL:
		n := t.nodes[x.path]
		n.acl, n.aversion = x.acl, x.version
		return result{kind: x.kind, path: x.path, stat: n.stat()}
	case jute.OpCheck:
		return result{kind: x.kind, path: x.path}
	case jute.OpMulti:
		r := result{kind: x.kind, subs: make([]result, len(x.subs))}
		for i := range x.subs {
			r.subs[i] = t.applyOne(&x.subs[i], whole)
		}
		return r
	case jute.OpCreateSession:
		t.sessions[x.session] = x.timeout
		return result{kind: x.kind}
	case jute.OpCloseSession:
		for _, path := range x.paths {
			t.remove(path, whole.zxid)
		}
		delete(t.ephemerals, x.session)
		delete(t.sessions, x.session)
		return result{kind: x.kind}
	}
	panic("memzk: a transaction of no kind")
}

func (t *tree) create(x, whole *txn) *node {
	parent := t.nodes[parentOf(x.path)]
	// At the end of the numbers the count remains at the last number, because ZooKeeper never
	// lowers the count.
	if x.version > parent.creates {
		parent.creates, parent.pzxid = x.version, whole.zxid
	}
	n := &node{
		path: x.path, data: x.data, acl: x.acl, owner: x.owner,
		czxid: whole.zxid, mzxid: whole.zxid, pzxid: whole.zxid,
		ctime: whole.time, mtime: whole.time,
	}
	parent.adopt(n)
	t.nodes[x.path] = n
	switch {
	case ephemeral(x.owner):
		list := t.ephemerals[x.owner]
		n.mine = len(list)
		t.ephemerals[x.owner] = append(list, n)
	case x.owner == ownerContainer:
		t.containers[x.path] = n
	}
	if t.watches != nil {
		t.watches.created(n.path, parent.path, whole.zxid, n.acl, parent.acl)
	}
	return n
}

func (t *tree) remove(path string, zxid int64) {
	n := t.nodes[path]
	parent := n.parent
	parent.disown(n)
	parent.pzxid = max(parent.pzxid, zxid)
	delete(t.nodes, path)
	switch {
	case ephemeral(n.owner):
		list := t.ephemerals[n.owner]
		last := len(list) - 1
		list[n.mine] = list[last]
		list[n.mine].mine = n.mine
		list[last] = nil
		t.ephemerals[n.owner] = list[:last]
	case n.owner == ownerContainer:
		delete(t.containers, path)
	}
	if t.watches != nil {
		t.watches.deleted(path, parent.path, zxid, n.acl, parent.acl)
	}
}

// ephemeralPaths returns the nodes of a session, sorted.
func (t *tree) ephemeralPaths(session int64) []string {
	list := t.ephemerals[session]
	if len(list) == 0 {
		return nil
	}
	paths := make([]string, len(list))
	for i, n := range list {
		paths[i] = n.path
	}
	slices.Sort(paths)
	return paths
}
