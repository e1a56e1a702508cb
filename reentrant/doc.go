// Package reentrant provides a mutex for processes on many machines, kept in Apache ZooKeeper. Its
// owner may lock it again, so code that holds the lock may call other code that locks it. It shares
// its locks with zk.Lock of go-zookeeper and Curator's InterProcessMutex.
//
// The owner is the goroutine that called Lock, and each goroutine that passes a context from
// Hold.Context. So if a goroutine serves several requests, it is one owner for all of them:
// net/http runs the requests of a keep-alive connection on one goroutine, and pools run many jobs
// on each worker. If a handler returns and leaves its hold to another goroutine, the next request
// of the connection enters the lock again, and two jobs run at once. Use [WithContextOwner] there:
// then only the context owns.
//
//	func clean(ctx context.Context, mu *reentrant.Mutex, depth int) error {
//		return zklocks.Do(ctx, mu.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
//			if depth == 0 {
//				return leaf(ctx, hold.Token()) // this ctx ends when the lock is lost, too
//			}
//			return clean(ctx, mu, depth-1)
//		})
//	}
//
// Package [github.com/zklocks/zklocks] describes what the lock guarantees, what it does not, and
// which errors it returns: these are the same for all locks.
//
// The goroutines of one owner do not exclude each other. Re-entering sends no request. Each Lock
// returns its own hold. The lock is released with the last of these holds. Owners queue in the
// order of arrival.
//
// A goroutine is recognized by its id. Go has no API for it: github.com/petermattis/goid reads it
// from the runtime's own structure. At its start the program compares the id with the id in a stack
// trace. If they differ, as they may with a future version of Go, this package reads ids from stack
// traces, which takes microseconds.
//
// # Other libraries
//
// The nodes have the names that Curator's InterProcessMutex and zk.Lock of go-zookeeper use, so the
// three exclude each other on one path. With [WithKazooNames] they have the names of kazoo's Lock.
// A candidate of package leader on the path is excluded, too. While another lock uses the path, of
// package rwlock for example, calls fail.
//
// The algorithm is "Locks" of the ZooKeeper recipes, with holds that are counted in the process, as
// in Curator's InterProcessMutex.
package reentrant
