package differ

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zklocks/zklocks/internal/jute"
)

// verb is a kind of request: its number in the protocol, its body, and the decoding of its reply.
type verb struct {
	code   int32
	encode func(*run, Step, []byte) []byte
	decode func(*run, Step, *jute.Decoder) string // nil: the reply has only a header
}

// Verbs that are not requests have code 0.
var verbs map[string]verb

// Not in the declaration: multi looks its operations up in the map.
func init() {
	verbs = map[string]verb{
		"connect": {}, // opens a connection, with the handshake; an open connection is cut first
		"cut":     {}, // the client closes the connection, not the session
		"burst":   {}, // requests in one write; the replies are read afterwards
		"lapse":   {}, // the connection is silent until its session has expired
		"sweep":   {}, // waits until empty containers are deleted

		"create":          {jute.OpCreate, encodeCreate, decodePath},
		"create2":         {jute.OpCreate2, encodeCreate, decodePathStat},
		"createContainer": {jute.OpCreateContainer, encodeCreate, decodePathStat},
		"createTTL":       {jute.OpCreateTTL, encodeCreate, decodePathStat},
		"delete":          {jute.OpDelete, encodePathVersion, nil},
		"exists":          {jute.OpExists, encodePathWatch, decodeStat},
		"getData":         {jute.OpGetData, encodePathWatch, decodeDataStat},
		"setData":         {jute.OpSetData, encodeSetData, decodeStat},
		"getACL":          {jute.OpGetACL, encodePath, decodeACLStat},
		"setACL":          {jute.OpSetACL, encodeSetACL, decodeStat},
		"getChildren":     {jute.OpGetChildren, encodePathWatch, decodeChildren},
		"getChildren2":    {jute.OpGetChildren2, encodePathWatch, decodeChildrenStat},
		"sync":            {jute.OpSync, encodePath, decodePath},
		"ping":            {jute.OpPing, nil, nil},
		"check":           {jute.OpCheck, encodePathVersion, nil},
		"multi":           {jute.OpMulti, encodeMulti, decodeMulti},
		"reconfig":        {jute.OpReconfig, encodeReconfig, decodeDataStat},
		"checkWatches":    {jute.OpCheckWatches, encodePathKind, nil},
		"removeWatches":   {jute.OpRemoveWatches, encodePathKind, nil},
		"setWatches":      {jute.OpSetWatches, encodeSetWatches, nil},
		"setWatches2":     {jute.OpSetWatches2, encodeSetWatches, nil},
		"addWatch":        {jute.OpAddWatch, encodePathKind, decodeError},
		"auth":            {jute.OpAuth, encodeAuth, nil},
		"close":           {jute.OpCloseSession, nil, nil},
		"unknown":         {0, nil, nil}, // the step has the code
	}
}

func encodeCreate(r *run, s Step, b []byte) []byte {
	b = jute.AppendBytes(encodePath(r, s, b), s.bytes())
	b = jute.AppendInt32(encodeACL(s, b), s.Flags)
	if s.Verb == "createTTL" {
		b = jute.AppendInt64(b, s.TTL)
	}
	return b
}

func encodePath(r *run, s Step, b []byte) []byte {
	return jute.AppendText(b, r.path(s))
}

func encodePathVersion(r *run, s Step, b []byte) []byte {
	return jute.AppendInt32(encodePath(r, s, b), s.Version)
}

func encodePathWatch(r *run, s Step, b []byte) []byte {
	return jute.AppendBool(encodePath(r, s, b), s.Watch)
}

func encodePathKind(r *run, s Step, b []byte) []byte {
	return jute.AppendInt32(encodePath(r, s, b), s.Kind)
}

func encodeSetData(r *run, s Step, b []byte) []byte {
	return jute.AppendInt32(jute.AppendBytes(encodePath(r, s, b), s.bytes()), s.Version)
}

func encodeSetACL(r *run, s Step, b []byte) []byte {
	return jute.AppendInt32(encodeACL(s, encodePath(r, s, b)), s.Version)
}

func encodeSetWatches(r *run, s Step, b []byte) []byte {
	b = jute.AppendInt64(b, r.base+s.Zxid)
	lists := [][]string{s.DataW, s.Exist, s.Child}
	if s.Verb == "setWatches2" {
		lists = append(lists, s.Persist, s.Recursive)
	}
	for _, list := range lists {
		paths := make([]string, len(list))
		for i, path := range list {
			paths[i] = r.below(path)
		}
		b = jute.AppendTexts(b, paths)
	}
	return b
}

