package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

const (
	lengthSize  = 4
	replyHeader = 16 // xid, zxid, error
	maxReply    = 64 << 20

	usualRequest = 256 // more than most have

	minHandshake = 20 // version, timeout, session, length of the password
	maxHandshake = 1 << 10
	maxSASL      = 64 << 10

	passwordSize     = 16
	sessionInRequest = lengthSize + 4 + 8 + 4 // after the version, the last zxid and the timeout
	zxidInReply      = lengthSize + 4         // after the xid
	codeInReply      = lengthSize + 4 + 8     // after the xid and the zxid
)

// Operations, as on the wire.
const (
	opError         int32 = -1 // a result in the reply to a Multi; it also ends a Multi and its reply
	opCreate        int32 = 1
	opDelete        int32 = 2
	opExists        int32 = 3
	opGetData       int32 = 4
	opSetData       int32 = 5
	opGetACL        int32 = 6
	opPing          int32 = 11
	opGetChildren2  int32 = 12
	opCheck         int32 = 13
	opMulti         int32 = 14
	opCreate2       int32 = 15 // a result in the reply to a Multi, of a container
	opReconfig      int32 = 16
	opRemoveWatches int32 = 18
	opSetAuth       int32 = 100
	opSetWatches    int32 = 101
	opSASL          int32 = 102
	opClose         int32 = -11
)

const (
	anyVersion int32 = -1
	anyWatches int32 = 3  // the type of all watches on a node
	noError    int32 = -1 // in the header of an operation of a Multi
)

const (
	xidEvent = -1
	xidPing  = -2

	codeNoNode      int32 = -101
	codeBadVersion  int32 = -103
	codeNoChildren  int32 = -108 // an ephemeral node has none
	codeNodeExists  int32 = -110
	codeNotEmpty    int32 = -111
	codeAuthFailed  int32 = -115
	codeClosing     int32 = -116
	codeDemandsSASL int32 = -124 // the server demands credentials, and ends the session
	codeThrottled   int32 = -127
)

// errs are the errors of package zk for the server's codes.
var errs = map[int32]error{
	0:               nil,
	-8:              zk.ErrBadArguments,
	-100:            zk.ErrAPIError,
	codeNoNode:      zk.ErrNoNode,
	-102:            zk.ErrNoAuth,
	codeBadVersion:  zk.ErrBadVersion,
	codeNoChildren:  zk.ErrNoChildrenForEphemerals,
	codeNodeExists:  zk.ErrNodeExists,
	codeNotEmpty:    zk.ErrNotEmpty,
	-112:            zk.ErrSessionExpired,
	-114:            zk.ErrInvalidACL,
	codeAuthFailed:  zk.ErrAuthFailed,
	codeClosing:     zk.ErrClosing,
	-118:            zk.ErrSessionMoved,
	codeDemandsSASL: fmt.Errorf("the server demands that clients authenticate, by SASL (WithSASL) or by another scheme: %w", zk.ErrAuthFailed),
}

// codeError returns the error for a server's code.
func codeError(code int32) error {
	if err, known := errs[code]; known {
		return err
	}
	return Code(code)
}

// A Code is a server's code for which package zk has no error.
type Code int32

const (
	// RolledBack is the code of the operations of a Multi behind the operation that was refused.
	RolledBack Code = -2
	// Throttled means that the server, being overloaded, has dropped the request.
	Throttled Code = Code(codeThrottled)
)

// meanings describes codes to the user.
var meanings = map[Code]string{
	-119:      "the server only reads",
	-120:      "the server keeps this session to itself, without ephemeral nodes: localSessionsEnabled without localSessionsUpgradingEnabled",
	-125:      "a quota of the path is used up",
	Throttled: "the server is overloaded and has dropped the request",
}

func (c Code) Error() string {
	if meaning, known := meanings[c]; known {
		return fmt.Sprintf("%s (code %d)", meaning, int32(c))
	}
	return fmt.Sprintf("the server has answered with code %d", int32(c))
}

// Overloaded reports whether an error of this package or of a Client means Throttled.
func Overloaded(err error) bool {
	return err == Throttled || err != nil && err.Error() == fmt.Sprintf("unknown error: %d", codeThrottled)
}

var errFrame = errors.New("malformed frame from the server")

func int32At(b []byte, at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func int64At(b []byte, at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

// encode appends values in the protocol's encoding.
func encode(p []byte, values ...any) []byte {
	if p == nil {
		p = make([]byte, 0, usualRequest)
	}
	for _, v := range values {
		switch v := v.(type) {
		case bool:
			if p = append(p, 0); v {
				p[len(p)-1] = 1
			}
		case int32:
			p = binary.BigEndian.AppendUint32(p, uint32(v))
		case int64:
			p = binary.BigEndian.AppendUint64(p, uint64(v))
		case string:
			p = append(encode(p, int32(len(v))), v...)
		case []byte:
			if v == nil {
				p = encode(p, int32(-1))
			} else {
				p = append(encode(p, int32(len(v))), v...)
			}
		case []string:
			p = encode(p, int32(len(v)))
			for _, s := range v {
				p = encode(p, s)
			}
		case []zk.ACL:
			p = encode(p, int32(len(v)))
			for _, a := range v {
				p = encode(p, a.Perms, a.Scheme, a.ID)
			}
		}
	}
	return p
}

// proves reports whether an answer shows that the leader has asked the quorum. A server that is cut
// off from the leader can give all other answers. With zookeeper.enableEagerACLCheck it refuses a
// plain create, write or delete for lack of a right. A Multi has refusals in its results.
func proves(op, code int32) bool {
	switch op {
	case opMulti:
		return code == 0
	case opCreate, opDelete, opSetData:
		return code == 0 || code == codeNoNode || code == codeNodeExists || code == codeBadVersion ||
			code == codeNotEmpty || code == codeNoChildren
	}
	return false
}

// touches reports whether the server has noted, before this answer, that the session is in use. It
// answers credentials without noting that. It does not note that either when it demands credentials
// that the client has not sent.
func touches(op, code int32) bool {
	return op != opSetAuth && code != codeAuthFailed && code != codeDemandsSASL
}
