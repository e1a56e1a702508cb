// Package rwlock is a shared/exclusive lock for processes on many machines, kept in Apache
// ZooKeeper: many processes hold it for reading, or one for writing. It is for data that many
// processes read and one rewrites now and then; Lock alone is a plain mutex.
//
//	conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//
//	lock := rwlock.New(conn, "/examples/index")
//	return zklocks.Do(ctx, lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
//		return rewrite(ctx, hold.Token()) // this ctx ends when the lock is lost, too
//	})
//
// What the lock guarantees and what it does not, and which errors it returns, is the same for all
// recipes: see package [github.com/zklocks/zklocks].
//
// Callers queue in the order of arrival, readers and writers alike, so neither readers nor writers
// starve. Readers of one value share a node: until they hear of a writer that has queued they go
// ahead of it.
//
// # Readers of one process
//
// Goroutines that read-lock one RWMutex value at the same time share one node. The first reader
// creates the node. The second sends one or two requests, to check that the node still exists and
// that no writer has queued behind it. All others send none. When a writer queues, in any process,
// the sharing ends: later readers queue behind the writer. A server may withhold that news from a
// client without READ on the directory, so the process looks again after five seconds of joining.
//
// So a goroutine that holds the lock for reading must not wait for another read lock on it: with a
// writer in between, both would wait forever. Readers that share a node have one token. See also
// [WithReadLinger].
//
// # Other libraries
//
// Package reentrant, Curator and kazoo use other names for their nodes, which this package ignores
// without [WithCuratorNames] or [WithKazooNames].
package rwlock
