package memzk

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// step is a request and the packets up to its reply: events first, as ZooKeeper sends them.
type step struct {
	op   int32
	body []byte
	want string
}

// The expectations were compared with ZooKeeper 3.8.0 (Debian) and 3.9.3, packet by packet. A want
// of two parts, "3.8.0: x | 3.9.3: y", differs by version.
func TestExact(t *testing.T) {
	only := []acl{{31, digestIdent([]byte("u:p"))}}
	blind := []acl{{31 &^ permRead, anyone}}
	for name, steps := range map[string][]step{
		"the sequence counts creates": {
			{jute.OpCreate, createBody("/a/n-", "", 2), "/a/n-0000000000"},
			{jute.OpCreate, createBody("/a/plain", "", 0), "/a/plain"},
			{jute.OpCreate, createBody("/a/m-", "", 3), "/a/m-0000000002"},
			{jute.OpDelete, deleteBody("/a/plain", -1), "ok"},
			{jute.OpCreate, createBody("/a/", "", 2), "/a/0000000003"},
			{jute.OpExists, pathBody("/a", false), "version 0 cversion 5 aversion 0 children 3"},
			{jute.OpGetChildren, pathBody("/a", false), "0000000003 m-0000000002 n-0000000000"},
		},
		"refused writes take a zxid, reads do not": {
			{jute.OpCreate, createBody("/a/n", "", 0), "/a/n +1"},
			{jute.OpCreate, createBody("/a/n", "", 0), "-110 +1"},
			{jute.OpDelete, deleteBody("/a/m", -1), "-101 +1"},
			{jute.OpExists, pathBody("/a/m", false), "-101 +0"},
			{jute.OpMulti, multiBody(step{op: jute.OpCheck, body: deleteBody("/a", -1)}), "[13] +1"},
			{jute.OpMulti, multiBody(step{op: jute.OpCheck, body: deleteBody("/a", 3)}), "[-103] +1"},
			{jute.OpMulti, multiBody(), "[] +1"},
		},
		"a multi is one transaction": {
			{jute.OpMulti, multiBody(
				step{op: jute.OpCreate, body: createBody("/a/n", "", 0)},
				step{op: jute.OpSetData, body: setBody("/a/n", "x", 0)},
				step{op: jute.OpCheck, body: deleteBody("/a/n", 1)},
				step{op: jute.OpCreate, body: createBody("/a/n/m-", "", 2)},
				step{op: jute.OpDelete, body: deleteBody("/a/n/m-0000000000", 0)},
				step{op: jute.OpDelete, body: deleteBody("/a/n", 1)},
			), "[1 /a/n; 5 version 1; 13; 1 /a/n/m-0000000000; 2; 2] +1"},
		},
		"a multi fails as a whole": {
			{jute.OpMulti, multiBody(
				step{op: jute.OpCreate, body: createBody("/a/n-", "", 2)},
				step{op: jute.OpSetData, body: setBody("/a/none", "", -1)},
				step{op: jute.OpDelete, body: deleteBody("/a", -1)},
			), "[0; -101; -2] +1"},
			{jute.OpCreate, createBody("/a/n-", "", 2), "/a/n-0000000000"},
		},
		"the result of a create in a multi": {
			{jute.OpMulti, multiBody(
				step{op: jute.OpCreate, body: createBody("/a/c", "", jute.FlagContainer)},
				step{op: jute.OpCreateContainer, body: createBody("/a/p", "", 0)},
				step{op: jute.OpCreate2, body: createBody("/a/q", "", 0)},
			), "3.8.0: [15 /a/c version 0; 1 /a/p; 1 /a/q] | 3.9.3: [15 /a/c version 0; 15 /a/p version 0; 15 /a/q version 0]"},
			{jute.OpMulti, multiBody(step{op: jute.OpCreate, body: createBody("/a/x", "", 9)}), "3.8.0: [-8] +1 | 3.9.3: -5 +1"},
			{jute.OpMulti, multiBody(step{op: jute.OpCreate, body: createBody("/a/x", "", jute.FlagTTL)}), "-5 +1"},
			{jute.OpMulti, multiBody(step{op: jute.OpExists, body: pathBody("/a", false)}), "-5 +1"},
		},
		"events come before the reply, in the order of the operations": {
			{jute.OpExists, pathBody("/a/n", true), "-101"},
			{jute.OpGetChildren, pathBody("/a", true), ""},
			{jute.OpMulti, multiBody(
				step{op: jute.OpCreate, body: createBody("/a/n", "", 0)},
				step{op: jute.OpDelete, body: deleteBody("/a/n", -1)},
			), "created /a/n; children /a; [1 /a/n; 2]"},
			{jute.OpExists, pathBody("/a/n", true), "-101"},
			{jute.OpGetChildren, pathBody("/a", true), ""},
			{jute.OpCreate, createBody("/a/n", "", 0), "created /a/n; children /a; /a/n"},
			{jute.OpGetData, pathBody("/a/n", true), "\"\" version 0 cversion 0 aversion 0 children 0"},
			{jute.OpSetData, setBody("/a/n", "", -1), "changed /a/n; version 1 cversion 0 aversion 0 children 0"},
			{jute.OpSetData, setBody("/a/n", "", -1), "version 2 cversion 0 aversion 0 children 0"},
		},
		"a connection hears once that a node is gone, then of its parent": {
			{jute.OpCreate, createBody("/a/n", "", 0), "/a/n"},
			{jute.OpGetData, pathBody("/a/n", true), "\"\" version 0 cversion 0 aversion 0 children 0"},
			{jute.OpGetChildren, pathBody("/a/n", true), ""},
			{jute.OpGetChildren, pathBody("/a", true), "n"},
			{jute.OpDelete, deleteBody("/a/n", -1), "deleted /a/n; children /a; ok"},
			{jute.OpCreate, createBody("/a/n", "", 0), "/a/n"},
		},
		"refusals": {
			{jute.OpCreate, createBody("/a/e", "", jute.FlagEphemeral), "/a/e"},
			{jute.OpCreate, createBody("/a/e/n", "", 0), "-108"},
			{jute.OpDelete, deleteBody("/a", 7), "-103"},
			{jute.OpDelete, deleteBody("/a", 0), "-111"},
			{jute.OpDelete, deleteBody("/a/n/m", 0), "-101"},
			{jute.OpSetData, setBody("/a", "", 7), "-103"},
			{jute.OpSetACL, aclBody("/a", openACL, 7), "-103"},
			{jute.OpSetACL, aclBody("/a", openACL, 0), "version 0 cversion 1 aversion 1 children 1"},
			{jute.OpCreate, createBody("/a/n/m", "", 0), "-101"},
			{jute.OpCreate, createBody("/a", "", 0), "-110"},
			{jute.OpCreate, createBody("/a/n", "", 7), "-8"},
			{jute.OpCreate, createBody("/a/n", "", jute.FlagTTL), "-6"},
			{jute.OpCreateTTL, jute.AppendInt64(createBody("/a/n", "", jute.FlagTTL), 1000), "-6"},
			{jute.OpCreateTTL, jute.AppendInt64(createBody("/a/n", "", 0), 1000), "-8"},
			{jute.OpReconfig, jute.AppendInt64(bytes.Repeat([]byte{0xff}, 12), -1), "-123 +1"},
		},
		"paths": {
			{jute.OpCreate, createBody("", "", 0), "-8"},
			{jute.OpCreate, createBody("a", "", 0), "-8"},
			{jute.OpCreate, createBody("a/b", "", 0), "-101"},
			{jute.OpCreate, createBody("/", "", 0), "-110"},
			{jute.OpCreate, createBody("/a/", "", 0), "-8"},
			{jute.OpCreate, createBody("/a/.", "", 0), "-8"},
			{jute.OpCreate, createBody("/a/..", "", 0), "-8"},
			{jute.OpCreate, createBody("/a/...", "", 0), "/a/..."},
			{jute.OpCreate, createBody("/a/\x01", "", 0), "-8"},
			{jute.OpCreate, createBody("/a/\x00", "", 0), "-8"},
			{jute.OpCreate, createBody("/a/\u0085", "", 0), "-8"},
			{jute.OpCreate, createBody("/a/\ue000", "", 0), "-8"},
			{jute.OpCreate, createBody("/a/\U0001f600", "", 0), "-8"},
			{jute.OpCreate, createBody("/a/\xff", "", 0), "-8"},
			{jute.OpCreate, createBody("/a/é", "", 0), "/a/é"},
			{jute.OpSetData, setBody("/a/", "", 0), "-8"},
			{jute.OpMulti, multiBody(step{op: jute.OpCheck, body: deleteBody("/a/", 0)}), "[-8]"},
			{jute.OpSetACL, aclBody("/a/", openACL, 0), "-8"},
			{jute.OpDelete, deleteBody("/a/", -1), "-101"},
			{jute.OpDelete, deleteBody("/", -1), "-8"},
			{jute.OpDelete, deleteBody("/zookeeper/config", -1), "-8"},
			{jute.OpExists, pathBody("/a/", false), "-101"},
			{jute.OpExists, pathBody("/a/\x00", false), "-8"},
			{jute.OpGetData, pathBody("/a/\x00", false), "-101"},
			{jute.OpGetChildren, pathBody("", false), "a zookeeper"},
		},
		"what a fresh server has": {
			{jute.OpGetChildren, pathBody("/zookeeper", false), "config quota"},
			{jute.OpExists, pathBody("/zookeeper", false), "version 0 cversion -2 aversion 0 children 2"},
			{jute.OpExists, pathBody("/zookeeper/config", false), "version 0 cversion 0 aversion -1 children 0"},
			{jute.OpSetData, setBody("/zookeeper/config", "", -1), "-102"},
			{jute.OpExists, pathBody("/zookeeper/quota", false), "version 0 cversion 0 aversion 0 children 0"},
		},
		"ACLs": {
			{jute.OpCreate, aclCreate("/a/n", nil), "-114"},
			{jute.OpCreate, aclCreate("/a/n", []acl{{31, ident{"auth", ""}}}), "-114"},
			{jute.OpCreate, aclCreate("/a/n", []acl{{31, ident{"digest", "u"}}}), "-114"},
			{jute.OpCreate, aclCreate("/a/n", []acl{{31, ident{"world", "me"}}}), "-114"},
			{jute.OpCreate, aclCreate("/a/n", []acl{{31, ident{"super", "me"}}}), "-114"},
			{jute.OpCreate, aclCreate("/a/n", []acl{{31, ident{"ip", "127.0.0.1/99"}}}), "-114"},
			{jute.OpCreate, aclCreate("/a/n", []acl{{31, ident{"ip", "::1"}}}), "-114"},
			{jute.OpCreate, aclCreate("/a/n", []acl{{31, ident{"ip", "10.0.0.0/8"}}}), "/a/n"},
			{jute.OpCreate, aclCreate("/a/m", []acl{{31, anyone}, {1, anyone}, {31, anyone}}), "/a/m"},
			{jute.OpGetACL, appendString(nil, "/a/m"), "31 world:anyone, 1 world:anyone"},
			{jute.OpCreate, aclCreate("/a/d", only), "/a/d"},
			{jute.OpGetData, pathBody("/a/d", false), "-102"},
			{jute.OpExists, pathBody("/a/d", false), "3.8.0: version 0 cversion 0 aversion 0 children 0 | 3.9.3: -102"},
			{jute.OpSetData, setBody("/a/d", "", 7), "-102"},
			{jute.OpDelete, deleteBody("/a/d/none", -1), "-102"},
			{jute.OpCreate, createBody("/a/d/n", "", 0), "-102"},
			{jute.OpGetACL, appendString(nil, "/a/d"), "-102"},
			{jute.OpSetACL, aclBody("/a/d", openACL, 7), "-102"},
			{jute.OpMulti, multiBody(step{op: jute.OpCheck, body: deleteBody("/a/d", -1)}), "[-102]"},
			{jute.OpAuth, authBody("digest", "u:p"), "ok"},
			{jute.OpGetData, pathBody("/a/d", false), "\"\" version 0 cversion 0 aversion 0 children 0"},
			{jute.OpGetACL, appendString(nil, "/a/d"), "31 digest:u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="},
			{jute.OpCreate, aclCreate("/a/o", []acl{{1, ident{"auth", ""}}}), "/a/o"},
			{jute.OpGetACL, appendString(nil, "/a/o"), "1 digest:u:x"},
			{jute.OpDelete, deleteBody("/a/d", -1), "ok"},
		},
		"events of a node that may not be read are withheld": {
			{jute.OpExists, pathBody("/a/n", true), "-101"},
			{jute.OpCreate, aclCreate("/a/n", blind), "/a/n"},
			{jute.OpSetACL, aclBody("/a/n", openACL, -1), "version 0 cversion 0 aversion 1 children 0"},
			{jute.OpExists, pathBody("/a/n", true), "version 0 cversion 0 aversion 1 children 0"},
			{jute.OpSetACL, aclBody("/a/n", blind, -1), "version 0 cversion 0 aversion 2 children 0"},
			{jute.OpSetData, setBody("/a/n", "", -1), "version 1 cversion 0 aversion 2 children 0"},
		},
		"authentication fails": {{jute.OpAuth, authBody("kerberos", "x"), "-115"}, {0, nil, "closed"}},
		"an unknown request":   {{99, nil, "-6 zxid -1"}, {0, nil, "closed"}},
		"a check alone": {
			{jute.OpCheck, deleteBody("/a", 7), "3.8.0: -103 +1 | 3.9.3: -6 zxid -1"},
		},
		"watches are removed": {
			{jute.OpRemoveWatches, watchBody("/a", watcherData), "-121"},
			{jute.OpGetData, pathBody("/a", true), "\"\" version 0 cversion 0 aversion 0 children 0"},
			{jute.OpCheckWatches, watchBody("/a", watcherChildren), "-121"},
			{jute.OpCheckWatches, watchBody("/a", watcherAny), "ok"},
			{jute.OpRemoveWatches, watchBody("/a", watcherChildren), "-121"},
			{jute.OpRemoveWatches, watchBody("/a", 9), "-5"},
			{jute.OpRemoveWatches, watchBody("/a", watcherPersistent), "3.8.0: -5 | 3.9.3: -121"},
			{jute.OpRemoveWatches, watchBody("/a", watcherData), "ok"},
			{jute.OpSetData, setBody("/a", "", -1), "version 1 cversion 0 aversion 0 children 0"},
		},
		"watches are set again": {
			{jute.OpCreate, createBody("/a/n", "", 0), "/a/n"},
			{jute.OpSetWatches, setWatchesBody(0, []string{"/a", "/a/x"}, []string{"/a/n", "/a/y"}, []string{"/a", "/a/z"}),
				"changed /a; deleted /a/x; created /a/n; children /a; deleted /a/z; ok"},
			{jute.OpCreate, createBody("/a/y", "", 0), "created /a/y; /a/y"},
			{jute.OpSetWatches, setWatchesBody(1<<60, []string{"/a"}, nil, []string{"/a"}), "ok"},
			{jute.OpSetData, setBody("/a", "", -1), "changed /a; version 1 cversion 2 aversion 0 children 2"},
			{jute.OpDelete, deleteBody("/a/y", -1), "children /a; ok"},
		},
		"persistent watches": {
			{jute.OpAddWatch, watchBody("/a", 0), "code 0"},
			{jute.OpCreate, createBody("/a/n", "", 0), "children /a; /a/n"},
			{jute.OpSetData, setBody("/a", "", -1), "changed /a; version 1 cversion 1 aversion 0 children 1"},
			{jute.OpSetData, setBody("/a", "", -1), "changed /a; version 2 cversion 1 aversion 0 children 1"},
			{jute.OpRemoveWatches, watchBody("/a", watcherAny), "ok"},
			{jute.OpAddWatch, watchBody("/a", 1), "code 0"},
			{jute.OpCreate, createBody("/a/n/m", "", 0), "created /a/n/m; /a/n/m"},
			{jute.OpSetData, setBody("/a/n", "", -1), "changed /a/n; version 1 cversion 1 aversion 0 children 1"},
			{jute.OpDelete, deleteBody("/a/n/m", -1), "deleted /a/n/m; ok"},
			{jute.OpAddWatch, watchBody("/a", 7), "-5"},
		},
		"several watches on one path": {
			{jute.OpAddWatch, watchBody("/a", 1), "code 0"},
			{jute.OpGetData, pathBody("/a", true), "\"\" version 0 cversion 0 aversion 0 children 0"},
			{jute.OpSetData, setBody("/a", "", -1), "changed /a; version 1 cversion 0 aversion 0 children 0"},
			{jute.OpSetData, setBody("/a", "", -1), "3.8.0: version 2 cversion 0 aversion 0 children 0 | " +
				"3.9.3: changed /a; version 2 cversion 0 aversion 0 children 0"},
			{jute.OpGetChildren, pathBody("/a", true), ""},
			{jute.OpCheckWatches, watchBody("/a", watcherAny), "ok"},
			{jute.OpCreate, createBody("/a/n", "", 0), "3.8.0: children /a; /a/n | 3.9.3: created /a/n; children /a; /a/n"},
			{jute.OpRemoveWatches, watchBody("/a", watcherData), "-121"},
			{jute.OpRemoveWatches, watchBody("/a", watcherAny), "3.8.0: -121 | 3.9.3: ok"},
		},
		"SASL": {
			{jute.OpSASL, jute.AppendBytes(nil, []byte("token")), "ok"},
			{jute.OpSASL, jute.AppendBytes(nil, nil), "closed"},
		},
		"who a client is": {
			{jute.OpAuth, authBody("digest", "u:p"), "ok"},
			{jute.OpAuth, authBody("digest", "u:p"), "ok"},
			{jute.OpAuth, authBody("ip", ""), "ok"},
			{jute.OpWhoAmI, nil, "ip 127.0.0.1, digest u"},
		},
		"a multi that reads what is no read": {
			{jute.OpMultiRead, multiBody(step{op: jute.OpCheck, body: deleteBody("/a", -1)}), "-5 with []"},
			{jute.OpMultiRead, multiBody(step{op: jute.OpGetData, body: pathBody("/a", false)}, step{op: jute.OpCheck, body: deleteBody("/a", -1)}), "-5"},
			{jute.OpMultiRead, multiBody(step{op: jute.OpExists, body: pathBody("/a", false)}), "-5"},
		},
		"containers are deleted by clients, too": {
			{jute.OpCreate, createBody("/a/n", "", 0), "/a/n"},
			{jute.OpDeleteContainer, appendString(nil, "/a"), "3.8.0: -8 | 3.9.3: -111"},
			{jute.OpDeleteContainer, appendString(nil, "/a/n"), "3.8.0: -8 | 3.9.3: ok"},
			{jute.OpCreate, createBody("/a/e", "", jute.FlagEphemeral), "/a/e"},
			{jute.OpDeleteContainer, appendString(nil, "/a/e"), "3.8.0: -8 | 3.9.3: -103"},
		},
		"other reads": {
			{jute.OpCreate, createBody("/a/e", "x", jute.FlagEphemeral), "/a/e"},
			{jute.OpCreate2, createBody("/a/f", "x", jute.FlagEphemeral), "/a/f version 0 cversion 0 aversion 0 children 0 mine"},
			{jute.OpGetEphemerals, appendString(nil, "/a/e"), "/a/e"},
			{jute.OpGetEphemerals, appendString(nil, " "), "/a/e /a/f"},
			{jute.OpCountChildren, appendString(nil, "/a"), "code 2"},
			{jute.OpCountChildren, appendString(nil, "/none"), "-101"},
			{jute.OpMultiRead, multiBody(
				step{op: jute.OpGetData, body: pathBody("/a/e", false)},
				step{op: jute.OpGetChildren, body: pathBody("/a", false)},
				step{op: jute.OpGetData, body: pathBody("/none", false)},
			), "[4 \"x\" version 0; 8 e f; -101]"},
			{jute.OpSync, appendString(nil, "/none"), "/none"},
		},
		"null and empty data differ": {
			{jute.OpCreate, jute.AppendInt32(appendACL(jute.AppendInt32(appendString(nil, "/a/n"), -1), openACL), 0), "/a/n"},
			{jute.OpGetData, pathBody("/a/n", false), "null version 0 cversion 0 aversion 0 children 0"},
			{jute.OpSetData, setBody("/a/n", "", -1), "version 1 cversion 0 aversion 0 children 0"},
			{jute.OpGetData, pathBody("/a/n", false), "\"\" version 1 cversion 0 aversion 0 children 0"},
		},
		"requests that are cut short": {
			{jute.OpExists, appendString(nil, "/a"), "-5 +0"},
			{jute.OpCreate, nil, "3.8.0: -5 +1 | 3.9.3: -5 +0"},
			{jute.OpMulti, nil, "-5 +1"},
			{jute.OpDelete, jute.AppendInt32(jute.AppendInt32(nil, -1), -1), "-5 +1"},
			{jute.OpSetData, jute.AppendInt32(jute.AppendInt32(jute.AppendInt32(nil, -1), -1), -1), "-8 +1"},
		},
	} {
		for _, version := range []string{"3.8.0", "3.9.3"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				bubble(t, Config{Version: version}, func(t *testing.T, e *Ensemble) {
					r := rawSession(t, e.Members()[0], 10*time.Second)
					r.mustCreate("/a", 0)
					for i, s := range steps {
						want := forVersion(s.want, version)
						before := r.zxid
						if got := r.play(s, want, before); got != want {
							t.Errorf("step %d, %d %q:\n got %s\nwant %s", i, s.op, s.body, got, want)
						}
					}
				})
			})
		}
	}
}

