package differ

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// Generate returns a random sequence. It depends on the seed and the number only.
func Generate(seed, number int64) Sequence {
	g := &generator{Rand: rand.New(rand.NewPCG(uint64(seed), uint64(number))), creates: map[string]int{}}
	g.conns = 1 + g.IntN(maxConns)
	g.theme = themes[g.IntN(len(themes))]
	length := 5 + g.IntN(40)
	var q Sequence
	for conn := range g.conns {
		q = append(q, g.connect(conn, 0))
		if g.theme.auth && g.IntN(2) == 0 {
			q = append(q, g.authenticate(conn))
		}
	}
	for len(q) < length {
		q = append(q, g.step())
	}
	return q
}

// generator guesses which nodes exist, so that most steps find something. It does not read them:
// failures must be compared, too, and the sequence must be the same for all servers.
type generator struct {
	*rand.Rand
	conns   int
	theme   theme
	nodes   []string       // that may exist
	watched []string       // that may have a watch
	creates map[string]int // number of creates below each parent
	closed  [maxConns]bool // connections that have ended
	writes  int            // zxids that were taken
}

var plainPath = regexp.MustCompile(`^(/[-a-z0-9]+)+$`)

// created records a create that probably succeeds.
func (g *generator) created(s Step) {
	path, parent := s.Path, s.Path[:max(0, strings.LastIndexByte(s.Path, '/'))]
	if s.sequential() {
		path += fmt.Sprintf("%010d", g.creates[parent])
	}
	if !s.Literal && plainPath.MatchString(path) && !slices.Contains(g.nodes, path) &&
		(parent == "" || slices.Contains(g.nodes, parent)) {
		g.creates[parent]++
		g.nodes = append(g.nodes, path)
	}
}

// sequential reports whether the server appends a number to the path of a create.
func (s Step) sequential() bool { return s.Flags == 2 || s.Flags == 3 }

// deleted records a delete that probably succeeds.
func (g *generator) deleted(s Step) {
	below := func(path string) bool { return strings.HasPrefix(path, s.Path+"/") }
	if (s.Version == 0 || s.Version == -1) && !slices.ContainsFunc(g.nodes, below) {
		g.nodes = slices.DeleteFunc(g.nodes, func(path string) bool { return path == s.Path })
	}
}

// theme is the main subject of a sequence. The numbers are weights.
type theme struct {
	auth  bool // restricted ACLs, and clients that authenticate
	verbs map[string]int
	// bad is the percentage of invalid paths, burst the percentage of bursts.
	bad, burst int
}

// usual are the weights of all themes. A theme adds to them.
var usual = map[string]int{
	"create": 20, "create2": 6, "createContainer": 3, "delete": 12, "exists": 6, "getData": 6,
	"setData": 8, "getACL": 2, "setACL": 2, "getChildren": 4, "getChildren2": 5, "sync": 2, "ping": 1, "check": 1,
	"multi": 6, "reconfig": 1, "checkWatches": 2, "removeWatches": 2, "setWatches": 2, "setWatches2": 1,
	"addWatch": 2, "auth": 1, "close": 1, "connect": 3, "cut": 1, "unknown": 1,
}

var themes = []theme{
	{bad: 3, burst: 5}, // everything
	{bad: 1, burst: 5, verbs: map[string]int{
		"exists": 20, "getData": 15, "getChildren": 10, "getChildren2": 10, "checkWatches": 8, "removeWatches": 8, "setWatches": 8,
		"setWatches2": 6, "addWatch": 8, "setData": 10, "delete": 15, "create": 15, "multi": 6, "connect": 4,
	}},
	{auth: true, bad: 2, burst: 5, verbs: map[string]int{
		"create": 30, "getACL": 12, "setACL": 15, "auth": 6, "exists": 10, "getData": 10, "getChildren2": 16, "multi": 8,
		"setData": 15, "delete": 15,
	}},
	{bad: 2, burst: 5, verbs: map[string]int{"multi": 60}},
	{bad: 1, burst: 2, verbs: map[string]int{
		"connect": 25, "close": 5, "cut": 6, "create": 10, "setWatches": 6, "exists": 8,
	}},
	{bad: 1, burst: 5, verbs: map[string]int{
		"create": 30, "create2": 20, "createContainer": 15, "delete": 10, "getChildren2": 6,
	}},
	{bad: 40, burst: 2}, // paths
	{bad: 2, burst: 60}, // bursts
}

