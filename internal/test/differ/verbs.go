package differ

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// verb is one kind of request: its number in the protocol, what follows the header, and what the
// reply is made of.
type verb struct {
	code   int32
	encode func(*run, Step, *encoder)
	decode func(*run, Step, *decoder) string // nil: the reply is its header alone
}

// The verbs that are no request of their own have code 0.
var verbs map[string]verb

// Broken out of the variable's own declaration: multi looks its operations up in the map.
func init() {
	verbs = map[string]verb{
		"connect": {}, // a connection is made, and the handshake; one that is open is cut first
		"cut":     {}, // the client closes the connection, not the session
		"burst":   {}, // requests in one piece; the replies are read afterwards
		"lapse":   {}, // the connection is silent until its session has expired
		"sweep":   {}, // time passes: empty containers and nodes that are too old go

		"create":          {1, encodeCreate, decodePath},
		"create2":         {15, encodeCreate, decodePathStat},
		"createContainer": {19, encodeCreate, decodePathStat},
		"createTTL":       {21, encodeCreate, decodePathStat},
		"deleteContainer": {20, encodePath, nil}, // the server's own, which a client may send, too
		"delete":          {2, encodePathVersion, nil},
		"exists":          {3, encodePathWatch, decodeStat},
		"getData":         {4, encodePathWatch, decodeDataStat},
		"setData":         {5, encodeSetData, decodeStat},
		"getACL":          {6, encodePath, decodeACLStat},
		"setACL":          {7, encodeSetACL, decodeStat},
		"getChildren":     {8, encodePathWatch, decodeChildren},
		"getChildren2":    {12, encodePathWatch, decodeChildrenStat},
		"sync":            {9, encodePath, decodePath},
		"ping":            {11, nil, nil},
		"check":           {13, encodePathVersion, nil},
		"multi":           {14, encodeMulti, decodeMulti},
		"multiRead":       {22, encodeMulti, decodeMulti},
		"removeWatches":   {18, encodePathKind, nil},
		"checkWatches":    {17, encodePathKind, nil},
		"setWatches":      {101, encodeSetWatches, nil},
		"setWatches2":     {105, encodeSetWatches, nil},
		"getEphemerals":   {103, encodePath, decodeEphemerals},
		"childCount":      {104, encodePath, decodeCount},
		"addWatch":        {106, encodePathKind, decodeError},
		"auth":            {100, encodeAuth, nil},
		"whoAmI":          {107, nil, decodeIdentities},
		"sasl":            {102, encodeToken, decodeToken},
		"reconfig":        {16, encodeReconfig, nil},
		"close":           {-11, nil, nil},
		"unknown":         {0, nil, nil}, // the code is the step's
	}
}

// xids that the protocol reserves.
const (
	xidEvent      = -1
	xidPing       = -2
	xidAuth       = -4
	xidSetWatches = -8
)

func encodeCreate(r *run, s Step, e *encoder) {
	r.encodePath(s, e)
	e.buffer(s.bytes())
	encodeACL(r, s, e)
	e.int(s.Flags)
	if s.Verb == "createTTL" {
		e.long(s.TTL)
	}
}

func encodePath(r *run, s Step, e *encoder) { r.encodePath(s, e) }

func (r *run) encodePath(s Step, e *encoder) {
	if s.NoPath {
		e.int(-1)
	} else {
		e.string(r.path(s))
	}
}

func encodePathVersion(r *run, s Step, e *encoder) {
	r.encodePath(s, e)
	e.int(s.Version)
}

func encodePathWatch(r *run, s Step, e *encoder) {
	r.encodePath(s, e)
	e.bool(s.Watch)
}

func encodePathKind(r *run, s Step, e *encoder) {
	r.encodePath(s, e)
	e.int(s.Kind)
}

func encodeSetData(r *run, s Step, e *encoder) {
	r.encodePath(s, e)
	e.buffer(s.bytes())
	e.int(s.Version)
}

func encodeSetACL(r *run, s Step, e *encoder) {
	r.encodePath(s, e)
	encodeACL(r, s, e)
	e.int(s.Version)
}

func encodeSetWatches(r *run, s Step, e *encoder) {
	e.long(r.base + s.Zxid)
	lists := [][]string{s.DataW, s.Exist, s.Child}
	if s.Verb == "setWatches2" {
		lists = append(lists, s.Persist, s.Recursive)
	}
	for _, list := range lists {
		paths := make([]string, len(list))
		for i, path := range list {
			paths[i] = r.below(path)
		}
		e.strings(paths)
	}
}

func encodeAuth(_ *run, s Step, e *encoder) {
	e.int(0)
	e.string(s.Scheme)
	e.buffer([]byte(s.Auth))
}

func encodeToken(_ *run, s Step, e *encoder) { e.buffer(s.bytes()) }

func encodeReconfig(_ *run, _ Step, e *encoder) {
	e.string("server.9=127.0.0.1:1:2;3")
	e.int(-1)
	e.int(-1)
	e.long(-1)
}

// encodeMulti: a multi of the read kind cannot hold what is for the write kind, but it can be asked
// to.
func encodeMulti(r *run, s Step, e *encoder) {
	for _, op := range s.Ops {
		v := verbs[op.Verb]
		e.int(v.code)
		e.bool(false)
		e.int(-1)
		if v.encode != nil {
			v.encode(r, op, e)
		}
	}
	e.int(-1)
	e.bool(true)
	e.int(-1)
}

