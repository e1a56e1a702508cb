package memzk

import (
	"fmt"
	"strconv"
	"strings"
)

// requester is the client on whose behalf the leader validates.
type requester struct {
	session int64
	auth    []ident
}

// record is what validation needs to know of a node.
type record struct {
	acl                        []acl
	owner                      int64
	version, aversion, creates int32
	children                   int
}

// draft is the state before a request, and on top of it what the earlier operations of the same
// multi will do. Outside of multis changed is nil.
type draft struct {
	t       *tree
	changed map[string]*record // nil value: deleted
	ttl     bool               // nodes with a time to live are allowed
	ipv6    bool               // and IPv6 addresses in ACLs
}

func (d *draft) get(path string) (record, bool) {
	if d.changed != nil {
		if path == "" {
			path = "/"
		}
		if r, ok := d.changed[path]; ok {
			if r == nil {
				return record{}, false
			}
			return *r, true
		}
	}
	n, ok := d.t.nodes[path]
	if !ok {
		return record{}, false
	}
	return record{n.acl, n.owner, n.version, n.aversion, n.creates, len(n.children)}, true
}

func (d *draft) put(path string, r record) {
	if d.changed != nil {
		if path == "" {
			path = "/"
		}
		d.changed[path] = &r
	}
}

func (d *draft) drop(path string) {
	if d.changed != nil {
		d.changed[path] = nil
	}
}

// flags is what comes first of all in a create.
func (d *draft) flags(flags int32, ttl int64) int32 {
	if flags < flagPersistent || flags > flagTTLSequential {
		return codeBadArguments
	}
	timed := flags == flagTTL || flags == flagTTLSequential
	switch {
	case timed && !d.ttl:
		return codeUnimplemented
	case timed && (ttl <= 0 || ttl > maxTTL), !timed && ttl >= 0:
		return codeBadArguments
	}
	return codeOK
}

// create validates all four kinds. The order of the checks is ZooKeeper's: it decides which error a
// client sees.
func (d *draft) create(who requester, kind int32, path string, data []byte, list []acl, flags int32, ttl int64) (txn, int32) {
	if code := d.flags(flags, ttl); code != codeOK {
		return txn{}, code
	}
	slash := strings.LastIndexByte(path, '/')
	if slash == -1 || strings.IndexByte(path, 0) != -1 {
		return txn{}, codeBadArguments
	}
	parentPath := path[:slash]
	list, code := resolveACL(list, who.auth, d.ipv6)
	if code != codeOK {
		return txn{}, code
	}
	parent, ok := d.get(parentPath)
	if !ok {
		return txn{}, codeNoNode
	}
	if !allows(parent.acl, permCreate, who.auth) {
		return txn{}, codeNoAuth
	}
	if flags == flagSequential || flags == flagSequential|flagEphemeral || flags == flagTTLSequential {
		path = numbered(path, parent.creates)
	}
	if !validPath(path) {
		return txn{}, codeBadArguments
	}
	if _, exists := d.get(path); exists {
		return txn{}, codeNodeExists
	}
	if ownerKind(parent.owner) == ownedBySession {
		return txn{}, codeNoChildren
	}
	x := txn{kind: kind, path: path, data: data, acl: list, version: parent.creates + 1}
	// The kind of the request decides, not the flags: a create with the flag of a container makes a
	// plain node.
	switch {
	case kind == opCreateContainer:
		x.owner = ownerContainer
	case kind == opCreateTTL:
		if ttl <= 0 {
			return txn{}, codeMarshalling
		}
		x.owner = ownerTTL | ttl
	case flags == flagEphemeral || flags == flagEphemeral|flagSequential:
		x.owner = who.session
	}
	parent.creates++
	parent.children++
	d.put(parentPath, parent)
	// To later operations of the same multi it is what its flags say.
	owner := x.owner
	if flags == flagEphemeral || flags == flagEphemeral|flagSequential {
		owner = who.session
	}
	d.put(path, record{acl: list, owner: owner})
	return x, codeOK
}

// numbered appends ten digits, or nine and a sign.
func numbered(path string, n int32) string {
	if n < 0 {
		return fmt.Sprintf("%s%010d", path, n)
	}
	const zeros = "0000000000"
	digits := strconv.AppendInt(make([]byte, 0, len(zeros)), int64(n), 10)
	return path + zeros[len(digits):] + string(digits)
}

