package memzk

import (
	"fmt"
	"strings"
	"time"
)

const notServing = "This ZooKeeper instance is not currently serving requests\n"

func knownWord(w string) bool {
	switch w {
	case "ruok", "srvr", "mntr", "wchc", "wchp":
		return true
	}
	return false
}

// Word answers one of ZooKeeper's four letter words, as a connection to the member would: ruok,
// srvr, mntr, wchc, wchp. It returns an error for another word, and if the member is dead or paused.
func (m *Member) Word(w string) (string, error) {
	m.e.lock()
	defer m.e.unlock()
	switch {
	case !knownWord(w):
		return "", fmt.Errorf("memzk: %q is none of the words that are answered", w)
	case !m.alive:
		return "", fmt.Errorf("memzk: member %d is dead", m.id)
	case m.paused:
		return "", fmt.Errorf("memzk: member %d is paused", m.id)
	}
	return m.word(w), nil
}

// Zxid returns the zxid of the last transaction that the member has applied.
func (m *Member) Zxid() int64 {
	m.e.lock()
	defer m.e.unlock()
	return m.tree.zxid
}

// Mode returns standalone, leader, follower, looking (for a leader) or dead.
func (m *Member) Mode() string {
	m.e.lock()
	defer m.e.unlock()
	switch {
	case !m.alive:
		return "dead"
	case m.role == looking:
		return "looking"
	}
	return m.mode()
}

// Nodes returns all nodes that the member shows, like Ensemble.Nodes.
func (m *Member) Nodes() map[string]int64 {
	m.e.lock()
	defer m.e.unlock()
	return m.tree.owners()
}

func (w *watchTable) size() int {
	n := 0
	for _, list := range w.paths {
		n += len(list)
	}
	return n
}

func (m *Member) mode() string {
	switch {
	case len(m.e.members) == 1:
		return "standalone"
	case m.role == leading:
		return "leader"
	}
	return "follower"
}

func (m *Member) word(w string) string {
	if w == "ruok" {
		return "imok"
	}
	if !m.serves() {
		return notServing
	}
	var b strings.Builder
	switch w {
	case "srvr":
		fmt.Fprintf(&b, "Zookeeper version: %s-memzk, built on nothing\n", m.e.cfg.Version)
		fmt.Fprintf(&b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n",
			m.packetsIn, m.packetsOut, len(m.conns), m.outstanding())
		fmt.Fprintf(&b, "Zxid: 0x%x\nMode: %s\nNode count: %d\n", m.tree.zxid, m.mode(), len(m.tree.nodes))
	case "mntr":
		m.monitor(&b)
	case "wchc":
		for _, c := range m.connections() {
			if len(c.dataPaths) > 0 {
				fmt.Fprintf(&b, "0x%x\n\t%s\n", uint64(c.session), strings.Join(sortedKeys(c.dataPaths), "\n\t"))
			}
		}
		b.WriteString("\n")
	case "wchp":
		for _, path := range sortedKeys(m.watches.data.paths) {
			fmt.Fprintf(&b, "%s\n", path)
			for _, e := range m.watches.data.paths[path] {
				fmt.Fprintf(&b, "\t0x%x\n", uint64(e.c.session))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (m *Member) outstanding() int {
	n := len(m.stalled)
	for c := range m.conns {
		n += len(c.queue) - c.head
	}
	return n
}

func (m *Member) monitor(b *strings.Builder) {
	ephemerals := 0
	for _, list := range m.tree.ephemerals {
		ephemerals += len(list)
	}
	line := func(key string, value any) { fmt.Fprintf(b, "zk_%s\t%v\n", key, value) }
	line("version", m.e.cfg.Version+"-memzk, built on nothing")
	line("server_state", m.mode())
	line("ephemerals_count", ephemerals)
	line("num_alive_connections", len(m.conns))
	line("outstanding_requests", m.outstanding())
	line("znode_count", len(m.tree.nodes))
	line("global_sessions", len(m.tree.sessions))
	line("packets_received", m.packetsIn)
	line("packets_sent", m.packetsOut)
	line("watch_count", m.watches.data.size()+m.watches.child.size())
	line("uptime", time.Since(m.started).Milliseconds())
	if m.role == leading && len(m.e.members) > 1 {
		line("learners", len(m.followers))
		line("synced_followers", len(m.followers))
	}
}
