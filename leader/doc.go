// Package leader elects one of many processes, kept in Apache ZooKeeper, and elects the next one
// when that is gone. It is for work of which a cluster has one worker at a time, for as long as
// that worker can do it.
//
//	conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//
//	election := leader.New(conn, "/examples/scheduler")
//	return election.Run(ctx, func(ctx context.Context, term *zklocks.Hold) error {
//		err := schedule(ctx, term.Token()) // this ctx ends when the term is lost
//		if err != nil && ctx.Err() == nil {
//			log.Print(err) // Run pauses, campaigns again, and does not report it
//		}
//		return err
//	})
//
// A term is a [zklocks.Hold]: an election is an exclusive lock whose holder is the leader, and
// candidates queue for it in the order of arrival. What a hold guarantees and what it does not, and
// which errors its methods return, is the same for all recipes: see package
// [github.com/zklocks/zklocks]. The algorithm is that of the ZooKeeper recipes, "Leader Election";
// [Election.Run] does what Curator's LeaderSelector with autoRequeue does, [Election.Campaign] and
// [Election.Proclaim] are named after those of etcd's package concurrency.
//
// # What is guaranteed
//
// [Election.Run]
//   - campaigns again by itself, after a loss, after an expired session and after the path was
//     deleted, until its ctx ends;
//   - ends the context of the function when the term is lost, before another process can lead;
//   - resigns when the function has returned and not before, also when ctx was canceled or the
//     function panics;
//   - has the function stop, and resigns, when the leader is asked to (zklocks.Conn.RequestRelease,
//     with what Leader or Queue has returned; zklock ask);
//   - never begins a term while the function of the last one still runs;
//   - calls nothing in a process that never led.
//
// [Election.Leader] and [Election.Observe] show the leader to any process, and no stale one as
// current: Leader asks a quorum before it reads, and what Observe shows as current was confirmed by
// a quorum within the session timeout.
//
// # What is not guaranteed
//
// That only one process acts as the leader. The function of a lost term may continue: its process
// was paused, or the function ignores the cancellation of its context. In that case [Status] reports
// [StateOverdue]. Do what must not happen twice by Hold.Multi, or have the store compare Hold.Token.
//
// The leader that is shown may not lead yet, or not any more: its node is first in the queue, and
// it has not heard of that, or it has died and its session has not expired.
//
// # Other libraries
//
// The nodes have the names of Curator's InterProcessMutex, and so those of its LeaderSelector: Go
// and JVM processes elect one leader on one path, and Curator's participants show the data of
// [zklocks.WithData] as their ids. With [WithLatchNames] the same goes for Curator's LeaderLatch,
// with [WithKazooNames] for kazoo's Election. Nodes with other names are ignored. A reentrant.Mutex
// on the path is a candidate like any other.
package leader
