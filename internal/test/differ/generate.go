package differ

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// Generate returns a random sequence. It depends on the seed and the number only.
func Generate(seed, number int64) Sequence {
	g := newGenerator(seed, number)
	g.conns = 1 + g.IntN(maxConns)
	if g.IntN(4) == 0 {
		g.conns = 1
	}
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

	childless map[string]bool // ephemeral nodes

	closed  [maxConns]bool // connections that have ended
	session [maxConns]int  // the number of the connection that was granted the session
	writes  int            // zxids that were taken
}

var plainPath = regexp.MustCompile(`^(/[-a-z0-9]+)+$`)

// created records a create that probably succeeds.
func (g *generator) created(s Step) {
	path := s.Path
	if s.Literal || s.Flags < 0 || s.Flags > 6 || s.Verb == "createTTL" && (s.Flags < 5 || s.TTL < 1 || s.TTL > 1<<40-1) {
		return
	}
	parent := path[:strings.LastIndexByte(path, '/')+1]
	parent = strings.TrimSuffix(parent, "/")
	if s.Flags == 2 || s.Flags == 3 || s.Flags == 6 {
		path += fmt.Sprintf("%010d", g.creates[parent])
	}
	if plainPath.MatchString(path) && !slices.Contains(g.nodes, path) && (parent == "" || slices.Contains(g.nodes, parent)) &&
		!g.childless[parent] {
		g.creates[parent]++
		g.nodes = append(g.nodes, path)
		g.childless[path] = s.Flags == 1 || s.Flags == 3
	}
}

// deleted records a delete that probably succeeds.
func (g *generator) deleted(s Step) {
	if s.Version <= 0 && s.Version >= -1 && !slices.ContainsFunc(g.nodes, func(path string) bool {
		return strings.HasPrefix(path, s.Path+"/")
	}) {
		g.nodes = slices.DeleteFunc(g.nodes, func(path string) bool { return path == s.Path })
	}
}

// theme is the main subject of a sequence. The numbers are weights.
type theme struct {
	name  string
	auth  bool // restricted ACLs, and clients that authenticate
	verbs map[string]int
	// bad is the percentage of invalid paths, burst the percentage of bursts.
	bad, burst int
}

// usual are the weights of all themes. A theme adds to them.
var usual = map[string]int{
	"create": 20, "create2": 6, "createContainer": 3, "createTTL": 3, "delete": 12, "exists": 6, "getData": 6,
	"setData": 8, "getACL": 2, "setACL": 2, "getChildren": 4, "getChildren2": 5, "sync": 2, "ping": 1, "check": 1,
	"multi": 6, "multiRead": 3, "removeWatches": 2, "setWatches": 2, "setWatches2": 1, "getEphemerals": 2,
	"childCount": 1, "addWatch": 2, "auth": 1, "close": 1, "connect": 3, "cut": 1, "unknown": 1, "deleteContainer": 1,
	"checkWatches": 1, "whoAmI": 1, "sasl": 1, "reconfig": 1,
}

var themes = []theme{
	{name: "everything", bad: 3, burst: 5},
	{name: "watches", bad: 1, burst: 5, verbs: map[string]int{
		"exists": 20, "getData": 15, "getChildren": 10, "getChildren2": 10, "removeWatches": 8, "setWatches": 8,
		"setWatches2": 6, "addWatch": 8, "setData": 10, "delete": 15, "create": 15, "multi": 6, "connect": 4,
	}},
	{name: "acl", auth: true, bad: 2, burst: 5, verbs: map[string]int{
		"create": 20, "getACL": 12, "setACL": 15, "auth": 6, "exists": 10, "getData": 10, "getChildren2": 8, "multi": 6,
		"setData": 10, "delete": 10,
	}},
	{name: "locked", auth: true, bad: 1, burst: 3, verbs: map[string]int{
		"create": 40, "exists": 10, "getData": 10, "delete": 20, "setData": 20, "getChildren": 10, "multi": 10, "setACL": 5,
	}},
	{name: "multi", bad: 2, burst: 5, verbs: map[string]int{"multi": 60, "multiRead": 10}},
	{name: "sessions", bad: 1, burst: 2, verbs: map[string]int{
		"connect": 25, "close": 5, "cut": 6, "create": 10, "getEphemerals": 6, "setWatches": 6, "exists": 8,
	}},
	{name: "kinds", bad: 1, burst: 5, verbs: map[string]int{
		"create": 30, "create2": 20, "createContainer": 15, "createTTL": 15, "delete": 10, "getChildren2": 6,
	}},
	{name: "paths", bad: 40, burst: 2},
	{name: "burst", bad: 2, burst: 60},
}

func (t theme) weights() map[string]int {
	sum := map[string]int{}
	for verb, weight := range usual {
		sum[verb] = weight + t.verbs[verb]
	}
	return sum
}

func (g *generator) step() Step {
	conn := g.IntN(g.conns)
	switch {
	case g.closed[conn] && g.IntN(5) > 0:
		return g.one(conn, "connect")
	case g.IntN(100) < g.theme.burst:
		return g.burst(conn)
	default:
		return g.one(conn, g.verb(nil))
	}
}

// verb draws an allowed verb; nil allows all.
func (g *generator) verb(allowed func(string) bool) string {
	weights := g.theme.weights()
	names := make([]string, 0, len(weights))
	total := 0
	for name, weight := range weights {
		if weight > 0 && (allowed == nil || allowed(name)) {
			names = append(names, name)
			total += weight
		}
	}
	slices.Sort(names) // a map has no order, and a seed must always make the same sequence
	at := g.IntN(total)
	for _, name := range names {
		if at -= weights[name]; at < 0 {
			return name
		}
	}
	panic("unreachable: the weights add up to the total")
}