func (g *generator) step() Step {
	conn := g.IntN(g.conns)
	switch {
	case g.closed[conn] && g.IntN(5) > 0:
		return g.one(conn, "connect")
	case g.IntN(100) < g.theme.burst:
		return g.burst(conn)
	default:
		return g.one(conn, g.verb())
	}
}

// verb draws a verb that is not among those.
func (g *generator) verb(but ...string) string {
	var tickets []string
	for _, name := range slices.Sorted(maps.Keys(usual)) { // a seed must always make the same sequence
		if !slices.Contains(but, name) {
			tickets = append(tickets, slices.Repeat([]string{name}, usual[name]+g.theme.verbs[name])...)
		}
	}
	return g.pick(tickets...)
}

// burst: requests that the server handles out of order (auth) or that end the connection may only
// be last, because the position of their reply among the others is random.
func (g *generator) burst(conn int) Step {
	s := Step{Conn: conn, Verb: "burst"}
	if g.IntN(20) == 0 {
		s.Ops = append(s.Ops, g.inner(g.authenticate(conn)))
	}
	for range 2 + g.IntN(10) {
		s.Ops = append(s.Ops, g.inner(g.one(conn, g.verb("connect", "cut", "close", "auth", "unknown", "check", "setACL"))))
	}
	switch g.IntN(15) {
	case 0:
		s.Ops = append(s.Ops, g.inner(g.one(conn, "close")))
	case 1:
		// Last, too: until the setACL is applied, Java checks writes by the old ACL.
		s.Ops = append(s.Ops, g.inner(g.one(conn, "setACL")))
	}
	return s
}

// inner is a step inside another. A packet that is too long would end the connection at a random
// time relative to the requests before it.
func (g *generator) inner(s Step) Step {
	s.Conn = 0
	s.Size = min(s.Size, 100000)
	return s
}

func (g *generator) one(conn int, verb string) Step {
	s := Step{Conn: conn, Verb: verb}
	if s.writes() {
		g.writes++
	}
	switch verb {
	case "connect":
		of := 0
		if g.IntN(4) > 0 {
			of = 1 + g.IntN(g.conns)
		}
		return g.connect(conn, of)
	case "auth":
		return g.authenticate(conn)
	case "create", "create2", "createContainer":
		g.create(&s)
	case "multi":
		nodes := slices.Clone(g.nodes)
		for range g.few() {
			s.Ops = append(s.Ops, g.inner(g.one(conn, g.writeOp())))
		}
		if len(s.Ops) > 2 {
			g.nodes = nodes // most of these operations fail
		}
	case "delete", "setData", "check":
		g.path(&s)
		s.Version = g.version()
		switch verb {
		case "setData":
			g.data(&s)
		case "delete":
			g.deleted(s)
		}
	case "setACL":
		g.path(&s)
		s.Version = g.version()
		s.ACL = g.acl()
	case "exists", "getData", "getChildren", "getChildren2":
		g.path(&s)
		if s.Watch = g.IntN(2) == 0; s.Watch && !s.Literal {
			g.watched = append(g.watched, s.Path)
		}
	case "getACL", "sync":
		g.path(&s)
	case "checkWatches", "removeWatches":
		g.path(&s)
		if len(g.watched) > 0 && g.IntN(4) > 0 {
			s.Path, s.Literal = g.watched[g.IntN(len(g.watched))], false
		}
		if s.Literal && !strings.HasPrefix(s.Path, "/") {
			s.Path = "/" // 3.8 fails on a path without a slash, which no client sends
		}
		s.Kind = int32(1 + g.IntN(3))
		if g.IntN(10) == 0 {
			s.Kind = int32(g.IntN(8)) - 1
		}
	case "reconfig":
		s.Path, s.Version = g.pick("", "2"), -1
	case "addWatch":
		g.path(&s)
		if !s.Literal {
			g.watched = append(g.watched, s.Path)
		}
		s.Kind = int32(g.IntN(2))
		if g.IntN(15) == 0 {
			s.Kind = int32(g.IntN(5)) - 1
		}
	case "setWatches", "setWatches2":
		s.Zxid = g.zxid()
		s.DataW, s.Exist, s.Child = g.paths(), g.paths(), g.paths()
		if verb == "setWatches2" {
			s.Persist, s.Recursive = g.paths(), g.paths()
		}
	case "unknown":
		s.Code = g.code()
		g.closed[conn] = true
	case "cut", "close":
		g.closed[conn] = true
	}
	return s
}

