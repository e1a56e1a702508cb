package once

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/rwlock"
)

// Option changes a default of [New]. The ACL of [zklocks.WithACL] applies to the record of the last
// run, too. The data of [zklocks.WithData] are stored in the lock's nodes only.
type Option = zklocks.Option

// Job is a job that one process of the cluster runs in each period. It may be used by many
// goroutines at once: each call of RunEvery and RunSlot queues separately. It remains usable after
// any error. It has to be made by New: calls of the zero value return an error.
type Job struct {
	lock   *rwlock.RWMutex // excludes other runs
	queue  *queue.Queue    // checks the arguments of New and names the path in errors; nothing queues here
	record string          // the node of the last completed run
	acl    []zk.ACL
}

// New returns the job at path. The path must be a node for this job alone; it is created when it is
// first needed. Below it, the persistent node "last" is the record of the last run, and the node
// "lock" is the queue of the lock, which the server deletes while it is not used. New does no I/O:
// the first call reports bad arguments.
func New(conn *zklocks.Conn, path string, opts ...Option) *Job {
	cfg := slot.Config(conn, "once", path)
	slot.Apply(opts, &cfg, new(struct{}), func(*struct{}) {})
	named := make([]rwlock.Option, 0, len(opts)+1)
	for _, opt := range opts {
		named = append(named, opt)
	}
	named = append(named, slot.Common(func(cfg *queue.Config) { cfg.Recipe = "once" })) // in errors
	return &Job{lock: rwlock.New(conn, path+"/lock", named...), queue: queue.New(cfg), record: cfg.Dir + "/last", acl: cfg.ACL}
}

// Run is a completed run, as its record describes it. All times are by the ensemble's clock.
type Run struct {
	Slot   string    `json:"slot,omitempty"` // the last slot that was run; empty if RunSlot has run none
	Called time.Time `json:"called"`         // when RunEvery or RunSlot was called; RunEvery compares this time
	Start  time.Time `json:"start"`          // when the work began, which is later if the call waited
	End    time.Time `json:"end"`
	Host   string    `json:"host,omitempty"` // of the process that did the work
	Pid    int       `json:"pid"`            // the number of that process
}

// RunEvery calls work, unless a process of the cluster has done the work of this period: then the
// error matches [ErrDone]. The work of this period is done if the last completed run was called
// less than half a period before this call, or after it. All processes should call RunEvery at the
// same times, once in each period; the package comment explains the rule.
//
// If another process is doing the work, RunEvery waits. If that process completes the work, the
// error matches ErrDone. If its work fails or the process dies, the next waiting caller does the
// work. Callers wait in the order of arrival, without a limit: ctx bounds both the wait and the
// work. If a run takes longer than a period, the next calls wait for its end; then one of them
// runs.
//
// work receives the hold on the lock, for its fencing token and transactions, and a context that is
// canceled when ctx is canceled or the lock is lost. When work has returned nil, RunEvery records
// the run, even if ctx was canceled meanwhile: it waits for a server for as long as the lock is
// held. Then it releases the lock, as [zklocks.Do] does. RunEvery records nothing if work returns
// an error, panics or releases the hold, or if the lock is lost first: the next caller runs the
// work again.
//
// If work returns an error, RunEvery returns that error. If work has returned nil and the record is
// not confirmed, the error says so; it matches [zklocks.ErrLost] if the lock was lost. RunEvery
// also returns the errors of [rwlock.RWMutex.Lock]; zk.ErrNoAuth if the client lacks READ or WRITE
// on the record; and at once what is wrong with the arguments.
func (j *Job) RunEvery(ctx context.Context, period time.Duration, work func(context.Context, *zklocks.Hold) error) error {
	if period <= 0 {
		return j.wrap("run", fmt.Errorf("the period is %v: it must be positive", period))
	}
	return j.run(ctx, "", work, func(last history, called, now time.Time) error {
		// A record from the future was written by a wrong clock. It must not stop the job for long.
		if called.Sub(last.Called) < period/2 && last.Called.Sub(now) < period/2 {
			return fmt.Errorf("%w: %s", ErrDone, last.what())
		}
		return nil
	})
}