// forVersion picks a part of "3.8.0: x | 3.9.3: y".
func forVersion(want, version string) string {
	for part := range strings.SplitSeq(want, " | ") {
		if rest, ok := strings.CutPrefix(part, version+": "); ok {
			return rest
		}
	}
	return want
}

// play sends a request and describes the packets that come back, with the zxid if want has it.
func (r *raw) play(s step, want string, before int64) string {
	if s.op == 0 {
		if r.ended(time.Second) {
			return "closed"
		}
		return "open"
	}
	r.request(3, s.op, s.body)
	var told []string
	for {
		p := r.next()
		switch {
		case p.code == 1:
			return strings.Join(append(told, "closed"), "; ")
		case p.xid == jute.XidEvent:
			kind, path := p.event()
			told = append(told, map[int32]string{1: "created", 2: "deleted", 3: "changed", 4: "children"}[kind]+" "+path)
			continue
		}
		reply := r.describe(s.op, p)
		switch {
		case strings.Contains(want, "zxid"):
			reply += fmt.Sprintf(" zxid %d", p.zxid)
		case strings.Contains(want, " +"):
			reply += fmt.Sprintf(" +%d", p.zxid-before)
		}
		if reply != "" || len(told) == 0 {
			told = append(told, reply)
		}
		return strings.Join(told, "; ")
	}
}

