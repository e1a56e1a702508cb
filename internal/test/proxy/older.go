package proxy

import "encoding/binary"

const (
	codeUnknown = 999 // a kind of request that no server knows

	flagContainer = 4
	headOfMulti   = 8 + 9 // bytes before its first operation
	endOfMulti    = 9     // and behind its last one
)

// HideContainers has the server answer a request for a container node as servers before 3.5.1 do.
// There is no setting by which a newer one does. To a request of its own kind an old server says
// that it does not know it, and closes the connection; so it gets a number that no server knows. To
// a create in a Multi, of which the flags say that it is to be a container, an old server says that
// its arguments are invalid; so it gets a path that is. (If the parent is missing, too, an old
// server says that and not this.)
func (p *Proxy) HideContainers() { p.hideContainers.Store(true) }

// aged changes a packet as the Proxy's age wants it.
func (p *Proxy) aged(r Request, body []byte) {
	if !p.hideContainers.Load() || r.Op != MkdirOp {
		return
	}
	switch binary.BigEndian.Uint32(body[4:]) {
	case codeCreateContainer:
		binary.BigEndian.PutUint32(body[4:], codeUnknown)
	case codeMulti:
		if len(r.Paths) != 1 {
			return // the library makes one at a time
		}
		if flags := body[len(body)-endOfMulti-4:]; binary.BigEndian.Uint32(flags) == flagContainer {
			body[headOfMulti+4+len(r.Paths[0])-1] = 0 // the last character of the path
		}
	}
}
