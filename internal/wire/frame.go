package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// The client trusts what a server sends. A length below 16 or a count of 4 billion children makes
// it panic, in a goroutine where no caller can recover. The checks here prevent that, and check no
// more.
const (
	lengthSize  = 4
	replyHeader = 16 // xid, zxid, error
	maxReply    = 64 << 20

	minHandshake = 20 // version, timeout, session, length of the password
	maxHandshake = 1 << 10

	timeoutInHandshake  = lengthSize + 4 // after the version
	passwordInHandshake = lengthSize + minHandshake - 4
	zxidInRequest       = lengthSize + 4     // after the version
	timeoutInRequest    = lengthSize + 4 + 8 // after the version and the last zxid
	sessionInRequest    = timeoutInRequest + 4
	zxidInReply         = lengthSize + 4 // after the xid
)

// Operations, as on the wire.
const (
	opExists        = 3
	opGetData       = 4
	opGetACL        = 6
	opGetChildren   = 8
	opGetChildren2  = 12
	opPing          = 11
	opMulti         = 14
	opReconfig      = 16
	opRemoveWatches = 18
	opSetAuth       = 100
	opSetWatches    = 101
	opClose         = -11
	opError         = -1
	opCreate        = 1
	opDelete        = 2
	opSetData       = 5
	opCheck         = 13
)

const (
	xidEvent = -1
	// The xids of the packetConns' own requests count down from ownXids. A session never uses one
	// twice: a request that it sent through another server may be committed only now, and this
	// server must not take it for a request of this connection.
	ownXids = -1000

	codeConnectionLoss = -4 // no server sends it
	codeNoNode         = -101
	codeBadVersion     = -103
	codeNoChildren     = -108 // an ephemeral node has none
	codeNodeExists     = -110
	codeNotEmpty       = -111
	codeAuthFailed     = -115
	codeDemandsSASL    = -124
	codeThrottled      = -127
)

var errFrame = errors.New("malformed frame from the server")

func int32At(b []byte, at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }
func int64At(b []byte, at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }

// stringAt reads a string behind its length, and returns where it ends. ok is false if b is too
// short.
func stringAt(b []byte, at int) (s []byte, end int, ok bool) {
	if len(b) < at+4 {
		return nil, 0, false
	}
	n := int(int32At(b, at))
	at += 4
	if n < 0 || n > len(b)-at {
		return nil, 0, false
	}
	return b[at : at+n], at + n, true
}

// encode appends values in the protocol's encoding.
func encode(p []byte, values ...any) []byte {
	for _, v := range values {
		switch v := v.(type) {
		case byte:
			p = append(p, v)
		case int32:
			p = binary.BigEndian.AppendUint32(p, uint32(v))
		case int64:
			p = binary.BigEndian.AppendUint64(p, uint64(v))
		case string:
			p = append(encode(p, int32(len(v))), v...)
		case []string:
			p = encode(p, int32(len(v)))
			for _, s := range v {
				p = encode(p, s)
			}
		}
	}
	return p
}

// connectReply reads the answer to the handshake, length included. Session 0 means that the session
// has expired.
func connectReply(b []byte) (session int64, timeout time.Duration, err error) {
	n := len(b) - lengthSize
	if password := int32At(b, 20); int(password) > n-minHandshake {
		return 0, 0, fmt.Errorf("%w: password of %d bytes in a handshake of %d", errFrame, password, n)
	}
	session, timeout = int64At(b, 12), time.Duration(int32At(b, timeoutInHandshake))*time.Millisecond
	if session != 0 && timeout <= 0 { // the client would make a ticker of it, which panics
		return 0, 0, fmt.Errorf("%w: session timeout of %v", errFrame, timeout)
	}
	return session, timeout, nil
}

// request returns the xid and the operation of a request.
func request(p []byte) (xid, op int32) { return int32At(p, 4), int32At(p, 8) }

// created returns the path that a request creates; nil: none. In a Multi the create must be the
// first operation, or the second behind a check.
func created(op int32, p []byte) []byte {
	const header = 9 // of an operation in a Multi: type, done, error
	at := 12         // behind length, xid, operation
	if op == opMulti && len(p) >= at+header {
		op, at = int32At(p, at), at+header
		if _, end, ok := stringAt(p, at); op == opCheck && ok && len(p) >= end+4+header { // path, version
			op, at = int32At(p, end+4), end+4+header
		}
	}
	if op != opCreate {
		return nil
	}
	path, _, _ := stringAt(p, at)
	return path
}

// checkBody refuses what the client's decoder cannot handle: a length or a count for which it
// allocates memory before it checks whether the bytes are there, and a Multi result without an end.
// It also refuses a body without the length: the client would read it from the bytes of an earlier
// reply, which its buffer still has.
func checkBody(op int32, body []byte) error {
	element, none := 0, int32(0) // the least bytes of an element, and the count that means nil
	switch op {
	case opGetData, opReconfig:
		element, none = 1, -1
	case opGetChildren, opGetChildren2:
		element = 4 // the length of a name
	case opGetACL:
		element = 12 // rights, and the lengths of scheme and id
	case opMulti:
		return checkMulti(body)
	default:
		return nil
	}
	if len(body) < 4 {
		return fmt.Errorf("%w: body of %d bytes", errFrame, len(body))
	}
	if n := int32At(body, 0); n < none || int(n) > (len(body)-4)/element {
		return fmt.Errorf("%w: %d elements in %d bytes", errFrame, n, len(body))
	}
	return nil
}

// checkMulti checks the results, each with a header of type, done and error.
func checkMulti(b []byte) error {
	const header, stat = 9, 68
	for at := 0; ; {
		if at+header > len(b) {
			return fmt.Errorf("%w: Multi without an end", errFrame)
		}
		op, done := int32At(b, at), b[at+4] != 0
		at += header
		if done {
			return nil
		}
		switch op {
		case opError:
			at += 4
		case opSetData:
			at += stat
		case opCreate:
			_, end, ok := stringAt(b, at)
			if !ok {
				return fmt.Errorf("%w: Multi with half a path", errFrame)
			}
			at = end
		case opDelete, opCheck:
		default:
			return nil // the decoder returns an error here
		}
	}
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

// codeError returns the client's error for a code.
func codeError(code int32) error {
	switch code {
	case 0:
		return nil
	case codeConnectionLoss:
		return zk.ErrConnectionClosed
	case -112:
		return zk.ErrSessionExpired
	case -118:
		return zk.ErrSessionMoved
	}
	return fmt.Errorf("unknown error: %d", code)
}
