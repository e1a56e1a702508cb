package main

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/once"
)

// Locker is a gocron.Locker for the jobs of one period: of the processes whose schedulers have a
// job, one runs it in each period. With a lock alone, a process whose clock is late would run a
// short job again.
//
//	locker := NewLocker(conn, "/myapp/jobs", time.Hour)
//	scheduler.NewJob(gocron.CronJob("0 * * * *", false), gocron.NewTask(report),
//		gocron.WithName("report"), gocron.WithDistributedJobLocker(locker),
//		gocron.WithEventListeners(gocron.AfterJobRunsWithError(locker.Failed)))
//
// While a process runs the job, the others wait. If the process dies, the next process runs the
// job. It also does if the job fails and Failed is its listener. gocron does not cancel a job whose
// lock is lost: a task that must be notified calls once.Job.RunEvery itself, without a Locker.
type Locker struct {
	conn   *zklocks.Conn
	dir    string
	period time.Duration

	mu   sync.Mutex
	runs map[string]*run // by the job's name
}

// NewLocker returns a Locker for jobs that run once in each period, at the same times in each
// process: cron jobs, or duration jobs that start at a multiple of the period. The names of the
// jobs are nodes below dir.
func NewLocker(conn *zklocks.Conn, dir string, period time.Duration) *Locker {
	return &Locker{conn: conn, dir: dir, period: period, runs: map[string]*run{}}
}

// run is a gocron.Lock: the run of a job in this process.
type run struct {
	ended    chan error // receives how the job has ended
	recorded chan error // the result of RunEvery
	failure  error      // guarded by the Locker's mu
	locker   *Locker
	key      string
}

// Lock waits until this process must run the job, or another process has run it: then the error
// matches once.ErrDone.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	r := &run{ended: make(chan error), recorded: make(chan error, 1), locker: l, key: key}
	begun := make(chan struct{})
	job := once.New(l.conn, l.dir+"/"+url.PathEscape(key))
	go func() {
		r.recorded <- job.RunEvery(ctx, l.period, func(_ context.Context, hold *zklocks.Hold) error {
			l.mu.Lock()
			l.runs[key] = r
			l.mu.Unlock()
			close(begun)
			select {
			case err := <-r.ended: // gocron calls Unlock also after ctx was canceled
				return err
			case <-hold.Lost():
				<-r.ended
				return hold.Err()
			}
		})
	}()
	select {
	case <-begun:
		return r, nil
	case err := <-r.recorded:
		return nil, err
	}
}

// Unlock records the run, unless the job has failed.
func (r *run) Unlock(context.Context) error {
	r.locker.mu.Lock()
	failure := r.failure
	delete(r.locker.runs, r.key)
	r.locker.mu.Unlock()
	r.ended <- failure
	if err := <-r.recorded; failure == nil || !errors.Is(err, failure) {
		return err
	}
	return nil
}

// Failed is for gocron.AfterJobRunsWithError: the run is not recorded, and the next waiting process
// runs the job.
func (l *Locker) Failed(_ uuid.UUID, name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[name]; r != nil {
		r.failure = err
	}
}
