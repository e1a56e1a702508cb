// Package rwlock provides a read/write lock for processes on many machines, kept in Apache
// ZooKeeper: many callers hold it for reading, or one for writing. It is for data that many
// processes read and that is rewritten now and then.
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
// Package [github.com/zklocks/zklocks] describes what the lock guarantees, what it does not, and
// which errors it returns: these are the same for all locks.
//
// Callers queue in the order of arrival, readers and writers alike, so neither readers nor writers
// starve.
//
// # Readers of one process
//
// Goroutines that read-lock one RWMutex value at the same time share one node. The first reader
// creates the node. The second sends one or two requests, to check that the node still exists and
// that no writer has queued behind it. The others send none.
//
// When a writer queues, in any process, the sharing ends: later readers queue behind the writer.
// Until the writer's announcement arrives, further readers may join the node and so overtake the
// writer. A server may withhold the announcement from a client without READ on the directory, so
// while readers join, the process lists the queue again after five seconds.
//
// A goroutine that holds the lock for reading must not wait for another read lock on it: if a
// writer queues in between, both wait forever. Readers that share a node have the same token.
//
// # Other libraries
//
// zk.Lock of go-zookeeper, Curator's InterProcessMutex and package reentrant use other names for
// their nodes. While such a node is queued, calls fail, also if only Lock is used. With [WithCuratorNames] it shares its locks with Curator's InterProcessReadWriteLock, with
// [WithKazooNames] with kazoo's ReadLock and WriteLock.
//
// The algorithm is "Shared Locks" of the ZooKeeper recipes. Here goroutines of one process share a
// read node, and [RWMutex.Downgrade], [WithHandoff] and [WithMaxIdle] are additions.
package rwlock
