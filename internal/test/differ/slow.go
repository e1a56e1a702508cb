package differ

import (
	"math/rand/v2"
	"slices"
)

// ShortSession is the timeout, in milliseconds, of the session that expires in sequences of
// GenerateLapse. It is far longer than a step, so that the session does not expire early on a busy
// machine.
const ShortSession = 700

// GenerateLapse returns a sequence in which a session expires: after silence, or after a cut.
func GenerateLapse(seed, number int64) Sequence {
	g := newGenerator(seed, number)
	g.conns = 2 + g.IntN(maxConns-1)
	g.theme = themes[g.IntN(len(themes))]
	var q Sequence
	for conn := range g.conns {
		q = append(q, Step{Conn: conn, Verb: "connect"})
	}
	q[0].Timeout = ShortSession
	steps := func(n int) {
		for range n {
			s := g.step()
			// No other connection has that session's timeout, and each session keeps its
			// connection.
			if s.Verb == "cut" || s.Verb == "unknown" || s.Verb == "connect" || s.mentions(func(s Step) bool { return s.Verb == "close" }) {
				s = g.one(s.Conn, g.pick("exists", "getData", "getChildren"))
				s.Watch = true
			}
			q = append(q, s)
		}
	}
	steps(4 + g.IntN(8))
	for range 1 + g.IntN(3) {
		s := Step{Conn: 0, Verb: "create", Flags: int32(1 + 2*g.IntN(2))}
		if g.path(&s); s.Literal || s.Path == "/" {
			s.Path, s.Literal = "/a", false
		}
		q = append(q, s)
		// The watches that its end fires.
		w := Step{Conn: g.IntN(g.conns), Verb: g.pick("exists", "getData", "getChildren2"), Path: s.Path, Watch: true}
		q = append(q, w)
	}
	steps(g.IntN(4))
	if g.IntN(3) == 0 {
		q = append(q, Step{Conn: 0, Verb: "cut"})
	}
	q = append(q, Step{Conn: 0, Verb: "lapse"})
	steps(2 + g.IntN(4))
	// Its client reconnects.
	q = append(q, Step{Conn: 0, Verb: "connect", Of: 1})
	if g.IntN(2) == 0 {
		q = append(q, Step{Conn: 0, Verb: "connect"}, Step{Conn: 0, Verb: "getEphemerals", Path: "/"})
	}
	return q
}

// GenerateSweep returns a sequence in which containers and nodes with a time to live are deleted.
// Until the step that waits for that, no container is empty that has had a child.
func GenerateSweep(seed, number int64) Sequence {
	g := newGenerator(seed, number)
	q := Sequence{{Conn: 0, Verb: "connect"}, {Conn: 1, Verb: "connect"}}
	add := func(s Step) { q = append(q, s) }
	container := Step{Conn: 0, Verb: "createContainer", Path: "/a", Flags: 4, ACL: g.acl()}
	if g.IntN(3) == 0 {
		container = Step{Conn: 0, Verb: "multi", Ops: []Step{container}}
	}
	add(container)
	if g.IntN(2) == 0 {
		add(Step{Conn: 0, Verb: "createContainer", Path: "/never", Flags: 4})
	}
	var leave []Step
	for i := range 1 + g.IntN(3) {
		s := Step{Conn: 0, Verb: "create", Path: []string{"/a/x", "/a/y", "/a/z"}[i]}
		if g.IntN(4) == 0 {
			s.Flags = 1
		}
		add(s)
		leave = append(leave, Step{Verb: "delete", Path: s.Path, Version: -1})
	}
	nested := g.IntN(3) == 0
	if nested {
		add(Step{Conn: 0, Verb: "createContainer", Path: "/a/c", Flags: 4})
		add(Step{Conn: 0, Verb: "create", Path: "/a/c/x"})
		leave = append(leave, Step{Verb: "delete", Path: "/a/c/x", Version: -1})
	}
	for range g.IntN(6) {
		add(Step{Conn: g.IntN(2), Verb: g.pick("exists", "getData", "getChildren"), Path: g.pick("/", "/a", "/a/c", "/never", "/t"), Watch: true})
	}
	if g.IntN(3) == 0 {
		add(Step{Conn: g.IntN(2), Verb: "addWatch", Path: g.pick("/", "/a"), Kind: int32(g.IntN(2))})
	}
	gone := "/a"
	if g.IntN(4) == 0 {
		leave, gone = slices.Delete(leave, 0, 1), "" // then the container remains
	}
	if g.IntN(3) == 0 {
		leave = []Step{{Verb: "multi", Ops: leave}}
	}
	add(Step{Conn: 0, Verb: "sweep", Path: gone, Ops: leave})
	for _, path := range []string{"/", "/a", "/never"} {
		add(Step{Conn: g.IntN(2), Verb: g.pick("exists", "getChildren2"), Path: path})
	}
	// One node at a time: a sweep deletes several in random order.
	if g.IntN(2) == 0 {
		add(Step{Conn: 0, Verb: "sweep", Path: "/t", Ops: []Step{{Verb: "createTTL", Path: "/t", Flags: 5, TTL: 1}}})
		add(Step{Conn: 1, Verb: "getChildren2", Path: "/"})
	}
	if g.IntN(3) == 0 {
		// A node that exists while it has a child.
		add(Step{Conn: 0, Verb: "sweep", Ops: []Step{{Verb: "multi", Ops: []Step{
			{Verb: "createTTL", Path: "/u", Flags: 5, TTL: 1}, {Verb: "create", Path: "/u/x"},
		}}}})
		add(Step{Conn: 0, Verb: "sweep", Path: "/u", Ops: []Step{{Verb: "delete", Path: "/u/x", Version: -1}}})
		add(Step{Conn: 0, Verb: "exists", Path: "/u"})
	}
	return q
}

func newGenerator(seed, number int64) *generator {
	return &generator{
		Rand:      rand.New(rand.NewPCG(uint64(seed), uint64(number))),
		creates:   map[string]int{},
		childless: map[string]bool{},
	}
}
