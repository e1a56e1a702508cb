package proxy

import (
	"encoding/binary"

	"github.com/zklocks/zklocks/internal/jute"
)

const (
	codeUnknown = 999 // a kind of request that no server knows

	headOfMulti = 8 + 9 // bytes before its first operation
	endOfMulti  = 9     // bytes after its last operation
)

// HideContainers makes the server answer a request for a container node like a server before 3.5.1;
// no setting of a newer server does that. An old server refuses such a request as unknown and
// closes the connection, so the request gets a number that no server knows. It refuses a create in
// a Multi with the flags of a container as having invalid arguments, so the create gets an invalid
// path. (If the parent is missing, too, an old server reports that instead.)
func (p *Proxy) HideContainers() { p.hideContainers.Store(true) }

// aged changes a request for HideContainers.
func (p *Proxy) aged(r Request, body []byte) {
	if !p.hideContainers.Load() || r.Op != MkdirOp {
		return
	}
	switch int32(binary.BigEndian.Uint32(body[4:])) {
	case jute.OpCreateContainer:
		binary.BigEndian.PutUint32(body[4:], codeUnknown)
	case jute.OpMulti:
		if len(r.Paths) != 1 {
			return // the library creates one at a time
		}
		if flags := body[len(body)-endOfMulti-4:]; int32(binary.BigEndian.Uint32(flags)) == jute.FlagContainer {
			body[headOfMulti+4+len(r.Paths[0])-1] = 0 // the last character of the path
		}
	}
}
