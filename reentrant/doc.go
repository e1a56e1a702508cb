// Package reentrant is an exclusive lock of a whole cluster on Apache ZooKeeper
// that its owner may take again. It is for code that takes the lock and calls
// itself, or calls other code that takes it.
//
//	func clean(ctx context.Context, mu *reentrant.Mutex, depth int) error {
//		hold, err := mu.Lock(ctx) // ctx bounds the wait, not the hold
//		if err != nil {
//			return err
//		}
//		defer hold.Unlock(ctx) // gives it back, also when ctx has ended
//
//		ctx = hold.Context(ctx) // this context ends when the lock is lost
//		if depth == 0 {
//			return leaf(ctx, hold.Token())
//		}
//		return clean(ctx, mu, depth-1)
//	}
//
// mu comes from [New], on a connection that is best made by
// [github.com/zklocks/zklocks/zkconn.Connect]: such a connection knows until when
// its session lives. Any other *zk.Conn works too, with weaker promises, see
// [WithGrace].
//
// The owner is the goroutine that called Lock, or whoever passes a context from
// [Hold.Context]. Entering again asks the server nothing. The order among owners
// is that of arrival.
//
// # What is not guaranteed
//
// This package does not guarantee that only one process acts as the owner
// (fencing). It guarantees that at any moment of the ensemble's history at most
// one node is first in line, and that a caller is told that it holds the lock
// only after its node was. A holder is told of a loss before the lock is granted
// to another as long as
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
//   - that one owner's goroutines exclude each other: a context from
//     [Hold.Context] lets in whoever is given it;
//   - a place in line across sessions: who waits while the session expires
//     queues again, at the tail;
//   - that [ErrBusy] was still true when it was returned;
//   - anything against clients that may write below the lock's path, see
//     [WithACL].
//
// Its nodes have the names that Curator's InterProcessMutex and zk.Lock of
// go-zookeeper use, so the three exclude each other on one path. All other
// recipes, those of package rwlock included, do not count here.
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
package reentrant
