// Package once runs a job once in each period in the whole cluster, kept in Apache ZooKeeper. Every
// process calls it on time, as cron or a ticker does. One process runs the job; in the others the
// call returns [ErrDone]. A lock alone is not enough: it excludes other processes only while the
// job runs, so a process whose clock is two seconds late would run a short job again.
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
// [Job.RunSlot] is for work that has a name in each period, such as the date of a report.
// [Job.RunEvery] is for work without such a name: it compares times.
//
// # How it works
//
// A job is an exclusive lock and a record of the last completed run. A caller acquires the lock and
// reads the record. If the work is done, it releases the lock. Otherwise it works, and writes the
// record in a transaction that takes place only while it holds the lock. Other callers wait for the
// lock. If the work fails or its process dies, there is no record, and the next waiting process
// does the work.
//
// # Which run counts for RunEvery
//
// Each process calls RunEvery at the same times by its own clock. The calls of one period arrive
// within seconds of each other, and the calls of the next period about a period later. So a call
// belongs to the period of the last run if it was made less than half a period after the call that
// led to that run, or before it.
//
// The rule compares the times of the calls, not when the work began or ended. A process may wait
// for an hour behind a process that then dies: its work begins an hour late, and still belongs to
// the period in which it was called. The next period's call must still run. A caller that waited
// for a long run must not do the work again.
//
// The ensemble's clock measures the time of a call: the holder reads the time of a write, and
// subtracts how long the call has taken until then. The clocks of the processes decide only when
// each process calls: they may differ by almost half a period.
//
// Two consequences:
//   - All processes must call at the same times. Tickers that start with their processes do not:
//     with twelve of them the work is done about twice in each period. Use RunSlot, or wait for the
//     next multiple of the period before each call.
//   - If the clock of the ensemble's leader is set forward or back, RunEvery counts that as time. A
//     run that was recorded more than half a period in the future does not count.
//
// # What is guaranteed, and what is not
//
// As long as the record exists, no slot is completed twice, and two runs are completed only if
// their calls are at least half a period apart. To have a job run again, delete the node "last".
//
// If no server answers for a whole night, that night's slot is not run. The next night's call
// completes a larger slot; then RunSlot refuses the missed slot with [ErrPassed]. To miss no slot,
// run every slot after [Job.Last], the smallest first: see the example CatchUp of [Job].
//
// The work itself can be done more than once: if it fails halfway, if its process dies after the
// work and before the record, or if the lock is lost (see [zklocks.Hold]). Make the work safe to
// repeat, or write its result by [zklocks.Hold.Multi]. If the work always fails, each process that
// calls tries it.
//
// What a hold guarantees, and the errors of its methods, are the same for all recipes: see package
// [github.com/zklocks/zklocks].
package once
