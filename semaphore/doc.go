// Package semaphore is a number of permits for processes on many machines, kept in Apache
// ZooKeeper. It is for work that at most N may do at once.
//
//	conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//
//	sem := semaphore.New(conn, "/examples/convert", 4)
//	one := sem.Locker(1)
//	return zklocks.Do(ctx, one.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
//		return job(ctx) // this ctx ends when the permit is lost, too
//	})
//
// What the semaphore guarantees and what it does not, and which errors it returns, is the same for
// all recipes: see package [github.com/zklocks/zklocks]. It has two more errors, [ErrMismatch] and
// [ErrTooMany].
//
// Callers queue in the order of arrival: a caller that asks for many permits is not overtaken by
// later callers that ask for few. Several permits are granted together or not at all.
//
// # What is different from a lock
//
// After a [Semaphore.Resize] to fewer permits, holders keep theirs, so more may be held than there
// are.
//
// Several hold at once, so tokens order the grants and do not fence the holders from each other. If
// one holder too many for a moment does harm, write to ZooKeeper by Hold.Multi, or call Hold.Verify
// right before other work. Verify makes the gap small and does not close it.
//
// # Other libraries
//
// Curator and kazoo use other names for their nodes: their permits are not counted together with
// these. Do not use a path of one of their semaphores. Both semaphores would grant all permits, and
// no error says so.
package semaphore