// burst: requests that the server handles out of order (auth) or that end the connection may only
// be last, because the position of their reply among the others is random.
func (g *generator) burst(conn int) Step {
	s := Step{Conn: conn, Verb: "burst"}
	if g.IntN(20) == 0 {
		s.Ops = append(s.Ops, g.inner(g.authenticate(conn)))
	}
	for range 2 + g.IntN(10) {
		s.Ops = append(s.Ops, g.inner(g.one(conn, g.verb(func(verb string) bool {
			switch verb {
			case "connect", "cut", "close", "auth", "sasl", "unknown", "check", "setACL":
				return false
			}
			return true
		}))))
	}
	for i := range s.Ops {
		if s.Ops[i].Verb == "createContainer" {
			// With the flag of an ephemeral node, Java treats the node as ephemeral until the
			// create is applied, and so refuses children at random.
			s.Ops[i].Flags = 4
		}
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
	case "sasl":
		g.data(&s)
	case "create", "create2", "createContainer", "createTTL":
		g.create(&s)
	case "multi":
		nodes := slices.Clone(g.nodes)
		for range g.few() {
			s.Ops = append(s.Ops, g.inner(g.one(conn, g.writeOp())))
		}
		if len(s.Ops) > 2 {
			g.nodes = nodes // most of these operations fail
		}
		if g.IntN(60) == 0 {
			s.Ops = append(s.Ops, g.inner(g.one(conn, "getData")))
		}
	case "multiRead":
		for range g.few() {
			s.Ops = append(s.Ops, g.inner(g.one(conn, g.pick("getData", "getChildren"))))
		}
		if g.IntN(60) == 0 {
			s.Ops = append(s.Ops, g.inner(g.one(conn, "setData")))
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
	case "getACL", "sync", "childCount", "getEphemerals", "deleteContainer":
		g.path(&s)
		if verb == "getEphemerals" && g.IntN(3) == 0 {
			s.Path, s.Literal = "/", g.IntN(2) == 0
		}
	case "removeWatches", "checkWatches":
		g.path(&s)
		if len(g.watched) > 0 && g.IntN(4) > 0 {
			s.Path, s.Literal = g.watched[g.IntN(len(g.watched))], false
		}
		if verb == "checkWatches" && s.Literal {
			// Java 3.8's answer for a path without a slash depends on how many recursive watches it
			// has ever had, on all connections.
			s.Path, s.Literal = "/a", false
		}
		s.Kind = int32(1 + g.IntN(3))
		if g.IntN(10) == 0 {
			s.Kind = int32(g.IntN(8)) - 1
		}
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
	if verbs[verb].encode != nil {
		switch g.IntN(1000) {
		case 0, 1:
			s.Cut = 1 + g.IntN(8)
		case 2:
			s.More = 1 + g.IntN(8)
		case 3:
			// A watch on a null path fails in Java's code, sooner or later.
			s.NoPath = verb != "addWatch" && verb != "removeWatches" && verb != "checkWatches"
		}
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
	return g.pick("create", "create", "create", "create2", "createContainer", "createTTL", "delete", "delete",
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
	if of > 0 {
		for i := range g.conns {
			g.closed[i] = g.closed[i] || i != conn && g.session[i] == g.session[of-1]
		}
		g.session[conn] = g.session[of-1]
	} else {
		g.session[conn] = g.writes + 1000*conn // another number each time
	}
	return s
}

var people = []string{"ann", "bob"}

func (g *generator) authenticate(conn int) Step {
	s := Step{Conn: conn, Verb: "auth", Scheme: "digest"}
	name := people[g.IntN(len(people))]
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
	case "createTTL":
		s.Flags = int32(5 + g.IntN(2))
	default:
		s.Flags = []int32{0, 0, 0, 0, 1, 1, 2, 2, 3, 3}[g.IntN(10)]
	}
	if g.IntN(30) == 0 {
		s.Flags = []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, -1}[g.IntN(11)]
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
	if s.Verb == "createTTL" {
		s.TTL = []int64{1, 1000, 1000, 3600000, 3600000, 1 << 40, 1<<40 - 1, 0, -1, math.MaxInt64, math.MinInt64}[g.IntN(11)]
		if s.Flags != 5 && s.Flags != 6 {
			// This request with flags of another kind and a negative time passes the checks and
			// ends a real server (3.8.0 and 3.9.3): "ttl cannot be negative", thrown while the log
			// is applied.
			s.TTL = max(s.TTL, 0)
		}
	}
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
		return []string{g.pick("null", "empty")}
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
		case "setData", "setACL", "create", "create2", "createContainer", "createTTL":
			s.Path = g.pick("", "a", "a/b", "//", "//a", "/", "/zookeeper", "/no/such")
			if s.Verb == "setData" || s.Verb == "setACL" {
				s.Path = g.pick("", "a", "a/b", "//", "//a", "/no/such")
			}
		case "delete", "deleteContainer":
			s.Path = g.pick("", "a", "a/b", "//", "//a", "/", "/zookeeper", "/no/such")
		default:
			s.Path = g.pick("", "a", "a/b", "//", "//a", "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config",
				"/no", "/no/such", "/zookeeper/no")
		}
		return
	}
	base := "/" + g.name()
	s.Path = g.pick("", base) + g.pick("/", "//a", "/.", "/..", "/./a", "/../a", "/a/", "/a/.", "/a/..", "/\x00", "/a\x01", "/\x7f",
		"/a\u0085", "/\ufff0", "/\ud7ff", "/\ue000", "/\uf8ff", "/é", "/日本", "/😀", "/ ", "/...", "/a.b", "/.a")
}
