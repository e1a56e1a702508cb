package memzk

import (
	"encoding/binary"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// maxPacket is ZooKeeper's default of jute.maxbuffer. A longer request ends the connection.
const maxPacket = 0xfffff

// Types of requests and of transactions.
const (
	opError           int32 = -1
	opCreate          int32 = 1
	opDelete          int32 = 2
	opExists          int32 = 3
	opGetData         int32 = 4
	opSetData         int32 = 5
	opGetACL          int32 = 6
	opSetACL          int32 = 7
	opGetChildren     int32 = 8
	opSync            int32 = 9
	opPing            int32 = 11
	opGetChildren2    int32 = 12
	opCheck           int32 = 13
	opMulti           int32 = 14
	opCreate2         int32 = 15
	opReconfig        int32 = 16
	opCheckWatches    int32 = 17
	opRemoveWatches   int32 = 18
	opCreateContainer int32 = 19
	opDeleteContainer int32 = 20
	opCreateTTL       int32 = 21
	opMultiRead       int32 = 22
	opAuth            int32 = 100
	opSetWatches      int32 = 101
	opSASL            int32 = 102
	opGetEphemerals   int32 = 103
	opCountChildren   int32 = 104
	opSetWatches2     int32 = 105
	opAddWatch        int32 = 106
	opWhoAmI          int32 = 107
	opCreateSession   int32 = -10
	opCloseSession    int32 = -11
)

// Transaction ids in the headers of packets that answer no request.
const (
	xidEvent int32 = -1
	xidPing  int32 = -2
)

// Result codes.
const (
	codeOK               int32 = 0
	codeInconsistency    int32 = -2 // the operations of a multi after the one that failed
	codeMarshalling      int32 = -5
	codeUnimplemented    int32 = -6
	codeBadArguments     int32 = -8
	codeNoNode           int32 = -101
	codeNoAuth           int32 = -102
	codeBadVersion       int32 = -103
	codeNoChildren       int32 = -108 // for ephemeral nodes
	codeNodeExists       int32 = -110
	codeNotEmpty         int32 = -111
	codeSessionExpired   int32 = -112
	codeInvalidACL       int32 = -114
	codeAuthFailed       int32 = -115
	codeSessionMoved     int32 = -118
	codeNoWatcher        int32 = -121
	codeReconfigDisabled int32 = -123
)

// Flags of a create.
const (
	flagPersistent    int32 = 0
	flagEphemeral     int32 = 1
	flagSequential    int32 = 2
	flagContainer     int32 = 4
	flagTTL           int32 = 5
	flagTTLSequential int32 = 6
)

// decoder reads a request. The first field that is not there makes bad true, and all that follow
// read as zero. A string that is null makes null true: ZooKeeper fails on it later, in its code.
type decoder struct {
	b         []byte
	bad, null bool
}

// failed reports whether the request is answered with codeMarshalling.
func (d *decoder) failed() bool { return d.bad || d.null }

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.b) {
		d.bad = true
		return nil
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) int32() int32 {
	if v := d.take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if v := d.take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (d *decoder) bool() bool {
	v := d.take(1)
	return v != nil && v[0] != 0
}

// bytes returns a part of the packet: the caller copies what it keeps. A null buffer is nil.
func (d *decoder) bytes() []byte {
	n := d.int32()
	if n == -1 && !d.bad {
		return nil
	}
	return d.take(int(n))
}

// data returns a copy. Null stays nil, because ZooKeeper keeps null and empty data apart.
func (d *decoder) data() []byte {
	v := d.bytes()
	if v == nil {
		return nil
	}
	return append(make([]byte, 0, len(v)), v...)
}

func (d *decoder) string() string {
	v := d.bytes()
	if v == nil && !d.bad {
		d.null = true
	}
	return string(v)
}

func (d *decoder) strings() []string {
	n := d.int32()
	if d.bad || n <= 0 {
		return nil
	}
	// Each string takes four bytes at least, so a count beyond that is a lie.
	if int(n) > len(d.b)/4 {
		d.bad = true
		return nil
	}
	v := make([]string, 0, n)
	for range n {
		v = append(v, d.string())
	}
	return v
}

// isNull looks at the length of what comes next.
func (d *decoder) isNull() bool {
	return len(d.b) >= 4 && binary.BigEndian.Uint32(d.b) == math.MaxUint32
}

func (d *decoder) acl() []acl {
	n := d.int32()
	if d.bad || n <= 0 {
		return nil
	}
	if int(n) > len(d.b)/12 {
		d.bad = true
		return nil
	}
	if n == 1 {
		if rest, ok := cutOpenACL(d.b); ok {
			d.b = rest
			return openACL
		}
	}
	v := make([]acl, 0, n)
	for range n {
		v = append(v, acl{perms: d.int32(), ident: ident{scheme: d.string(), id: d.string()}})
	}
	return v
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendBytes(b []byte, v []byte) []byte {
	if v == nil {
		return appendInt32(b, -1)
	}
	return append(appendInt32(b, int32(len(v))), v...)
}

// appendString encodes as Java does: a character beyond U+FFFF is two surrogates, of three bytes
// each.
func appendString(b []byte, v string) []byte {
	start := len(b)
	b = appendInt32(b, int32(len(v)))
	if !hasWide(v) {
		return append(b, v...)
	}
	for _, r := range v {
		if r <= 0xffff {
			b = utf8.AppendRune(b, r)
			continue
		}
		high, low := utf16.EncodeRune(r)
		for _, half := range []rune{high, low} {
			b = append(b, 0xe0|byte(half>>12), 0x80|byte(half>>6)&0x3f, 0x80|byte(half)&0x3f)
		}
	}
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}

// appendText encodes a string that may be null.
func appendText(b, v []byte) []byte {
	if v == nil {
		return appendInt32(b, -1)
	}
	return appendString(b, string(v))
}

// hasWide looks at bytes: all strings come by here, and hardly any has such a character.
func hasWide(v string) bool {
	for i := range len(v) {
		if v[i] >= 0xf0 {
			return true
		}
	}
	return false
}

func appendACL(b []byte, v []acl) []byte {
	b = appendInt32(b, int32(len(v)))
	for _, a := range v {
		b = appendInt32(b, a.perms)
		b = appendString(b, a.scheme)
		b = appendString(b, a.id)
	}
	return b
}

func appendStat(b []byte, s stat) []byte {
	b = appendInt64(b, s.czxid)
	b = appendInt64(b, s.mzxid)
	b = appendInt64(b, s.ctime)
	b = appendInt64(b, s.mtime)
	b = appendInt32(b, s.version)
	b = appendInt32(b, s.cversion)
	b = appendInt32(b, s.aversion)
	b = appendInt64(b, s.owner)
	b = appendInt32(b, s.dataLength)
	b = appendInt32(b, s.numChildren)
	return appendInt64(b, s.pzxid)
}

// startReply leaves room for the length, which endReply fills in when the body is there.
func startReply(b []byte, xid int32, zxid int64, code int32) (packet []byte, start int) {
	start = len(b)
	b = append(b, 0, 0, 0, 0)
	b = appendInt32(b, xid)
	b = appendInt64(b, zxid)
	return appendInt32(b, code), start
}

// headerSize is the size of a reply without a body, with its length.
const headerSize = 20

func setCode(packet []byte, code int32) {
	binary.BigEndian.PutUint32(packet[headerSize-4:], uint32(code))
}

func endReply(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}
