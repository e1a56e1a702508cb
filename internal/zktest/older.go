package zktest

import "encoding/binary"

// codeUnknown is a kind of request that no server knows.
const codeUnknown = 999

// HideContainers has the server answer a request for a container node as servers
// before 3.5.1 do: it does not know that kind of request, says so and closes the
// connection. There is no setting by which a newer one does; so the request gets
// the number of one that none knows.
func (p *Proxy) HideContainers() { p.hideContainers.Store(true) }

// aged changes a packet as the Proxy's age wants it.
func (p *Proxy) aged(r Request, body []byte) {
	if p.hideContainers.Load() && r.Op == MkdirOp && binary.BigEndian.Uint32(body[4:]) == codeCreateContainer {
		binary.BigEndian.PutUint32(body[4:], codeUnknown)
	}
}