// RunSlot calls work, unless a process of the cluster has done the work of this slot: then the
// error matches [ErrDone]. Slots are compared as strings and must grow: dates such as "2026-11-26",
// or numbers with leading zeros ("10" is smaller than "9"). A slot has at most 1024 bytes.
//
// If a larger slot has been completed and this slot has not, RunSlot does not call work: the error
// matches [ErrPassed]. The record has the largest slot and the 32 slots that were completed before
// it. For a slot that was completed earlier the error matches ErrPassed, too. In both cases RunSlot
// sends one read.
//
// Everything else is as in [Job.RunEvery].
func (j *Job) RunSlot(ctx context.Context, slot string, work func(context.Context, *zklocks.Hold) error) error {
	switch {
	case slot == "":
		return j.wrap("run", errors.New("the slot is empty"))
	case len(slot) > maxSlot:
		return j.wrap("run", fmt.Errorf("the slot has %d bytes, the limit is %d", len(slot), maxSlot))
	case !utf8.ValidString(slot):
		return j.wrap("run", fmt.Errorf("the slot %q is not valid UTF-8", slot))
	}
	// The answer may be out of date, but a slot that was done or passed remains so.
	if last, err := j.last(ctx); err == nil {
		if err := last.refuses(slot); err != nil {
			return j.wrap("run", err)
		}
	}
	return j.run(ctx, slot, work, func(last history, _, _ time.Time) error { return last.refuses(slot) })
}

const maxSlot = 1 << 10 // bytes

// Last returns the last completed run. The error matches [ErrNever] if there is none. Last reads
// from one server, so the result may be out of date. The other errors are ctx's error;
// zk.ErrClosing; zk.ErrNoAuth if the client lacks READ on the record; and what is wrong with the
// arguments of New.
func (j *Job) Last(ctx context.Context) (Run, error) {
	last, err := j.last(ctx)
	return last.Run, err
}

func (j *Job) last(ctx context.Context) (history, error) {
	if err := j.core().Invalid(); err != nil {
		return history{}, j.wrap("last run of", err)
	}
	last, data, _, err := j.read(ctx)
	if err == nil && len(data) == 0 {
		err = ErrNever
	}
	if err != nil {
		return history{}, j.wrap("last run of", err)
	}
	return last, nil
}

func (j *Job) wrap(op string, err error) error { return j.core().Wrap(op, err) }

func (j *Job) core() *queue.Queue {
	if j == nil || j.queue == nil {
		return queue.Unmade("once: Job")
	}
	return j.queue
}

// read returns the last run, the data of the record, and its Stat. Without a run the data are
// empty. Without a node the version is -1.
func (j *Job) read(ctx context.Context) (last history, data []byte, stat *zk.Stat, err error) {
	data, stat, err = j.queue.Client().Get(ctx, j.record)
	switch {
	case err == zk.ErrNoNode:
		return history{}, nil, &zk.Stat{Version: -1}, nil
	case err != nil:
		err = queue.Explain(err, "READ on "+j.record)
	case len(data) > 0:
		if json.Unmarshal(data, &last) != nil || last.Start.IsZero() {
			err = fmt.Errorf("%s has %d bytes of data that are not a record of a run", j.record, len(data))
		}
	}
	return last, data, stat, err
}

