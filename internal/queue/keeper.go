package queue

import "time"

// keeper decides whether a tenure is worth a keep. A keep costs at least one request or two; three if
// another client comes, which then has to wait; and more while it lasts (Tenure.guard). Each caller
// that enters saves two. Without a
// request the keeper knows what a keep would have saved: between two grants of this process nobody
// else came if their numbers are consecutive, or for readers, if the version of the directory's
// data is the same. So it keeps a tenure after debt such grants in a row. Callers.mu guards it.
type keeper struct {
	debt int       // requests that all keeps so far have cost, less those that they have saved
	run  int       // grants before the last one between which nobody else came
	mark int64     // of the last grant
	left time.Time // when the process last released the lock
	soon bool      // the last grant came at most maxIdle after that
}

const (
	firstDebt = 2
	mostDebt  = 64
	credit    = 6 // what keeps that have paid may lose before the keeper waits for a habit
)

// granted counts a grant. next is its mark if nobody else came since the last grant.
func (k *keeper) granted(mark, next int64, maxIdle time.Duration) {
	k.soon = time.Since(k.left) <= maxIdle
	if k.run++; !k.soon || mark != next {
		k.run = 0
	}
	k.mark = mark
}

// keeps is called when a tenure has no hold any more.
func (k *keeper) keeps() bool {
	k.left = time.Now()
	return k.soon && k.run >= k.debt
}

// kept counts a keep that has ended.
func (k *keeper) kept(cost float64, uses int64) {
	k.left = time.Now()
	k.debt = max(-credit, min(k.debt+int(min(cost, mostDebt))-2*int(min(uses, mostDebt)), mostDebt))
}
