package interop

import "github.com/zklocks/zklocks/internal/test/history"

// The kinds of locks that a party may acquire. A peer may have more.
const (
	mutex     = "mutex"
	read      = "read"
	write     = "write"
	downgrade = "downgrade" // in a fight: acquire for writing, and then downgrade
	elected   = "leader"
	latch     = "latch" // with the names of LeaderLatch
)

// side is a library at work on a path.
type side interface {
	// party opens a session.
	party(who string) party
	// open opens sessions for a fight.
	open(sessions int)
	// fight begins a fight; the returned function waits for its end.
	fight(f fight) (ended func() []history.Hold)
	// part closes all sessions.
	part()
}

// party takes locks, one at a time.
type party interface {
	take(kind string) // begins to acquire, and returns
	holds() bool      // as the party reports
	await()           // waits until it holds
	give()
	downgrade()
}
