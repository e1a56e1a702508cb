package realzk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/zklocks/zklocks/internal/test/proxy"
)

// link is one member's connections to another: to its quorum port, for the leader's packets, and to
// its election port, for votes.
type link struct {
	from, to         int // ids
	quorum, election *proxy.Proxy
}

// newLinks makes the links between all members, which listen on these ports.
func newLinks(quorum, election []int) ([]*link, error) {
	var links []*link
	back := make(map[[2]int]*link)
	for from := range quorum {
		for to := range quorum {
			if from == to {
				continue
			}
			q, err := proxy.NewBytes(fmt.Sprintf("%s:%d", proxy.Host, quorum[to]))
			if err != nil {
				closeLinks(links)
				return nil, err
			}
			l := &link{from: from + 1, to: to + 1, quorum: q}
			links = append(links, l)
			if l.election, err = proxy.NewBytes(fmt.Sprintf("%s:%d", proxy.Host, election[to])); err != nil {
				closeLinks(links)
				return nil, err
			}
			back[[2]int{l.to, l.from}] = l
		}
	}
	for _, l := range links {
		addr := back[[2]int{l.from, l.to}].election.Addr()
		l.election.OnGreeting(func(from io.Reader) ([]byte, error) { return readdress(from, addr) })
	}
	return links, nil
}

func closeLinks(links []*link) {
	for _, l := range links {
		l.close()
	}
}

func (l *link) close() {
	l.quorum.Close()
	if l.election != nil {
		l.election.Close()
	}
}

// readdress rewrites the first message on an election connection, in which the caller sends the
// address where it listens. A member with a larger id closes the connection and connects to that
// address, which would bypass our proxy. ZooKeeper 3.4 sends only its id; the other member then
// connects to the address in its zoo.cfg, which is a proxy.
func readdress(from io.Reader, addr string) ([]byte, error) {
	const head = 8 + 8 + 4 // protocol version (negative), id, length of the address
	message := make([]byte, head)
	if _, err := io.ReadFull(from, message[:8]); err != nil {
		return nil, err
	}
	if id := int64(binary.BigEndian.Uint64(message)); id >= 0 {
		return message[:8], nil
	}
	if _, err := io.ReadFull(from, message[8:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(message[head-4:])
	if n > 1<<10 {
		return nil, errors.New("realzk: no election greeting")
	}
	if _, err := io.CopyN(io.Discard, from, int64(n)); err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint32(message[head-4:], uint32(len(addr)))
	return append(message, addr...), nil
}

// Isolate drops all packets between s and the other members: no connection is closed, and each side
// detects that after syncLimit ticks (2 s). Clients still reach s. The ensemble needs
// Options.Partitions.
func (e *Ensemble) Isolate(s *Server) error {
	if len(e.links) == 0 {
		return errors.New("realzk: isolate: the ensemble was started without Options.Partitions")
	}
	for _, l := range e.links {
		if l.from == s.id || l.to == s.id {
			l.quorum.Mute()
			l.election.Mute()
		}
	}
	return nil
}

func (e *Ensemble) Heal() {
	for _, l := range e.links {
		l.quorum.Unmute()
		l.election.Unmute()
	}
}

func port(p *proxy.Proxy) string {
	_, port, _ := net.SplitHostPort(p.Addr())
	return port
}
