package wire

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-zookeeper/zk"
)

// SetServers is zklocks.Conn.SetServers.
//
// A connection to a server that remains moves only if a server chosen at random is new. So of many
// clients the share moves that gives each server as many, as in ZooKeeper's Java client.
func (c *Conn) SetServers(servers []string) error {
	addresses, err := Addresses(servers)
	if err != nil {
		return err
	}
	c.moving <- struct{}{}
	defer func() { <-c.moving }()
	if c.IsClosed() {
		return zk.ErrClosing
	}
	old := c.Servers()
	c.hosts.given.Store(&addresses)
	at := c.server()
	if at == "" { // the next attempt takes the new servers
		return nil
	}
	others := shuffled(addresses)
	if slices.Contains(addresses, at) {
		if others = others[:1]; slices.Contains(old, others[0]) {
			return nil
		}
	}
	for _, server := range others {
		if c.moves.Err() != nil || c.move(server) {
			break
		}
	}
	return nil
}

// Rebalance is zklocks.Conn.Rebalance.
func (c *Conn) Rebalance() {
	c.moving <- struct{}{}
	defer func() { <-c.moving }()
	if pick := shuffled(c.Servers())[0]; c.server() != "" && pick != c.server() {
		c.move(pick)
	}
}

// server returns the server of the present connection, as it was given; "": none.
func (c *Conn) server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, err := c.in(AnySession); err == nil {
		return p.server
	}
	return ""
}

// move opens a connection to another server and then ends the present connection. go-zookeeper
// reconnects at once, and its dialer returns the new connection. If the server cannot be reached,
// or the present connection fails meanwhile, nothing changes, and move returns false. Otherwise it
// returns when go-zookeeper has reconnected.
//
// The locks' requests keep their order. From leave on they wait in the queue of the old connection,
// and those that were sent are answered, for T/4: a server whose answers take longer keeps no hold
// anyway. When the old connection ends, each request that is left fails as after a lost connection:
// an attempt sends it again, on the new connection, or searches for what it may have done. The handshake states the last zxid that was read, so the new
// server shows no older data.
func (c *Conn) move(server string) bool {
	sasl, err := c.startSASL(c.moves, server)
	var next *packetConn
	if err == nil {
		next, err = c.open(c.moves, "tcp", server, server, longestTry, sasl)
	}
	if err != nil {
		if c.moves.Err() == nil {
			c.Printf("zklocks: not moved to %s: %s", server, strings.TrimPrefix(err.Error(), server+": "))
		}
		return false
	}
	c.mu.Lock()
	p, err := c.in(AnySession)
	if err != nil || c.IsClosed() {
		c.mu.Unlock()
		next.Conn.Close()
		return false
	}
	c.next = next
	drained := p.leave()
	c.mu.Unlock()
	limit := time.NewTimer(c.Timeout() / 4)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
	case <-c.quit.Done():
	}
	p.Close()
	limit.Reset(longestTry)
	for changed := c.Changed(); c.server() != server; changed = c.Changed() {
		select {
		case <-changed:
		case <-limit.C: // the new connection has failed, too
			return true
		case <-c.quit.Done():
			return true
		}
	}
	return true
}

// configNode has the ensemble's dynamic configuration.
const configNode = "/zookeeper/config"

// scatter bounds the random time that a client waits before it follows a change of the
// configuration. Otherwise all clients of an ensemble would move at one instant.
const scatter = 5 * time.Second

// longestPause is between two tries to read a configuration that the client may not read.
const longestPause = 5 * time.Minute

// followEnsemble keeps the servers as the ensemble's dynamic configuration has them, until the Conn
// is closed.
func (c *Conn) followEnsemble() {
	pause := scatter
	for c.quit.Err() == nil {
		changed := c.Changed()
		w, err := c.WatchData(c.quit, AnySession, configNode)
		switch {
		case err == nil:
			pause = scatter
			if c.follow(string(w.Data)) {
				continue // it may have changed meanwhile
			}
			Wait(c.quit, nil, w)
			continue
		case err == zk.ErrNoAuth || err == zk.ErrNoNode:
			c.explain(err)
			pause = min(2*pause, longestPause)
		}
		select {
		case <-changed:
		case <-time.After(pause):
		case <-c.quit.Done():
		}
	}
}

// follow takes over the servers of a configuration. It reports whether they have changed.
func (c *Conn) follow(text string) bool {
	servers, err := parseConfig(text, c.tls != nil, c.isLocal())
	if err != nil {
		c.explain(err)
		return false
	}
	if slices.Equal(slices.Sorted(slices.Values(c.Servers())), servers) {
		return false
	}
	if sleep(c.quit, rand.N(scatter)) != nil {
		return true
	}
	if err := c.SetServers(servers); err != nil && c.quit.Err() == nil {
		c.explain(err)
		return false
	}
	return true
}

// explain logs why the servers remain as they are.
func (c *Conn) explain(err error) {
	c.Printf("zklocks: %s: %v; the servers remain %s", configNode, err, strings.Join(c.Servers(), ", "))
}

