// Package rwlock is a shared/exclusive lock of a whole cluster on Apache
// ZooKeeper: many processes hold it for reading, or one for writing. It is for
// what many read and now and then one rewrites.
//
//	conn, err := zkconn.Connect(ctx, servers, 10*time.Second)
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//
//	hold, err := rwlock.New(conn, "/examples/index").Lock(ctx) // ctx bounds the wait, not the hold
//	if err != nil {
//		return err
//	}
//	defer hold.Unlock(ctx) // gives it back, also when ctx has ended
//
//	return rewrite(hold.Context(ctx), hold.Token()) // this context ends when the lock is lost
//
// conn is best made by [github.com/zklocks/zklocks/zkconn.Connect]: such a
// connection knows until when its session lives. Any other *zk.Conn works too,
// with weaker promises, see [WithGrace].
//
// The order is that of arrival, for readers and writers alike: nobody is
// overtaken, so neither readers nor writers starve.
//
// # Readers of one process
//
// Goroutines that read-lock one RWMutex value at the same time share one node:
// all but the first hold at once, without any request but one or two, of the second,
// which asks whether the node is still there and whether writers have come. A writer
// that queues, in any process, ends that; those who come later wait behind it. So a goroutine
// that holds the lock for reading must not wait for another read lock on it: with
// a writer in between, both would wait for ever. See also [WithReadLinger].
//
// # What is not guaranteed
//
// This package does not guarantee that only one process acts as the writer
// (fencing). It guarantees that at any moment of the ensemble's history at most
// one writer's node is first in line, and that a caller is told that it holds
// the lock only after its node was. A holder is told of a loss before the lock
// is granted to another as long as
//   - its process runs: one that was stopped finds out at its first look, but
//     what it had begun before goes on;
//   - its clocks run at the right speed; they need not show the right time;
//   - its node is not deleted by somebody else: then the next is granted at
//     once, and the holder hears of it a moment later;
//   - conn was made by zkconn.
//
// Where being two for a moment does harm, have the store compare
// [Hold.Token], or put [Hold.Guard] in front of a write to ZooKeeper, or ask
// [Hold.Verify] right before something that takes no token. The last makes the
// gap small and does not close it.
//
// Nor does it guarantee
//   - a place in line across sessions: who waits while the session expires
//     queues again, at the tail;
//   - that [ErrBusy] was still true when it was returned;
//   - anything against clients that may write below the lock's path, see
//     [WithACL];
//   - exclusion of other recipes: package reentrant, Curator and kazoo use other
//     names for their nodes, which this package ignores without
//     [WithCuratorNames] or [WithKazooNames].
//
// # Errors
//
// Errors name the operation and the path, and keep their cause: match them with
// errors.Is. [ErrBusy], [ErrLost] and [ErrReleased] are states of the lock;
// context.Canceled and context.DeadlineExceeded say that ctx has ended;
// zk.ErrClosing that the connection was closed; zk.ErrNoAuth that the server
// refused, with the missing right in the text. Lost connections are no errors:
// calls wait until they are answered or ctx ends, and the error says then which
// servers were tried, and for how long.
package rwlock