// zxid returns a zxid near the present one, counted from the creation of the root.
func (g *generator) zxid() int64 {
	if g.IntN(4) == 0 {
		return int64(g.IntN(40)) - 1
	}
	return int64(g.IntN(g.writes + 3))
}

func (g *generator) few() int {
	if g.IntN(20) == 0 {
		return 0
	}
	return 1 + min(g.IntN(6), g.IntN(6))
}

// code returns the number of a request that no version knows.
func (g *generator) code() int32 {
	return []int32{10, 23, 50, 99, 999, -2, -12, math.MaxInt32, math.MinInt32}[g.IntN(9)]
}

func (g *generator) pick(choices ...string) string { return choices[g.IntN(len(choices))] }

func (g *generator) writeOp() string {
	return g.pick("create", "create", "create", "create2", "createContainer", "delete", "delete",
		"setData", "setData", "setData", "check", "check", "check")
}

func (g *generator) connect(conn, of int) Step {
	s := Step{Conn: conn, Verb: "connect", Of: of}
	if of > 0 {
		switch g.IntN(8) {
		case 0:
			s.Password = "wrong"
		case 1:
			s.Password = g.pick("short", "zero")
		}
	}
	if g.IntN(5) == 0 {
		// Shorter session timeouts would expire on a busy machine.
		s.Timeout = []int32{-1, 1, 3000, 6000, 59000, 60000, 61000, math.MaxInt32, -5}[g.IntN(9)]
	}
	if g.IntN(4) == 0 {
		s.Seen, s.Zxid = true, g.zxid()
	}
	s.Old = g.IntN(10) == 0
	g.closed[conn] = s.Password != ""
	if of > 0 && of-1 != conn {
		g.closed[of-1] = true
	}
	return s
}

func (g *generator) authenticate(conn int) Step {
	s := Step{Conn: conn, Verb: "auth", Scheme: "digest"}
	name := g.pick("ann", "bob")
	s.Auth = name + ":" + name
	switch g.IntN(25) {
	case 0:
		s.Scheme = g.pick("", "nosuch", "sasl", "world", "auth", "DIGEST")
	case 1:
		s.Scheme = "ip"
	case 2:
		s.Auth = g.pick("", "ann", ":", "ann:", ":ann", "ann:ann:ann", "ann:wrong")
	}
	return s
}

func (g *generator) create(s *Step) {
	switch s.Verb {
	case "createContainer":
		s.Flags = 4
	default:
		s.Flags = []int32{0, 0, 0, 0, 1, 1, 2, 2, 3, 3}[g.IntN(10)]
	}
	g.path(s)
	if s.Literal {
		s.Flags &^= 2 // it would create a new node
	}
	// A sequential node with the root's own name would be next to the root, with a number that
	// depends on other sequences.
	if !s.Literal && s.Flags&2 != 0 && (g.IntN(3) > 0 || s.Path == "/") {
		if s.Path == "/" {
			s.Path += g.pick("s", "s", "-", "0")
		} else {
			s.Path += g.pick("/", "/s", "/s", "s", "-")
		}
	}
	g.data(s)
	s.ACL = g.acl()
	g.created(*s)
}

func (g *generator) version() int32 {
	return []int32{-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 1, 1, 2, 3, 100, -2, math.MaxInt32, math.MinInt32}[g.IntN(20)]
}

