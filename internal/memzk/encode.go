package memzk

import (
	"encoding/binary"

	"github.com/zklocks/zklocks/internal/jute"
)

// maxPacket is ZooKeeper's default of jute.maxbuffer. A longer request ends the connection.
const maxPacket = 0xfffff

func decodeACL(d *jute.Decoder) []acl {
	n := d.Count(12)
	if n <= 0 {
		return nil
	}
	if n == 1 {
		if rest, ok := cutOpenACL(d.Rest); ok {
			d.Rest = rest
			return openACL
		}
	}
	v := make([]acl, 0, n)
	for range n {
		v = append(v, acl{perms: d.Int32(), ident: ident{scheme: d.Text(), id: d.Text()}})
	}
	return v
}

func appendACL(b []byte, v []acl) []byte {
	b = jute.AppendInt32(b, int32(len(v)))
	for _, a := range v {
		b = jute.AppendInt32(b, a.perms)
		b = jute.AppendText(b, a.scheme)
		b = jute.AppendText(b, a.id)
	}
	return b
}

func appendStat(b []byte, s stat) []byte {
	b = jute.AppendInt64(b, s.czxid)
	b = jute.AppendInt64(b, s.mzxid)
	b = jute.AppendInt64(b, s.ctime)
	b = jute.AppendInt64(b, s.mtime)
	b = jute.AppendInt32(b, s.version)
	b = jute.AppendInt32(b, s.cversion)
	b = jute.AppendInt32(b, s.aversion)
	b = jute.AppendInt64(b, s.owner)
	b = jute.AppendInt32(b, s.dataLength)
	b = jute.AppendInt32(b, s.numChildren)
	return jute.AppendInt64(b, s.pzxid)
}

// startReply appends a header with room for the length. endReply fills in the length.
func startReply(b []byte, xid int32, zxid int64, code int32) (packet []byte, start int) {
	start = len(b)
	b = append(b, 0, 0, 0, 0)
	b = jute.AppendInt32(b, xid)
	b = jute.AppendInt64(b, zxid)
	return jute.AppendInt32(b, code), start
}

func endReply(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}