func (r *raw) describe(op int32, p packet) string {
	d := jute.Decoder{Rest: p.body}
	switch {
	case p.code != jute.CodeOK && op == jute.OpMultiRead && len(p.body) > 0:
		return fmt.Sprintf("%d with %s", p.code, r.multi(&d))
	case p.code != jute.CodeOK:
		return fmt.Sprint(p.code)
	}
	switch op {
	case jute.OpCreate, jute.OpSync:
		return d.Text()
	case jute.OpCreate2:
		return d.Text() + " " + r.stat(&d)
	case jute.OpExists, jute.OpSetData, jute.OpSetACL:
		return r.stat(&d)
	case jute.OpGetData:
		return data(&d) + " " + r.stat(&d)
	case jute.OpGetChildren, jute.OpGetEphemerals:
		return names(&d)
	case jute.OpGetACL:
		var list []string
		for _, a := range decodeACL(&d) {
			list = append(list, fmt.Sprintf("%d %s:%s", a.perms, a.scheme, a.id))
		}
		return strings.Join(list, ", ")
	case jute.OpAddWatch, jute.OpCountChildren:
		return fmt.Sprintf("code %d", d.Int32())
	case jute.OpMulti, jute.OpMultiRead:
		return r.multi(&d)
	case jute.OpWhoAmI:
		var list []string
		for range d.Int32() {
			list = append(list, d.Text()+" "+d.Text())
		}
		return strings.Join(list, ", ")
	}
	return "ok"
}

