package memzk

import (
	"maps"
	"slices"

	"github.com/zklocks/zklocks/internal/jute"
)

// configPath is the node that shows the ensemble's configuration to clients.
const configPath = "/zookeeper/config"

// votes reports whether the member belongs to the configuration.
func (m *Member) votes() bool { return !m.removed }

// voters returns the members that belong to the configuration, by number.
func (e *Ensemble) voters() []*Member {
	return slices.DeleteFunc(slices.Clone(e.members), func(m *Member) bool { return m.removed })
}

// support returns how many members of the configuration follow this leader, itself included.
func (m *Member) support() (n int) {
	for f := range m.followers {
		if f.votes() {
			n++
		}
	}
	if m.votes() {
		n++
	}
	return n
}

// Add adds a member that has all data and follows the leader, as a reconfiguration of ZooKeeper
// does. It returns nil if the ensemble is a standalone server, or has no leader with a majority.
func (e *Ensemble) Add() *Member {
	e.lock()
	defer e.unlock()
	l := e.usableLeader()
	if e.stopped || len(e.members) == 1 || l == nil || !l.hasQuorum() {
		return nil
	}
	m := e.newMember(len(e.members) + 1)
	m.tree, m.applied, m.received = l.tree.clone(), l.applied, l.received
	m.tree.watches = m.watches
	e.members = append(e.members, m)
	m.join(l)
	l.writeConfig()
	return m
}

// Remove takes a member out of the configuration, as a reconfiguration of ZooKeeper does: it has no
// vote. It follows a leader and serves clients until its process ends, and then never again. If it
// leads, the others elect another leader, which it follows. Remove returns false if the members that remain
// could not elect a leader that has all data: no majority of them follows the present leader.
func (e *Ensemble) Remove(m *Member) bool {
	e.lock()
	defer e.unlock()
	l := e.usableLeader()
	if e.stopped || m.e != e || m.removed || l == nil || len(e.voters()) == 1 || !l.hasQuorum() {
		return false
	}
	m.removed = true
	if !l.hasQuorum() {
		m.removed = false
		return false
	}
	l.writeConfig()
	if m == l {
		m.leave()
	}
	for _, o := range e.members {
		o.watchQuorum()
	}
	return true
}

// writeConfig writes the configuration into its node.
func (m *Member) writeConfig() {
	n := m.tree.nodes[configPath]
	data := m.e.config(m.zxid + 1)
	m.commit(&txn{kind: jute.OpSetData, path: configPath, data: data, version: n.version + 1}, nil)
}

// config returns the text of the present configuration.
func (e *Ensemble) config(version int64) []byte {
	if e.cfg.Describe == nil {
		return []byte{}
	}
	var ids []int
	for _, m := range e.voters() {
		ids = append(ids, m.id)
	}
	return []byte(e.cfg.Describe(ids, version))
}

// clone returns a copy that shares no node with t. It has no watches.
func (t *tree) clone() *tree {
	c := &tree{
		nodes:      make(map[string]*node, len(t.nodes)),
		ephemerals: make(map[int64][]*node, len(t.ephemerals)),
		containers: make(map[string]*node, len(t.containers)),
		sessions:   maps.Clone(t.sessions),
		zxid:       t.zxid,
	}
	c.root = c.copy(t.root, nil)
	c.nodes[""] = c.root
	for session, list := range t.ephemerals {
		for _, n := range list {
			c.ephemerals[session] = append(c.ephemerals[session], c.nodes[n.path])
		}
	}
	for path := range t.containers {
		c.containers[path] = c.nodes[path]
	}
	return c
}

// copy copies a node and all nodes below it.
func (t *tree) copy(n, parent *node) *node {
	c := *n
	c.parent, c.children = parent, make([]*node, 0, len(n.children))
	for _, child := range n.children {
		c.children = append(c.children, t.copy(child, &c))
	}
	t.nodes[c.path] = &c
	return &c
}