// encodeReconfig: the members to add, to remove, and all that are to remain; then the version of the
// configuration.
func encodeReconfig(_ *run, s Step, b []byte) []byte {
	for _, servers := range []string{s.Data, s.Path, ""} {
		b = jute.AppendText(b, servers)
	}
	return jute.AppendInt64(b, int64(s.Version))
}

func encodeAuth(_ *run, s Step, b []byte) []byte {
	return jute.AppendBytes(jute.AppendText(jute.AppendInt32(b, 0), s.Scheme), []byte(s.Auth))
}

func encodeMulti(r *run, s Step, b []byte) []byte {
	header := func(op int32, end bool) { b = jute.AppendInt32(jute.AppendBool(jute.AppendInt32(b, op), end), -1) }
	for _, op := range s.Ops {
		v := verbs[op.Verb]
		header(v.code, false)
		if v.encode != nil {
			b = v.encode(r, op, b)
		}
	}
	header(jute.OpError, true)
	return b
}

func encodeACL(s Step, b []byte) []byte {
	acl := s.ACL
	switch {
	case acl == nil:
		acl = []string{"31 world anyone"}
	case slices.Equal(acl, []string{"empty"}):
		acl = nil
	}
	b = jute.AppendInt32(b, int32(len(acl)))
	for _, entry := range acl {
		b = encodeEntry(entry, b)
	}
	return b
}

func encodeEntry(entry string, b []byte) []byte {
	perms, rest, _ := strings.Cut(entry, " ")
	scheme, id, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(perms)
	switch scheme {
	case "digest":
		id = digest(id)
	case "digest!":
		scheme = "digest"
	}
	return jute.AppendText(jute.AppendText(jute.AppendInt32(b, int32(n)), scheme), id)
}

// digest returns the identity of a client that authenticates as "name:name".
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

func decodePath(r *run, _ Step, d *jute.Decoder) string {
	path := d.Bytes()
	if path == nil {
		return "path=null"
	}
	return "path=" + r.name(string(path))
}

func decodePathStat(r *run, s Step, d *jute.Decoder) string {
	path := d.Text()
	return "path=" + r.name(path) + " " + r.stat(path, d)
}

func decodeStat(r *run, s Step, d *jute.Decoder) string { return r.stat(r.path(s), d) }

func decodeDataStat(r *run, s Step, d *jute.Decoder) string {
	return "data=" + data(d.Bytes()) + " " + r.stat(r.path(s), d)
}

// decodeACLStat: servers keep the identities of a client in any order, so successive digests are
// sorted.
func decodeACLStat(r *run, s Step, d *jute.Decoder) string {
	n := d.Count(12)
	if n < 0 {
		return "acl=null " + r.stat(r.path(s), d)
	}
	acl := make([]string, 0, n)
	begin := 0
	for range n {
		perms := d.Int32()
		scheme := d.Text()
		acl = append(acl, fmt.Sprintf("%d %s %s", perms, scheme, d.Text()))
		if scheme != "digest" {
			begin = len(acl)
		}
		slices.Sort(acl[begin:])
	}
	return fmt.Sprintf("acl=%q %s", acl, r.stat(r.path(s), d))
}

func decodeChildren(r *run, s Step, d *jute.Decoder) string {
	return "children=" + r.children(r.path(s), d.Texts())
}

func decodeChildrenStat(r *run, s Step, d *jute.Decoder) string {
	return decodeChildren(r, s, d) + " " + r.stat(r.path(s), d)
}

func decodeError(_ *run, _ Step, d *jute.Decoder) string { return fmt.Sprintf("result=%d", d.Int32()) }

// decodeMulti reads results until the end mark; each contains its kind.
func decodeMulti(r *run, s Step, d *jute.Decoder) string {
	var b strings.Builder
	b.WriteString("results=[")
	for i := 0; !d.Bad; i++ {
		code, done, err := d.Int32(), d.Bool(), d.Int32()
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "type=%d done=%v err=%d", code, done, err)
		if done || i > 1000 {
			break
		}
		var op Step // its path determines how its stat is compared
		if i < len(s.Ops) {
			op = s.Ops[i]
		}
		if r.target.answered("multi:"+op.Verb, err); code == jute.OpError {
			fmt.Fprintf(&b, " code=%d", d.Int32())
			continue
		}
		switch code {
		case jute.OpCreate:
			b.WriteString(" " + decodePath(r, op, d))
		case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			b.WriteString(" " + decodePathStat(r, op, d))
		case jute.OpDelete, jute.OpCheck:
		case jute.OpSetData:
			b.WriteString(" " + decodeStat(r, op, d))
		default:
			d.Bad = true
		}
	}
	b.WriteString("]")
	return b.String()
}

// data shortens long data.
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
