// Package reentrant is an exclusive lock for processes on many machines, kept in Apache ZooKeeper,
// that its owner may take again. It is for code that takes the lock and calls itself, or calls
// other code that takes it.
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
// What the lock guarantees and what it does not, and which errors it returns, is the same for all
// recipes: see package [github.com/zklocks/zklocks].
//
// The owner is the goroutine that called Lock, and each goroutine that passes a context from
// Hold.Context. So the goroutines of one owner do not exclude each other. Entering again sends no
// request. Each Lock returns its own hold, and the lock is free when the last of them is released.
// Owners queue in the order of arrival.
//
// # Other libraries
//
// The nodes have the names that Curator's InterProcessMutex and zk.Lock of go-zookeeper use, so the
// three exclude each other on one path; with [WithKazooNames] those of kazoo's Lock. All other
// recipes, those of package rwlock included, are ignored.
package reentrant
