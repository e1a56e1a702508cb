// Package semaphore is a number of permits for a whole cluster on Apache
// ZooKeeper. It is for what at most N may do at once, over all machines.
//
//	conn, err := zkconn.Connect(ctx, servers, 10*time.Second)
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//
//	hold, err := semaphore.New(conn, "/examples/convert", 4).Acquire(ctx, 1) // ctx bounds the wait, not the hold
//	if err != nil {
//		return err
//	}
//	defer hold.Release(ctx) // gives it back, also when ctx has ended
//
//	return job(hold.Context(ctx)) // this context ends when the permit is lost
//
// conn is best made by [github.com/zklocks/zklocks/zkconn.Connect]: such a
// connection knows until when its session lives. Any other *zk.Conn works too,
// with weaker promises, see [WithGrace].
//
// The order is that of arrival: who asks for many permits is not overtaken by
// those who ask for few. Several permits are taken together or not at all.
//
// # What is not guaranteed
//
// This package does not guarantee that at most N processes act as holders
// (fencing). It guarantees that at any moment of the ensemble's history the
// permits that are entitled number at most N, but for those left over from a
// [Semaphore.Resize] to fewer, and that a caller is told that it holds permits
// only after it was entitled to them. A holder is told of a loss before the
// permits are granted to another as long as
//   - its process runs: one that was stopped finds out at its first look, but
//     what it had begun before goes on;
//   - its clocks run at the right speed; they need not show the right time;
//   - its node is not deleted by somebody else: then the next is granted at
//     once, and the holder hears of it a moment later;
//   - conn was made by zkconn.
//
// Where being one too many for a moment does harm, put [Hold.Guard] in front of
// a write to ZooKeeper, or ask [Hold.Verify] right before something else. The
// latter makes the gap small and does not close it. Tokens do not fence holders
// of a semaphore from each other, as several hold at once; see [Hold.Token].
//
// Nor does it guarantee
//   - a place in line across sessions: who waits while the session expires
//     queues again, at the tail;
//   - that [ErrBusy] was still true when it was returned;
//   - anything against clients that may write below the semaphore's path, see
//     [WithACL];
//   - a common count with other recipes: Curator and kazoo use other names for
//     their nodes, which this package ignores.
//
// # Errors
//
// Errors name the operation and the path, and keep their cause: match them with
// errors.Is. [ErrBusy], [ErrLost], [ErrReleased] and [ErrMismatch] are states of
// the semaphore; context.Canceled and context.DeadlineExceeded say that ctx has
// ended; zk.ErrClosing that the connection was closed; zk.ErrNoAuth that the
// server refused, with the missing right in the text. Lost connections are no
// errors: calls wait until they are answered or ctx ends, and the error says then
// which servers were tried, and for how long.
package semaphore
