// Package once runs a job once in each period in the whole cluster, kept in Apache ZooKeeper. Every
// process calls it on time, as cron or a ticker does; one process runs the job, and the others
// return [ErrDone]. A lock alone does not do that: it excludes other processes only while the job
// runs, so a process whose clock is two seconds late runs a short job again.
//
//	conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//
//	job := once.New(conn, "/examples/report")
//	err = job.RunSlot(ctx, day, func(ctx context.Context, hold *zklocks.Hold) error {
//		return sendReport(ctx, day) // this ctx is canceled when the lock is lost, too
//	})
//	if errors.Is(err, once.ErrDone) {
//		return nil // another process has sent the report of this day
//	}
//	return err
//
// [Job.RunSlot] is for work that has a name in each period, such as the day that a report is about.
// [Job.RunEvery] is for work that has none, and compares times.
//
// # How it works
//
// A job is an exclusive lock and a record of the last completed run. A caller acquires the lock and
// reads the record. If the work is done, it releases the lock. Otherwise it works, and writes the
// record in a transaction that takes place only while it holds the lock. A caller that comes
// meanwhile waits for the lock. If the work fails or its process dies, there is no record, and the
// next waiting process does the work.
//
// # Which run counts for RunEvery
//
// Each process calls RunEvery at the same times by its own clock: the calls of one period arrive
// within seconds of each other, and the calls of the next about a period later. So a call belongs
// to the period of a run if it was made less than half a period after the call that ran it, or
// before.
//
// Calls are compared, and not when the work began or ended. A process may have waited for an hour
// behind a process that then died: its work begins an hour late, and still belongs to the period in
// which it was called. The next period's call must not be refused because of that, nor may a caller
// that waited for a long run do the work again.
//
// The time of a call is measured by the ensemble's clock: the caller that holds the lock reads the
// time of a write, and subtracts how long the call has taken until then. The clocks of the
// processes decide only when each process calls: they may differ by almost half a period.
//
// Two consequences:
//   - All processes must call at the same times. Tickers that start with their processes do not:
//     with twelve of them the work is done about twice in each period. Use RunSlot, or wait for the
//     next multiple of the period before each call.
//   - A step of the clock of the ensemble's leader counts as a step of the time. A run that was
//     recorded more than half a period in the future does not count.
//
// # What is guaranteed, and what is not
//
// No slot is completed twice, and no two runs are completed whose calls are less than half a period
// apart, as long as the record exists. Delete the node "last" to have a job run again.
//
// The work itself can be done more than once: if it fails halfway, if its process dies after the
// work and before the record, or if the lock is lost (see [zklocks.Hold]). Make the work safe to
// repeat, or write its result by [zklocks.Hold.Multi]. Work that always fails is tried by each
// process that calls.
//
// What a hold guarantees, and the errors of its methods, are the same for all recipes: see package
// [github.com/zklocks/zklocks].
package once