func encodeACL(_ *run, s Step, e *encoder) {
	switch {
	case s.ACL == nil:
		e.int(1)
		encodeEntry("31 world anyone", e)
	case slices.Equal(s.ACL, []string{"null"}):
		e.int(-1)
	case slices.Equal(s.ACL, []string{"empty"}):
		e.int(0)
	default:
		e.int(int32(len(s.ACL)))
		for _, entry := range s.ACL {
			encodeEntry(entry, e)
		}
	}
}

func encodeEntry(entry string, e *encoder) {
	perms, rest, _ := strings.Cut(entry, " ")
	scheme, id, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(perms)
	e.int(int32(n))
	switch scheme {
	case "digest":
		id = digest(id)
	case "digest!":
		scheme = "digest"
	}
	e.string(scheme)
	e.string(id)
}

// digest is the identity of a client that authenticates as "name:name".
func digest(name string) string {
	sum := sha1.Sum([]byte(name + ":" + name))
	return name + ":" + base64.StdEncoding.EncodeToString(sum[:])
}

func (s Step) bytes() []byte {
	switch {
	case s.Null:
		return nil
	case s.Size > 0:
		return make([]byte, s.Size)
	default:
		return []byte(s.Data)
	}
}

func decodePath(r *run, _ Step, d *decoder) string {
	path := d.buffer()
	if path == nil {
		return "path=null"
	}
	return "path=" + r.name(string(path))
}

func decodePathStat(r *run, s Step, d *decoder) string {
	path := d.string()
	return "path=" + r.name(path) + " " + r.stat(path, d)
}

func decodeStat(r *run, s Step, d *decoder) string { return r.stat(r.path(s), d) }

func decodeDataStat(r *run, s Step, d *decoder) string {
	return "data=" + data(d.buffer()) + " " + r.stat(r.path(s), d)
}

// decodeACLStat: the order in which a server keeps the identities of one client is its own affair,
// so digests that follow each other are sorted.
func decodeACLStat(r *run, s Step, d *decoder) string {
	n := d.count()
	if n < 0 {
		return "acl=null " + r.stat(r.path(s), d)
	}
	acl := make([]string, 0, n)
	begin := 0
	for range n {
		perms := d.int()
		scheme := d.string()
		acl = append(acl, fmt.Sprintf("%d %s %s", perms, scheme, d.string()))
		if scheme != "digest" {
			begin = len(acl)
		}
		slices.Sort(acl[begin:])
	}
	return fmt.Sprintf("acl=%q %s", acl, r.stat(r.path(s), d))
}

func decodeChildren(r *run, s Step, d *decoder) string {
	return "children=" + r.children(r.path(s), d.strings())
}

func decodeChildrenStat(r *run, s Step, d *decoder) string {
	return decodeChildren(r, s, d) + " " + r.stat(r.path(s), d)
}

func decodeEphemerals(r *run, _ Step, d *decoder) string {
	list := d.strings()
	for i, path := range list {
		list[i] = r.name(path)
	}
	// They are in the order of a hash table.
	slices.Sort(list)
	return "ephemerals=[" + strings.Join(list, " ") + "]"
}

func decodeIdentities(_ *run, _ Step, d *decoder) string {
	n := d.count()
	var list []string
	for range n {
		scheme := d.string()
		list = append(list, scheme+" "+d.string())
	}
	// They are in the order of a hash table.
	slices.Sort(list)
	return fmt.Sprintf("identities=%q", list)
}

func decodeToken(_ *run, _ Step, d *decoder) string { return "token=" + data(d.buffer()) }

func decodeCount(_ *run, _ Step, d *decoder) string { return fmt.Sprintf("count=%d", d.int()) }

func decodeError(_ *run, _ Step, d *decoder) string { return fmt.Sprintf("result=%d", d.int()) }

// decodeMulti reads results until the end mark: they say themselves what they are.
func decodeMulti(r *run, s Step, d *decoder) string {
	var b strings.Builder
	b.WriteString("results=[")
	for i := 0; d.err == nil; i++ {
		code, done, err := d.int(), d.bool(), d.int()
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "type=%d done=%v err=%d", code, done, err)
		if done || i > 1000 {
			break
		}
		var op Step // whose path says how its stat is to be read
		if i < len(s.Ops) {
			op = s.Ops[i]
		}
		if r.target.Count.answer("multi:"+op.Verb, err); code == -1 {
			fmt.Fprintf(&b, " code=%d", d.int())
			continue
		}
		switch code {
		case 1:
			b.WriteString(" " + decodePath(r, op, d))
		case 15, 19, 21:
			b.WriteString(" " + decodePathStat(r, op, d))
		case 2, 13:
		case 4:
			b.WriteString(" " + decodeDataStat(r, op, d))
		case 5:
			b.WriteString(" " + decodeStat(r, op, d))
		case 8:
			b.WriteString(" " + decodeChildren(r, op, d))
		default:
			d.err = fmt.Errorf("result of type %d in a multi", code)
		}
	}
	b.WriteString("]")
	return b.String()
}

// data is short for what is long.
func data(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) > 100:
		sum := sha1.Sum(b)
		return fmt.Sprintf("%d bytes %x", len(b), sum[:4])
	default:
		return strconv.Quote(string(b))
	}
}