// parentToDelete checks the path of a node to delete as little as ZooKeeper does.
func parentToDelete(path string) (parent string, ok bool) {
	slash := strings.LastIndexByte(path, '/')
	if slash == -1 || strings.IndexByte(path, 0) != -1 {
		return "", false
	}
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config":
		return "", false
	}
	return path[:slash], true
}

func (d *draft) delete(who requester, path string, version int32) (txn, int32) {
	parentPath, ok := parentToDelete(path)
	if !ok {
		return txn{}, codeBadArguments
	}
	parent, ok := d.get(parentPath)
	if !ok {
		return txn{}, codeNoNode
	}
	if !allows(parent.acl, permDelete, who.auth) {
		return txn{}, codeNoAuth
	}
	n, ok := d.get(path)
	switch {
	case !ok:
		return txn{}, codeNoNode
	case version != -1 && version != n.version:
		return txn{}, codeBadVersion
	case n.children > 0:
		return txn{}, codeNotEmpty
	}
	parent.children--
	d.put(parentPath, parent)
	d.drop(path)
	return txn{kind: opDelete, path: path}, codeOK
}

// deleteContainer is the leader's own request. ZooKeeper accepts it from clients, too, without a
// look at the ACL.
func (d *draft) deleteContainer(path string) (txn, int32) {
	if _, ok := parentToDelete(path); !ok {
		return txn{}, codeBadArguments
	}
	n, ok := d.get(path)
	switch {
	case !ok:
		return txn{}, codeNoNode
	case n.children > 0:
		return txn{}, codeNotEmpty
	case ownerKind(n.owner) == ownedBySession:
		return txn{}, codeBadVersion
	}
	return txn{kind: opDeleteContainer, path: path}, codeOK
}

func (d *draft) setData(who requester, path string, data []byte, version int32) (txn, int32) {
	if !validPath(path) {
		return txn{}, codeBadArguments
	}
	n, ok := d.get(path)
	switch {
	case !ok:
		return txn{}, codeNoNode
	case !allows(n.acl, permWrite, who.auth):
		return txn{}, codeNoAuth
	case version != -1 && version != n.version:
		return txn{}, codeBadVersion
	}
	n.version++
	d.put(path, n)
	return txn{kind: opSetData, path: path, data: data, version: n.version}, codeOK
}

func (d *draft) setACL(who requester, path string, list []acl, version int32) (txn, int32) {
	if !validPath(path) {
		return txn{}, codeBadArguments
	}
	list, code := resolveACL(list, who.auth, d.ipv6)
	if code != codeOK {
		return txn{}, code
	}
	n, ok := d.get(path)
	switch {
	case !ok:
		return txn{}, codeNoNode
	case !allows(n.acl, permAdmin, who.auth):
		return txn{}, codeNoAuth
	case version != -1 && version != n.aversion:
		return txn{}, codeBadVersion
	}
	return txn{kind: opSetACL, path: path, acl: list, version: n.aversion + 1}, codeOK
}

func (d *draft) check(who requester, path string, version int32) (txn, int32) {
	if !validPath(path) {
		return txn{}, codeBadArguments
	}
	n, ok := d.get(path)
	switch {
	case !ok:
		return txn{}, codeNoNode
	case !allows(n.acl, permRead, who.auth):
		return txn{}, codeNoAuth
	case version != -1 && version != n.version:
		return txn{}, codeBadVersion
	}
	return txn{kind: opCheck, path: path}, codeOK
}

// validPath is ZooKeeper's check, for what it writes. Reads are looked up as they are.
func validPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	if path == "/" {
		return true
	}
	if path[len(path)-1] == '/' {
		return false
	}
	start := 1 // of the name at hand
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			// Java's chars are UTF-16: what needs two of them is refused, and so is U+FFFD, which
			// stands for what is no UTF-8.
			if c := path[i]; c < 0x20 || c == 0x7f {
				return false
			} else if c >= 0x80 {
				return validName(path[1:]) && validSegments(path)
			}
			continue
		}
		switch path[start:i] {
		case "", ".", "..":
			return false
		}
		start = i + 1
	}
	return true
}

// validName looks at characters beyond ASCII.
func validName(s string) bool {
	for _, r := range s {
		switch {
		case r < 0x20, r >= 0x7f && r <= 0x9f, r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0:
			return false
		}
	}
	return true
}

func validSegments(path string) bool {
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}