// write replaces this version of the record while the lock is held, and returns the new Stat. If
// the answer is lost, it reads the record: only the holder writes it, so equal data show that the
// write took place.
func (j *Job) write(ctx context.Context, hold *zklocks.Hold, data []byte, version int32) (*zk.Stat, error) {
	ops := []any{&zk.SetDataRequest{Path: j.record, Data: data, Version: max(version, 0)}}
	if version < 0 {
		ops = slices.Insert(ops, 0, any(&zk.CreateRequest{Path: j.record, Acl: j.acl}))
	}
	for {
		replies, err := hold.Multi(ctx, ops...)
		switch {
		case err == nil:
			return replies[len(replies)-1].Stat, nil
		case !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNodeExists):
			return nil, err
		}
		_, found, stat, failed := j.read(ctx)
		switch {
		case failed != nil:
			return nil, j.wrap("run", failed)
		case stat.Version > version && bytes.Equal(found, data):
			return stat, nil
		case stat.Version != version: // another program has written or deleted it
			return nil, err
		}
	}
}

// run calls work under the lock, unless refuses returns an error for the last run, the time of this
// call and the present time.
func (j *Job) run(ctx context.Context, slot string, work func(context.Context, *zklocks.Hold) error, refuses func(last history, called, now time.Time) error) error {
	if work == nil {
		panic("once: the function is nil")
	}
	if err := j.core().Invalid(); err != nil {
		return j.wrap("run", err)
	}
	began := time.Now()
	return zklocks.Do(ctx, j.lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
		// The grant shows that this server has deleted the previous holder's node. So it also shows
		// what that holder has recorded.
		last, data, stat, err := j.read(ctx)
		if err != nil {
			return j.wrap("run", err)
		}
		// Write the record back unchanged: the time of that write is the time of the ensemble.
		waited := time.Since(began)
		if stat, err = j.write(ctx, hold, data, stat.Version); err != nil {
			return err
		}
		now := time.UnixMilli(stat.Mtime).UTC()
		run := last.next(slot)
		run.Called, run.Start = now.Add(-waited.Round(time.Millisecond)), now
		if err := refuses(last, run.Called, now); err != nil {
			return j.wrap("run", err)
		}
		began := time.Now()
		if err := work(ctx, hold); err != nil {
			return err
		}
		run.End = now.Add(time.Since(began).Round(time.Millisecond))
		run.Host, _ = os.Hostname() // a process without a name still has a number
		if data, err = json.Marshal(run); err == nil {
			_, err = j.write(hold.Context(context.WithoutCancel(ctx)), hold, data, stat.Version)
		}
		if err != nil {
			return fmt.Errorf("the work is done, but the record of it is not confirmed: %w", err)
		}
		return nil
	})
}

// history is the content of the record: the last run, and the slots before its slot.
type history struct {
	Run
	Earlier []string `json:"earlier,omitempty"` // completed before Slot, in this order; at most maxEarlier
}

const maxEarlier = 32

// refuses returns nil if the slot is larger than all that were completed.
func (h history) refuses(slot string) error {
	switch {
	case slot > h.Slot:
		return nil
	case slot == h.Slot:
		return fmt.Errorf("%w: %s", ErrDone, h.what())
	case slices.Contains(h.Earlier, slot):
		return fmt.Errorf("%w: slot %q, before %s", ErrDone, slot, h.what())
	}
	return fmt.Errorf("%w: the record does not have slot %q, and slots must grow: the last is %s", ErrPassed, slot, h.what())
}

// next returns the history with a run of the slot, or of the same slot if that is empty.
func (h history) next(slot string) history {
	next := history{Run{Slot: h.Slot, Pid: os.Getpid()}, h.Earlier}
	if slot == "" {
		return next
	}
	if h.Slot != "" {
		next.Earlier = append(slices.Clip(h.Earlier), h.Slot)
		next.Earlier = next.Earlier[max(0, len(next.Earlier)-maxEarlier):]
	}
	next.Slot = slot
	return next
}

// what describes the last run.
func (h history) what() string {
	slot := ""
	if h.Slot != "" {
		slot = fmt.Sprintf("slot %q, ", h.Slot)
	}
	return fmt.Sprintf("%sby process %d on %q, from %s to %s", slot, h.Pid, h.Host, h.Start.Format(time.RFC3339), h.End.Format(time.RFC3339))
}