func (g *generator) data(s *Step) {
	switch g.IntN(12) {
	case 0:
		s.Null = true
	case 1, 2:
	case 3:
		s.Size = []int{1, 100, 1000, 10000, 100000}[g.IntN(5)]
		if g.IntN(20) == 0 {
			// About the limit of a server (1 MiB less one byte for the whole packet).
			s.Size = 1<<20 + g.IntN(3)*1000 - 2000
		}
	default:
		s.Data = fmt.Sprintf("v%d", g.IntN(100))
	}
}

func (g *generator) acl() []string {
	if !g.theme.auth && g.IntN(40) > 0 || g.theme.auth && g.IntN(3) == 0 {
		return nil
	}
	if g.IntN(15) == 0 {
		return []string{"empty"}
	}
	var list []string
	for range 1 + min(g.IntN(3), g.IntN(3)) {
		perms := []int{31, 31, 31, 30, 29, 27, 23, 15, 1, 2, 4, 8, 16, 3, 5, 21, 0, 32, -1}[g.IntN(19)]
		who := g.pick("world anyone", "world anyone", "auth ", "auth ", "digest ann", "digest bob", "ip 127.0.0.1", "ip 127.0.0.0/8",
			"ip 10.0.0.1")
		if g.IntN(20) == 0 {
			who = g.pick("world other", "world ", "auth ann", "digest! ann", "digest! a:b:c", "digest! :", "ip localhost",
				"ip 127.0.0.1/33", "ip 127.0.0.1/", "ip 127.0.0", "ip 127.0.0.1/-1", "ip ::1", "nosuch x", " ", "super x", "sasl x")
		}
		list = append(list, fmt.Sprintf("%d %s", perms, who))
	}
	return list
}

func (g *generator) paths() []string {
	var list []string
	for range g.IntN(4) {
		s := Step{}
		g.path(&s)
		if !s.Literal {
			list = append(list, s.Path)
		}
	}
	return list
}

// path draws a path: one of a few, a path that was used before, or an invalid path.
func (g *generator) path(s *Step) {
	if g.IntN(100) < g.theme.bad {
		g.badPath(s)
		return
	}
	creates := strings.HasPrefix(s.Verb, "create")
	if len(g.nodes) > 0 && (creates && g.IntN(3) > 0 || !creates && g.IntN(6) > 0) {
		s.Path = g.nodes[g.IntN(len(g.nodes))]
		if creates && g.IntN(4) > 0 || !creates && g.IntN(8) == 0 {
			s.Path += "/" + g.name()
		}
		return
	}
	switch g.IntN(12) {
	case 0:
		s.Path = "/"
	case 1, 2:
		s.Path = "/" + g.name() + "/" + g.name()
	case 3:
		s.Path = "/" + g.name() + "/" + g.name() + "/" + g.name()
	default:
		s.Path = "/" + g.name()
	}
}

func (g *generator) name() string {
	if g.IntN(8) == 0 {
		// The name of a node that a sequential create may have made.
		return fmt.Sprintf("%s%010d", g.pick("s", "", "-"), g.IntN(5))
	}
	return g.pick("a", "a", "a", "b", "b", "c")
}

func (g *generator) badPath(s *Step) {
	if g.IntN(2) == 0 {
		// These writes must fail, because no step undoes them: they must not create a node or
		// change data.
		s.Literal = true
		switch s.Verb {
		case "setData", "setACL", "create", "create2", "createContainer":
			s.Path = g.pick("", "a", "a/b", "//", "//a", "/", "/zookeeper", "/no/such")
			if s.Verb == "setData" || s.Verb == "setACL" {
				s.Path = g.pick("", "a", "a/b", "//", "//a", "/no/such")
			}
		case "delete":
			s.Path = g.pick("", "a", "a/b", "//", "//a", "/", "/zookeeper", "/no/such")
		default:
			s.Path = g.pick("", "a", "a/b", "//", "//a", "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config",
				"/no", "/no/such", "/zookeeper/no")
		}
		return
	}
	base := "/" + g.name()
	s.Path = g.pick("", base) + g.pick("/", "//a", "/.", "/..", "/./a", "/../a", "/a/", "/a/.", "/a/..", "/\x00", "/a\x01", "/\x7f",
		"/a\u0085", "/\ufff0", "/\ud7ff", "/\ue000", "/\uf8ff", "/é", "/日本", "/ ", "/...", "/a.b", "/.a")
}
