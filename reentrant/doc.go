// Package reentrant is an exclusive lock for processes on many machines, kept in Apache ZooKeeper,
// that its owner may take again. It is for code that takes the lock and calls itself, or calls
// other code that takes it.
//
// The owner is the goroutine that called Lock, and each goroutine that passes a context from
// Hold.Context. So a goroutine that serves several requests is one owner for all of them: net/http
// runs the requests of a keep-alive connection on one goroutine, and pools run many jobs on each
// worker. If a handler returns and leaves its hold to another goroutine, the next request of the
// connection enters the lock again, and two jobs run at once. Use [WithContextOwner] there: then
// only the context owns.
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
// The goroutines of one owner do not exclude each other. Entering again sends no request. Each Lock
// returns its own hold, and the lock is free when the last of them is released. Owners queue in the
// order of arrival.
//
// A goroutine is recognized by its id, which Go does not offer: it is read from the runtime's own
// structure, by github.com/petermattis/goid. When the program starts, the id is compared with that
// in a stack trace. If they differ, as they may with a future version of Go, ids are read from stack
// traces, which takes microseconds.
//
// # Other libraries
//
// The nodes have the names that Curator's InterProcessMutex and zk.Lock of go-zookeeper use, so the
// three exclude each other on one path; with [WithKazooNames] those of kazoo's Lock. All other
// recipes, those of package rwlock included, are ignored.
package reentrant
