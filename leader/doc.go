// Package leader elects one of many processes as the leader, and another when the leader resigns or
// fails. Use it for work that one process of a cluster does at a time. The election is kept in
// Apache ZooKeeper.
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
// Candidates queue in the order of arrival, and the first of them leads. A term is a
// [zklocks.Hold]: an election is an exclusive lock whose holder is the leader. Package
// [github.com/zklocks/zklocks] describes its tokens, errors and guarantees.
//
// # When a leader fails
//
// With the session timeout of 10 s in the example:
//   - If the leader is cut off from the servers, the context of its function is canceled 4 to 7.5 s
//     after the last answer; in the first seconds of a session, up to 10 s.
//   - The next candidate leads 10 to 12 s after the leader's last packet, also if the leader's
//     process was killed.
//   - If ctx is canceled, so is the context of the function. When the function has returned, the
//     leader resigns, and the next candidate leads at once.
//
// # What is guaranteed
//
// [Election.Run]
//   - cancels the context of the function when the term is lost, before another process can lead;
//   - resigns when the function has returned or panicked, and not before, even if ctx was canceled;
//   - campaigns again after each term, after an expired session and after the path was deleted,
//     until its ctx is canceled;
//   - cancels the context of the function when a client asks the leader to release
//     ([zklocks.Conn.RequestRelease], zklock ask), and resigns when the function has returned;
//   - never begins a term while the function of the previous term runs;
//   - never calls the function in a process that has not become the leader.
//
// [Election.Leader] and [Election.Observe] show the leader to any process. Leader never returns a
// leader whose node was deleted before the call: it sends a quorum request before it reads. Observe
// never shows as current a leader that was replaced more than a session timeout ago.
//
// # What is not guaranteed
//
// It is not guaranteed that only one process acts as the leader. The function of a lost term may
// continue, because its process was paused or because the function ignores the cancellation of its
// context. [Election.Status] then reports [StateOverdue]. If something must not happen twice, write
// it by Hold.Multi, or have the store compare Hold.Token.
//
// The leader that Leader or Observe shows may not have received its grant yet, or it may have died
// while its session has not expired.
//
// # Other libraries
//
// The nodes have the names that Curator's InterProcessMutex and LeaderSelector use: Go and JVM
// processes elect one leader on one path, and Curator shows the data of [zklocks.WithData] as the
// participants' ids. [WithLatchNames] is for Curator's LeaderLatch, and [WithKazooNames] for
// kazoo's Election. Next to nodes with other names a candidate fails. A caller that holds a reentrant.Mutex on
// the path is the leader.
//
// [Election.Run] corresponds to LeaderSelector with autoRequeue. [Election.Campaign] and
// [Election.Proclaim] are named after methods of etcd's package concurrency. The algorithm is the
// "Leader Election" of the ZooKeeper recipes.
package leader