func data(d *jute.Decoder) string {
	if v := d.Bytes(); v != nil {
		return fmt.Sprintf("%q", v)
	}
	return "null"
}

func names(d *jute.Decoder) string {
	list := d.Texts()
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (r *raw) stat(d *jute.Decoder) string {
	d.Take(32)
	version, cversion, aversion, owner := d.Int32(), d.Int32(), d.Int32(), d.Int64()
	d.Int32()
	s := fmt.Sprintf("version %d cversion %d aversion %d children %d", version, cversion, aversion, d.Int32())
	d.Int64()
	if owner != 0 {
		s += map[bool]string{true: " mine", false: " another's"}[owner == r.session]
	}
	return s
}

func (r *raw) multi(d *jute.Decoder) string {
	var list []string
	for {
		kind, done, code := d.Int32(), d.Bool(), d.Int32()
		if done || d.Bad {
			return "[" + strings.Join(list, "; ") + "]"
		}
		s := fmt.Sprint(kind)
		switch kind {
		case jute.OpError:
			s = fmt.Sprint(cmp.Or(d.Int32(), code))
		case jute.OpCreate:
			s += " " + d.Text()
		case jute.OpCreate2:
			s += " " + d.Text() + " version " + strings.Fields(r.stat(d))[1]
		case jute.OpSetData:
			s += " version " + strings.Fields(r.stat(d))[1]
		case jute.OpGetData:
			s += " " + data(d) + " version " + strings.Fields(r.stat(d))[1]
		case jute.OpGetChildren:
			s += " " + names(d)
		}
		list = append(list, s)
	}
}

func multiBody(ops ...step) []byte {
	var b []byte
	for _, s := range ops {
		b = append(appendMultiHeader(b, s.op, false, -1), s.body...)
	}
	return appendMultiHeader(b, -1, true, -1)
}

func aclBody(path string, list []acl, version int32) []byte {
	return jute.AppendInt32(appendACL(appendString(nil, path), list), version)
}

func aclCreate(path string, list []acl) []byte {
	return jute.AppendInt32(appendACL(jute.AppendBytes(appendString(nil, path), []byte{}), list), 0)
}

func authBody(scheme, secret string) []byte {
	return jute.AppendBytes(appendString(jute.AppendInt32(nil, 0), scheme), []byte(secret))
}

func watchBody(path string, kind int32) []byte {
	return jute.AppendInt32(appendString(nil, path), kind)
}

func setWatchesBody(seen int64, lists ...[]string) []byte {
	b := jute.AppendInt64(nil, seen)
	for _, list := range lists {
		b = jute.AppendInt32(b, int32(len(list)))
		for _, path := range list {
			b = appendString(b, path)
		}
	}
	return b
}

func TestACLsOfAddresses(t *testing.T) {
	e := Start(Config{})
	defer e.Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go e.Members()[0].Serve(l)
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	r := &raw{t: t, nc: nc}
	if !r.shake(0, 0, make([]byte, 16), 10*time.Second) {
		t.Fatal("no session")
	}
	for id, readable := range map[string]bool{
		"127.0.0.1": true, "127.0.0.0/8": true, "127.0.0.1/32": true, "0.0.0.0/0": true, "::1": false, "::/0": false,
		"127.0.0.2": false, "127.0.0.2/31": false, "126.0.0.0/7": true, "10.0.0.0/8": false,
	} {
		path := r.call(jute.OpCreate, aclCreate("/n-", []acl{{31, ident{"ip", id}}})).string()
		if path != "/n-" {
			t.Fatalf("%s: no node: %s", id, path)
		}
		if p := r.call(jute.OpGetData, pathBody(path, false)); (p.code == jute.CodeOK) != readable || !readable && p.code != jute.CodeNoAuth {
			t.Errorf("%s: %d", id, p.code)
		}
		r.call(jute.OpDelete, deleteBody(path, -1))
	}
}

func TestEventsCarryTheZxidOfTheirCauseSince39(t *testing.T) {
	for version, carries := range map[string]bool{"3.8.0": false, "3.9.0": true} {
		bubble(t, Config{Version: version}, func(t *testing.T, e *Ensemble) {
			r := rawSession(t, e.Members()[0], 10*time.Second)
			r.call(jute.OpExists, pathBody("/a", true))
			event := r.call(jute.OpCreate, createBody("/a", "", 0))
			reply := r.next()
			if event.xid != jute.XidEvent || event.zxid != map[bool]int64{true: reply.zxid, false: -1}[carries] {
				t.Errorf("%s: event %+v, reply %+v", version, event, reply)
			}
			// Events of setWatches have no single cause.
			if p := r.call(jute.OpSetWatches, setWatchesBody(0, []string{"/a"}, nil, nil)); p.xid != jute.XidEvent || p.zxid != -1 {
				t.Errorf("%s: %+v", version, p)
			}
		})
	}
}

// In 3.8.0 a successful check outside of a multi is never answered, and the connection remains
// open.
func TestACheckAloneThatSucceedsIsNotAnswered(t *testing.T) {
	bubble(t, Config{Version: "3.8.0"}, func(t *testing.T, e *Ensemble) {
		r := rawSession(t, e.Members()[0], 10*time.Second)
		r.request(1, jute.OpCheck, deleteBody("/", -1))
		if p := r.call(jute.OpExists, pathBody("/", false)); p.xid != 7 || p.zxid != 2 {
			t.Errorf("%+v", p)
		}
	})
}

func TestTTLNodes(t *testing.T) {
	bubble(t, Config{TTLNodes: true}, func(t *testing.T, e *Ensemble) {
		r := rawSession(t, e.Members()[0], 40*time.Second)
		body := func(path string, flags int32, ttl int64) []byte {
			return jute.AppendInt64(createBody(path, "", flags), ttl)
		}
		for _, ttl := range []int64{0, -1, 1 << 40} {
			if p := r.call(jute.OpCreateTTL, body("/t", jute.FlagTTL, ttl)); p.code != jute.CodeBadArguments {
				t.Errorf("ttl %d: %d", ttl, p.code)
			}
		}
		if p := r.call(jute.OpCreateTTL, body("/t-", jute.FlagTTLSequential, 50_000)); p.string() != "/t-0000000000" {
			t.Errorf("%+v", p)
		}
		if p := r.call(jute.OpCreateTTL, body("/u", jute.FlagTTL, 70_000)); p.code != jute.CodeOK {
			t.Errorf("%+v", p)
		}
		for _, c := range []struct {
			at   time.Duration
			want int
		}{{59 * time.Second, 2}, {61 * time.Second, 1}, {119 * time.Second, 1}, {121 * time.Second, 0}} {
			for e.now() < c.at {
				time.Sleep(time.Second)
				r.call(jute.OpPing, nil)
			}
			if n := len(e.Nodes()); n != c.want {
				t.Errorf("%d nodes after %v, want %d", n, c.at, c.want)
			}
		}
	})
}

func TestContainersAreSweptOnceTheyHaveServed(t *testing.T) {
	bubble(t, Config{Members: 3, ContainerCheck: 10 * time.Second}, func(t *testing.T, e *Ensemble) {
		r := rawSession(t, e.Members()[0], 40*time.Second)
		for _, path := range []string{"/fresh", "/used", "/worn", "/worn2"} {
			p := r.call(jute.OpCreateContainer, createBody(path, "", jute.FlagContainer))
			d := jute.Decoder{Rest: p.body}
			if d.Text() != path || strings.Contains(r.stat(&d), "'s") {
				t.Errorf("%s: %+v", path, p)
			}
		}
		for _, path := range []string{"/used/n", "/worn/n", "/worn2/n"} {
			r.mustCreate(path, 0)
		}
		time.Sleep(11 * time.Second)
		if n := len(e.Nodes()); n != 7 {
			t.Errorf("%d nodes: a container that is in use was swept", n)
		}
		r.call(jute.OpDelete, deleteBody("/worn/n", -1))
		r.call(jute.OpDelete, deleteBody("/worn2/n", -1))
		time.Sleep(8 * time.Second)
		if n := len(e.Nodes()); n != 5 {
			t.Errorf("%d nodes: a container was swept before the time", n)
		}
		time.Sleep(time.Second + 3*time.Millisecond)
		if n := len(e.Nodes()); n != 4 {
			t.Errorf("%d nodes: of two containers one goes first", n)
		}
		time.Sleep(6 * time.Millisecond)
		nodes := e.Nodes()
		if _, ok := nodes["/fresh"]; !ok || len(nodes) != 3 {
			t.Errorf("nodes: %v", nodes)
		}
	})
}

// At the end of the numbers the number does not grow, so the next name exists already.
func TestTheEndOfTheSequence(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, e *Ensemble) {
		r := rawSession(t, e.Members()[0], 10*time.Second)
		r.mustCreate("/a", 0)
		if !e.SetSequence("/a", 1<<31-2) || e.SetSequence("/none", 0) {
			t.Error("SetSequence")
		}
		for _, want := range []string{"/a/n-2147483646", "/a/n-2147483647"} {
			if p := r.call(jute.OpCreate, createBody("/a/n-", "", jute.FlagSequential)); p.string() != want {
				t.Errorf("%q, want %s", p.body, want)
			}
		}
		if p := r.call(jute.OpCreate, createBody("/a/n-", "", jute.FlagSequential)); p.code != jute.CodeNodeExists {
			t.Errorf("%+v", p)
		}
		e.SetSequence("/a", -5)
		if p := r.call(jute.OpCreate, createBody("/a/n-", "", jute.FlagSequential)); p.string() != "/a/n--000000005" {
			t.Errorf("%q", p.body)
		}
	})
}

