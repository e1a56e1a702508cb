// Package soak measures what random faults cannot: the margins of a loss, and that nothing grows.
// `go test` runs a short cell of each kind; `make soak ARGS='-kind KIND'` runs one at full size. (Its
// other kind, hammer, is in internal/test/explore.)
//
//	takeover  holders are cut off in every way: each must be notified before the next caller
//	          holds; in virtual time, where margins are exact, and on real servers. And holders
//	          are killed: how soon the lock passes on, with a session file and without
//	moves     members join, leave and are restarted: connections move, and no hold is lost
//	leaks     canceled waits, lost sessions and paths that are used once, over and over:
//	          heap, goroutines, watches and nodes do not grow
//
// takeover: the deadline is earlier than the grant of the next caller, and the former holder's Held
// is false by then; in virtual time Lost is closed at the deadline, to the nanosecond. The table
// has what depends on the speed of the machine, which fails no run.
package soak