// isLocal reports whether the present connection uses an address that onlyLocal describes.
func (c *Conn) isLocal() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.in(AnySession)
	if err != nil {
		return false
	}
	host, _, _ := net.SplitHostPort(p.address)
	return onlyLocal(host)
}

// onlyLocal reports whether a host is another machine for each machine or network that uses the
// address: loopback, link-local, and names of the machine itself.
func onlyLocal(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback() || ip.Unmap().IsLinkLocalUnicast()
	}
	if strings.Trim(host, "0123456789.") == "" { // such as 127.1, which some resolvers accept
		return true
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	first, _, _ := strings.Cut(host, ".")
	return slices.Contains([]string{"localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"}, first) ||
		strings.HasSuffix(host, ".localhost")
}

// parseConfig returns the sorted addresses for clients in a configuration:
//
//	server.1=zk1:2888:3888:participant;0.0.0.0:2181;0.0.0.0:2281
//
// The second address is for TLS. If the address is a wildcard or only a port, the host is the host
// of the quorum address.
//
// It is an error if a server has no such address, as in a static configuration, or if clients would
// reach another machine by the address than the members do. Then no server is taken from the
// configuration: a client that left out the server would never reach it, and a client that used the
// address could lock in another ensemble, on its own machine. local means that the client has
// reached a member by such an address itself, so it is on the members' machine.
func parseConfig(text string, secure, local bool) (servers []string, err error) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !strings.HasPrefix(key, "server.") {
			continue
		}
		parts := strings.Split(value, ";")
		at := 1
		if secure {
			at = 2
		}
		if len(parts) <= at || parts[at] == "" {
			kind := "client port"
			if secure {
				kind = "secure client port"
			}
			return nil, fmt.Errorf("%s has no %s", key, kind)
		}
		host, port, err := net.SplitHostPort(parts[at])
		if err != nil {
			host, port = "", parts[at]
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = quorumHost(parts[0])
		}
		ip, _ := netip.ParseAddr(host)
		if ip.WithZone("").Unmap().IsUnspecified() || onlyLocal(host) && !local {
			return nil, fmt.Errorf("%s has the address %.*q, which is another machine for each client: "+
				"write a name or an address that all clients can use, as in %[1]s=zk.example.com:2888:3888;2181", key, maxHost, host)
		}
		servers = append(servers, net.JoinHostPort(host, port))
	}
	if servers == nil { // a standalone server
		return nil, errors.New("it lists no servers")
	}
	if servers, err = Addresses(servers); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "zklocks: "))
	}
	slices.Sort(servers)
	return servers, nil
}

// quorumHost returns the host of "host:2888:3888:participant", or of the first of several addresses
// that are separated by |.
func quorumHost(quorum string) string {
	if rest, ok := strings.CutPrefix(quorum, "["); ok {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(quorum, ":")
	return host
}

// WithServersFromEnsemble is zklocks.WithServersFromEnsemble.
func WithServersFromEnsemble() Option { return func(s *settings) { s.follow = true } }

// maxHost is the length of the longest name, with a dot at its end.
const maxHost = 254

// Addresses returns the servers with their ports. The error quotes the first invalid server.
func Addresses(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, errors.New("zklocks: no servers given")
	}
	addresses := make([]string, 0, len(servers))
	for _, s := range servers {
		switch {
		case s == "":
			return nil, errors.New("zklocks: an address is empty")
		case strings.Contains(s, "@"): // the error does not quote s, which may have a password
			return nil, errors.New("zklocks: an address has an @ in it: credentials belong into WithDigestAuth")
		case strings.ContainsAny(s, ",/"):
			return nil, fmt.Errorf("zklocks: address %.*q is a connect string: ParseServers splits it", maxHost, s)
		}
		address := s
		if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") || !strings.Contains(s, ":") { // an IPv6 address has brackets
			address = s + ":" + strconv.Itoa(zk.DefaultPort)
		}
		host, port, err := net.SplitHostPort(address)
		var wrong *net.AddrError
		if errors.As(err, &wrong) { // wrong.Addr may be long
			return nil, fmt.Errorf("zklocks: address %.*q: %s", maxHost, s, wrong.Err)
		}
		// A name with such characters would fail at each lookup, until the caller's ctx is
		// canceled.
		odd := strings.ContainsFunc(host, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._:%", r)
		})
		n, err := strconv.ParseUint(port, 10, 32)
		switch {
		case host == "" || len(host) > maxHost || odd || errors.Is(err, strconv.ErrSyntax):
			return nil, fmt.Errorf("zklocks: address %.*q: want host or host:port", maxHost, s)
		case err != nil || n == 0 || n > math.MaxUint16:
			return nil, fmt.Errorf("zklocks: address %.*q: ports are 1 to 65535", maxHost, s)
		}
		if !slices.Contains(addresses, address) { // or go-zookeeper would try it twice as often
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}
