// Package semaphore provides a semaphore for processes on many machines, kept in Apache ZooKeeper:
// at most N permits are held at a time.
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
// Package [github.com/zklocks/zklocks] describes what the semaphore guarantees, what it does not,
// and which errors it returns. It has two more errors, [ErrMismatch] and [ErrTooMany].
//
// Callers queue in the order of arrival: a caller that asks for many permits is not overtaken by
// later callers that ask for few. Several permits are granted together or not at all.
//
// # Differences from a lock
//
// After a [Semaphore.Resize] to fewer permits, holders keep their permits, so more permits than the
// new number may be held.
//
// Several callers hold at once, so tokens order the grants and do not fence the holders from each
// other. If one holder too many for a moment does harm, write to ZooKeeper by Hold.Multi. Otherwise
// call Hold.Verify right before the work: that narrows the window and cannot close it.
//
// # Other libraries
//
// Curator and kazoo use other names for the nodes of their semaphores. Do not use a path of such a
// semaphore: both semaphores would grant all permits, without an error.
//
// The algorithm follows Curator's InterProcessSemaphoreV2: each permit is a sequential node, and
// the first N nodes hold. Here one transaction creates all nodes of a call, so several permits are
// granted together, and the order of the nodes takes the place of Curator's additional mutex.
package semaphore
