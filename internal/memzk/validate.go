package memzk

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zklocks/zklocks/internal/jute"
)

// requester is the client whose request the leader validates.
type requester struct {
	session int64
	auth    []ident
}

// record is the part of a node that validation needs.
type record struct {
	acl                        []acl
	owner                      int64
	version, aversion, creates int32
	children                   int
}

// draft is the state before a request, plus the effects of the earlier operations of the same
// multi. Outside of a multi changed is nil.
type draft struct {
	t       *tree
	changed map[string]*record // nil value: deleted
	ipv6    bool               // IPv6 addresses in ACLs are allowed
	sasl    bool               // ACLs can have the scheme sasl
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

// flagsOf checks the flags of a create, before everything else. Like a real server by default, a
// member refuses nodes with a time to live.
func flagsOf(kind, flags int32) int32 {
	switch {
	case flags < jute.FlagPersistent || flags > jute.FlagTTLSequential:
		return jute.CodeBadArguments
	case kind == jute.OpCreateTTL || flags == jute.FlagTTL || flags == jute.FlagTTLSequential:
		return jute.CodeUnimplemented
	}
	return jute.CodeOK
}

// create validates all four kinds of creates. The order of the checks is ZooKeeper's: it decides
// which error a client receives.
func (d *draft) create(who requester, kind int32, path string, data []byte, list []acl, flags int32) (txn, int32) {
	if code := flagsOf(kind, flags); code != jute.CodeOK {
		return txn{}, code
	}
	slash := strings.LastIndexByte(path, '/')
	if slash == -1 || strings.IndexByte(path, 0) != -1 {
		return txn{}, jute.CodeBadArguments
	}
	parentPath := path[:slash]
	list, code := resolveACL(list, who.auth, d.ipv6, d.sasl)
	if code != jute.CodeOK {
		return txn{}, code
	}
	parent, ok := d.get(parentPath)
	if !ok {
		return txn{}, jute.CodeNoNode
	}
	if !allows(parent.acl, permCreate, who.auth) {
		return txn{}, jute.CodeNoAuth
	}
	if flags == jute.FlagSequential || flags == jute.FlagSequential|jute.FlagEphemeral {
		path = numbered(path, parent.creates)
	}
	if !validPath(path) {
		return txn{}, jute.CodeBadArguments
	}
	if _, exists := d.get(path); exists {
		return txn{}, jute.CodeNodeExists
	}
	if ephemeral(parent.owner) {
		return txn{}, jute.CodeNoChildren
	}
	x := txn{kind: kind, path: path, data: data, acl: list, version: parent.creates + 1}
	// The kind of the request decides, not the flags: a create with the flag of a container creates
	// a plain node.
	switch {
	case kind == jute.OpCreateContainer:
		x.owner = ownerContainer
	case flags == jute.FlagEphemeral || flags == jute.FlagEphemeral|jute.FlagSequential:
		x.owner = who.session
	}
	parent.creates++
	parent.children++
	d.put(parentPath, parent)
	d.put(path, record{acl: list, owner: x.owner})
	return x, jute.CodeOK
}

// numbered appends ten digits, or a sign and nine digits.
func numbered(path string, n int32) string {
	if n < 0 {
		return fmt.Sprintf("%s%010d", path, n)
	}
	const zeros = "0000000000"
	digits := strconv.AppendInt(make([]byte, 0, len(zeros)), int64(n), 10)
	return path + zeros[len(digits):] + string(digits)
}

// parentToDelete checks the path of a node to delete as loosely as ZooKeeper does.
func parentToDelete(path string) (parent string, ok bool) {
	slash := strings.LastIndexByte(path, '/')
	if slash == -1 || strings.IndexByte(path, 0) != -1 {
		return "", false
	}
	switch path {
	case "/", "/zookeeper", "/zookeeper/quota", configPath:
		return "", false
	}
	return path[:slash], true
}

func (d *draft) delete(who requester, path string, version int32) (txn, int32) {
	parentPath, ok := parentToDelete(path)
	if !ok {
		return txn{}, jute.CodeBadArguments
	}
	parent, ok := d.get(parentPath)
	if !ok {
		return txn{}, jute.CodeNoNode
	}
	if !allows(parent.acl, permDelete, who.auth) {
		return txn{}, jute.CodeNoAuth
	}
	n, ok := d.get(path)
	switch {
	case !ok:
		return txn{}, jute.CodeNoNode
	case version != -1 && version != n.version:
		return txn{}, jute.CodeBadVersion
	case n.children > 0:
		return txn{}, jute.CodeNotEmpty
	}
	parent.children--
	d.put(parentPath, parent)
	d.drop(path)
	return txn{kind: jute.OpDelete, path: path}, jute.CodeOK
}

// deleteContainer is the leader's own request.
func (d *draft) deleteContainer(path string) (txn, int32) {
	n, ok := d.get(path)
	switch {
	case !ok:
		return txn{}, jute.CodeNoNode
	case n.children > 0:
		return txn{}, jute.CodeNotEmpty
	}
	return txn{kind: jute.OpDeleteContainer, path: path}, jute.CodeOK
}

// node returns a node with which a request may do what the permission is for. For permAdmin the
// version is the version of the ACL.
func (d *draft) node(who requester, path string, perm, version int32) (record, int32) {
	if !validPath(path) {
		return record{}, jute.CodeBadArguments
	}
	n, ok := d.get(path)
	has := n.version
	if perm == permAdmin {
		has = n.aversion
	}
	switch {
	case !ok:
		return n, jute.CodeNoNode
	case !allows(n.acl, perm, who.auth):
		return n, jute.CodeNoAuth
	case version != -1 && version != has:
		return n, jute.CodeBadVersion
	}
	return n, jute.CodeOK
}

func (d *draft) setData(who requester, path string, data []byte, version int32) (txn, int32) {
	n, code := d.node(who, path, permWrite, version)
	if code != jute.CodeOK {
		return txn{}, code
	}
	n.version++
	d.put(path, n)
	return txn{kind: jute.OpSetData, path: path, data: data, version: n.version}, jute.CodeOK
}

func (d *draft) setACL(who requester, path string, list []acl, version int32) (txn, int32) {
	list, invalid := resolveACL(list, who.auth, d.ipv6, d.sasl)
	if invalid != jute.CodeOK && validPath(path) {
		return txn{}, invalid
	}
	n, code := d.node(who, path, permAdmin, version)
	return txn{kind: jute.OpSetACL, path: path, acl: list, version: n.aversion + 1}, code
}

func (d *draft) check(who requester, path string, version int32) (txn, int32) {
	_, code := d.node(who, path, permRead, version)
	return txn{kind: jute.OpCheck, path: path}, code
}

// validPath is ZooKeeper's check of paths in writes. Reads use paths without a check.
func validPath(path string) bool {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok || rest == "" {
		return ok
	}
	for name := range strings.SplitSeq(rest, "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	// Java's chars are UTF-16: characters that need two of them are refused, and so is U+FFFD,
	// which replaces invalid UTF-8.
	return !strings.ContainsFunc(rest, func(r rune) bool {
		return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
	})
}
