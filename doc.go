// Package zklocks provides distributed locks for processes on many machines, kept in Apache
// ZooKeeper: a mutex, a read/write lock, a semaphore, leader election, and jobs that run once per
// period, each in a package of its own. If a lock is lost, the holder's context is canceled.
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
// ZooKeeper. [Do] acquires it, calls the work and releases it. The ctx that is passed to Do bounds
// both the wait and the work; [Within] bounds the wait alone. A program that calls Lock itself gets
// a [Hold].
//
// # How to choose
//
//   - One process at a time, a plain mutex: [github.com/zklocks/zklocks/rwlock], with Lock alone.
//   - Many readers or one writer: [github.com/zklocks/zklocks/rwlock].
//   - A mutex that its holder may lock again, or that is shared with zk.Lock or Curator's
//     InterProcessMutex: [github.com/zklocks/zklocks/reentrant].
//   - At most N processes at a time: [github.com/zklocks/zklocks/semaphore].
//   - One process leads, and another when it is gone: [github.com/zklocks/zklocks/leader].
//   - A job that one process runs in each period: [github.com/zklocks/zklocks/once].
//   - Several of these at once, all or none, without deadlock: [All].
//
// Each of these locks serves its callers in the order of arrival, and lists its holders and
// waiters. Package [github.com/zklocks/zklocks/observe] reports events to metrics and logs. Package
// [github.com/zklocks/zklocks/zktest] is a ZooKeeper in memory for a program's tests.
//
// # When a lock is lost
//
// A hold is lost when its session may have expired, when its node was deleted, or when its
// connection was closed. Then Lost is closed, the contexts of the hold are canceled, and its calls
// return an error that matches [ErrLost].
//
// A session expires when the servers have received nothing from the client for the session timeout,
// which Connect asks for. With a session timeout of 10 s:
//   - The holder is notified 4 to 7.5 s after the last answer from a server; in the first seconds
//     of a session, up to 10 s after it.
//   - The next caller is granted the lock 10 to 12 s after the holder's last packet, also if the
//     holder's process was killed. With [WithSessionFile] the lock of a killed process is free as
//     soon as another process has ended its session.
//   - An outage shorter than 4 s costs no lock.
//
// Let T be the session timeout that the server granted. The holder is notified after 2T/5 to 3T/4,
// and the next caller is granted the lock between T and T + one tick of the server (2 s by
// default).
//
// # What is guaranteed
//
// After each write that the ensemble commits, an exclusive lock has at most one holder: the client
// whose node is first in the queue. At most N permits of a semaphore are held, except after a
// Resize to fewer: holders keep their permits until they release them. A call returns a hold only
// once its turn has come: its node was first in the queue; for a read lock, its node had no writer
// ahead of it; for a semaphore, its permits were among the first N. The token of a hold is larger
// than the token of each earlier conflicting hold; there is one exception: with rwlock.WithHandoff
// and WithMaxIdle, callers of one value take over each other's node and its token.
//
// A holder is notified of a loss before the lock is granted to another caller as long as
//   - its process runs: after a pause in which the session may have expired, already the first call
//     of Held returns false, but work that had begun before the pause continues;
//   - no other program deletes its node: if one does, the next caller is granted the lock at once,
//     and the holder is notified a moment later;
//   - its clocks run at the right speed; they need not show the right time;
//   - the servers are configured as by default: all grant a session the same timeout, of at least
//     two ticks, and none is an observer that follows a follower (observerMasterPort);
//   - the ensemble's leader pings its followers every half tick, and each ping is at most T/32
//     late;
//   - with [WithSessionFile]: the file is on a local file system, and no program closes or unlocks
//     it while its process lives.
//
// docs/reference/guarantees.md in the repository has all promises, docs/reference/failures.md what
// happens in each failure.
//
// # What is not guaranteed
//
// No lock can guarantee that only one process acts as the holder: a paused process may continue
// after another process has acquired the lock. If it does harm that two processes act as the
// holder, even for a moment, have the store compare [Hold.Token], or write to ZooKeeper by
// [Hold.Multi]. For work that can use neither, call [Hold.Verify] right before it: that narrows the
// window and cannot close it.
//
// Nor do the locks guarantee
//   - a place in the queue across sessions: a caller whose session expires during its wait queues
//     again, at the tail;
//   - that [ErrBusy] is still true when it is returned;
//   - anything against clients that may write below the lock's path, see [WithACL];
//   - that locks of two packages wait for each other on one path: with the default names only
//     reentrant and leader do. While a lock of another kind is held or waited for, a call fails.
//     Give each lock a path of its own.
//
// # Errors
//
// Errors name the operation and the path, and keep their cause: match them with errors.Is.
//   - [ErrBusy], [ErrLost] and [ErrReleased] report the state of the lock. The packages semaphore,
//     leader and once declare further errors.
//   - context.Canceled and context.DeadlineExceeded: ctx was canceled, or its deadline passed. If
//     no server had answered, the error matches [ErrNoAnswer], too.
//   - zk.ErrClosing: the connection was closed.
//   - zk.ErrNoAuth: the server refused the request; the text names the missing right.
//   - zk.ErrAuthFailed: the server refused the credentials. Connect returns this error at once. The
//     calls of locks wait until ctx is canceled; their error then matches zk.ErrAuthFailed and
//     ctx's error. If the server demands credentials and the program has given none, the calls of
//     locks return this error at once.
//   - zk.ErrNoNode, from Conn.RequestRelease: the holder or waiter that was asked has gone.
//   - zk.ErrConnectionClosed: the connection was lost during a transaction of [Hold.Multi] or of
//     leader's Proclaim. The transaction is not repeated, and may have taken place.
//
// If the connection is lost, all calls except Hold.Multi and Proclaim repeat their request until a
// server answers or ctx is canceled. The error of a canceled call says what the call waited for. If
// no server answered, it names the servers and the reason. If the call was queued, it says how many
// nodes are ahead, and how many of these nodes belong to the same connection: a program that waits
// for its own lock finds the reason there.
package zklocks
