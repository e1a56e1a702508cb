package wire

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

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
			c.follow(string(w.Data))
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

// follow takes over the servers of a configuration.
func (c *Conn) follow(text string) {
	local := false
	if p := c.running(); p != nil {
		host, _, _ := net.SplitHostPort(p.address)
		local = onlyLocal(host)
	}
	servers, err := parseConfig(text, c.tls != nil, local)
	if err == nil && !slices.Equal(slices.Sorted(slices.Values(c.Servers())), servers) && sleep(c.quit, rand.N(scatter)) == nil {
		err = c.SetServers(servers)
	}
	if err != nil {
		c.explain(err)
	}
}

// explain logs why the servers remain as they are.
func (c *Conn) explain(err error) {
	c.Printf("zklocks: %s: %v; the servers remain %s", configNode, err, strings.Join(c.Servers(), ", "))
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
	at, kind := 1, "client port"
	if secure {
		at, kind = 2, "secure client port"
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !strings.HasPrefix(key, "server.") {
			continue
		}
		parts := strings.Split(value, ";")
		if len(parts) <= at || parts[at] == "" {
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
