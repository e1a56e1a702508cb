package interop

import "github.com/zklocks/zklocks/internal/test/history"

// What a party may ask for. A peer may know more words.
const (
	mutex     = "mutex"
	read      = "read"
	write     = "write"
	downgrade = "downgrade" // in a fight: write, then go on reading
	elected   = "leader"
	latch     = "latch" // another way to be elected
)

// side is a library, ours or another, at work on a path.
type side interface {
	// party is one session of it.
	party(who string) party
	// open opens so many sessions for a fight.
	open(sessions int)
	// fight begins; the returned function waits for its end.
	fight(f fight) (ended func() []history.Hold)
	// part ends all sessions.
	part()
}

// party takes locks, one at a time.
type party interface {
	take(kind string) // only begins
	holds() bool      // as it says itself
	await()           // until it holds
	give()
	downgrade()
}
