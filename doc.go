// Package zklocks has locks for processes on many machines, kept in Apache ZooKeeper: a
// shared/exclusive lock, a reentrant mutex, a semaphore and leader election, each in a package of
// its own. A holder is told when it loses its lock and has a fencing token, and a call that gives
// up leaves no node behind.
//
//	import (
//		"context"
//		"time"
//
//		"github.com/zklocks/zklocks"
//		"github.com/zklocks/zklocks/rwlock"
//	)
//
//	// nightly rewrites the index while no other process reads or writes it.
//	func nightly(ctx context.Context, servers []string) error {
//		conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
//		if err != nil {
//			return err
//		}
//		defer conn.Close()
//
//		lock := rwlock.New(conn, "/examples/index")
//		return zklocks.Do(ctx, lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
//			return rewrite(ctx, hold.Token()) // this ctx ends when the lock is lost, too
//		})
//	}
//
// [Connect] opens a connection, which all locks of a program can share. A lock is a path in
// ZooKeeper. [Do] waits for it, works, and releases it. A program that calls Lock itself gets a
// [Hold].
//
// # How to choose
//
//   - Many processes read, and now and then one writes: [github.com/zklocks/zklocks/rwlock]. For
//     one process at a time its Lock alone is the plain mutex.
//   - A function takes the lock and calls itself: [github.com/zklocks/zklocks/reentrant].
//   - At most N processes at a time: [github.com/zklocks/zklocks/semaphore].
//   - One process leads, for as long as it can, and the next when it is gone:
//     [github.com/zklocks/zklocks/leader].
//   - Several of these at once, all or none, without deadlock: [All].
//
// All queue callers in the order of arrival, and list their holders and waiters. Package
// [github.com/zklocks/zklocks/observe] reports what happens to them to metrics and logs. Package
// [github.com/zklocks/zklocks/zktest] is for tests of programs that use them, without a server.
//
// # What is guaranteed
//
// At any moment of the ensemble's history at most one exclusive holder's node is first in its
// queue, and of a semaphore's permits at most N are entitled (more after a Resize to fewer). A
// caller is told that it holds only after its own node was first, or its permits were entitled.
// Tokens grow from each holder to the next conflicting one.
//
// A holder is told of a loss before the lock is granted to another as long as
//   - its process runs: one that was stopped learns of the loss at its first call of Held, but what
//     it had begun before goes on;
//   - its clocks run at the right speed; they need not show the right time;
//   - all members grant the same session timeouts, of two ticks at least, and the leader's pings of
//     its followers are at most T/32 late, where T is the session timeout; no server is an observer
//     that follows a follower (observerMasterPort);
//   - no other program deletes its node: then the next caller is granted the lock at once, and the
//     holder learns of it a moment later.
//
// docs/reference/failures.md in the repository has a row for each failure.
//
// # What is not guaranteed
//
// The locks do not guarantee that only one process acts as the holder (fencing). Where two for a
// moment do harm, have the store compare [Hold.Token], or write to ZooKeeper by [Hold.Multi], or
// ask [Hold.Verify] right before work that takes no token. The last makes the gap small and does
// not close it.
//
// Nor do they guarantee
//   - a place in the queue across sessions: a caller whose session expires during its wait queues
//     again, at the tail;
//   - that [ErrBusy] was still true when it was returned;
//   - anything against clients that may write below the lock's path, see [WithACL];
//   - that locks of two recipes exclude each other: on one path each ignores the nodes of the
//     other, and a lock for writing empties the node, which has the number of a semaphore.
//
// # Errors
//
// Errors name the operation and the path, and keep their cause: match them with errors.Is.
//   - [ErrBusy], [ErrLost] and [ErrReleased] are states of the lock. Package semaphore has two
//     more, and package leader one.
//   - context.Canceled and context.DeadlineExceeded say that ctx has ended.
//   - zk.ErrClosing says that the connection was closed.
//   - zk.ErrNoAuth says that the server refused; the text names the missing right.
//     zk.ErrAuthFailed says that it refused the credentials: of Connect at once, of other calls,
//     which wait, together with ctx's error.
//   - zk.ErrNoNode, of Conn.RequestRelease, says that the member has gone.
//
// A lost connection is an error only of transactions, [Hold.Multi] and leader's Proclaim, which are
// not repeated and may have taken place: zk.ErrConnectionClosed. Other calls wait until they are
// answered or ctx ends, and the error then says which servers were tried, for how long, and why the
// last attempt failed.
package zklocks