func TestOversizedPacketsEndTheConnection(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, e *Ensemble) {
		m := e.Members()[0]
		r := rawSession(t, m, 10*time.Second)
		r.mustCreate("/big", 0)
		if p := r.call(jute.OpSetData, setBody("/big", strings.Repeat("x", maxPacket-100), -1)); p.code != jute.CodeOK {
			t.Errorf("%d", p.code)
		}
		if p := r.call(jute.OpGetData, pathBody("/big", false)); len(p.body) < maxPacket-100 {
			t.Errorf("%d bytes", len(p.body))
		}
		r.send(make([]byte, maxPacket+1))
		if !r.ended(time.Second) {
			t.Error("the connection lives")
		}
		r = rawSession(t, m, 10*time.Second)
		r.send([]byte{1, 2, 3})
		if !r.ended(time.Second) {
			t.Error("the connection lives after a packet without a header")
		}
	})
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]behavior{
		"3.8.0": {readForEvents: true, checkAlone: true},
		"3.8.3": {checkAlone: true, create2InMulti: true},
		"3.8.4": {readForEvents: true, readForExists: true, checkAlone: true, create2InMulti: true},
		"3.8.6": {readForEvents: true, readForExists: true, create2InMulti: true},
		"3.9.0": {zxidInEvents: true, checkAlone: true, create2InMulti: true, watchModes: true, readOnlyAlways: true, wholeRequests: true},
		"3.9.3": {zxidInEvents: true, readForEvents: true, readForExists: true, create2InMulti: true, watchModes: true, wholeRequests: true},
		"3.9.5": {zxidInEvents: true, readForEvents: true, readForExists: true, create2InMulti: true, watchModes: true, wholeRequests: true, ipv6: true},
	} {
		if got := behaviorOf(version); got != want {
			t.Errorf("%s: %+v, want %+v", version, got, want)
		}
	}
	for _, version := range []string{"3", "3.9", "3.9.x", "3.9.-1", "3.9.3.1", "3.7.2"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is taken for a version", version)
				}
			}()
			behaviorOf(version)
		}()
	}
}
