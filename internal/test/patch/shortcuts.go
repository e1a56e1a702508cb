package patch

// A Shortcut is an optimization: with its patches applied, which remove it, the locks are as safe,
// and take more requests or more time.
type Shortcut struct {
	Name    string
	Patches []Patch
}

var Shortcuts = []Shortcut{
	{"room in the reply", []Patch{{
		Pkg: "internal/queue", In: "waiter.roomInReply",
		Old: "return int(dir.NumChildren)-len(w.nodes) <= w.limit.AllowedAhead", New: "return false",
	}}},
	{"no writer cached", []Patch{{
		Pkg: "internal/queue", In: "waiter.noWriterCached", Old: "return true", New: "return false",
	}}},
	{"shared node", []Patch{{Pkg: "rwlock", In: "config.reads", Old: "c.kinds != ours", New: "true"}}},
	{"handoff", []Patch{{Pkg: "internal/queue", In: "Callers.pass", Old: "t.passed >= of.Passes", New: "true"}}},
	{"release markers", []Patch{
		{Pkg: "internal/queue", In: "nodeRef.leavesMarker", Old: "return n.marker && ", New: "return false && n.marker && "},
		{Pkg: "internal/queue", In: "blockers.mayBeMarked", Old: "return !b.allWatched() && ", New: "return false && !b.allWatched() && "},
	}},
	{"watches by one request", []Patch{{
		Pkg: "internal/wire", In: "packetConn.watchNodes", Old: "size >= mostWatches", New: "size > 0",
	}}},
	{"token from the header", []Patch{{
		Pkg: "internal/queue", In: "tokenOf", Old: "return made[0].Zxid", New: "return 0",
	}}},
}
