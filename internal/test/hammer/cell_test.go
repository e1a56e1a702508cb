package hammer

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// cell is what a lock protects: memory that all processes share. It finds two holders inside at the
// moment it happens, whatever the clocks say. The zero value is an empty cell.
type cell struct {
	writer  atomic.Int64 // the writer that is inside, 0: none
	readers atomic.Int64
	permits atomic.Int64
	sum     atomic.Int64 // of exclusive visits; read and written in two steps
	fence   atomic.Int64 // the largest token that has been inside
	written atomic.Int64 // the largest token of a writer
}

// cellsAt returns cells in memory that the processes share.
func cellsAt(shared []byte, n int) []cell {
	return unsafe.Slice((*cell)(unsafe.Pointer(&shared[0])), n)
}

const cellSize = int(unsafe.Sizeof(cell{}))

// visit is one stay inside.
type visit struct {
	cell  *cell
	me    int64
	token int64
	sum   int64
	wrong func(string)
}

func (c *cell) visit(me, token int64, wrong func(string)) *visit {
	return &visit{cell: c, me: me, token: token, wrong: wrong}
}

func (v *visit) complain(format string, args ...any) {
	v.wrong(fmt.Sprintf("cell: %d with token %d: ", v.me, v.token) + fmt.Sprintf(format, args...))
}

// raise makes a the larger of a and b.
func raise(a *atomic.Int64, b int64) {
	for {
		old := a.Load()
		if old >= b || a.CompareAndSwap(old, b) {
			return
		}
	}
}

func (v *visit) write() {
	c := v.cell
	if !c.writer.CompareAndSwap(0, v.me) {
		v.complain("writer %d is inside", c.writer.Load())
	}
	if n := c.readers.Load(); n != 0 {
		v.complain("%d readers are inside", n)
	}
	if fence := c.fence.Load(); v.token != 0 && v.token <= fence {
		v.complain("the store has seen token %d", fence)
	}
	raise(&c.fence, v.token)
	raise(&c.written, v.token)
	v.sum = c.sum.Load()
}

// again is a re-entry.
func (v *visit) again() {
	if writer := v.cell.writer.Load(); writer != v.me {
		v.complain("re-entered, and writer %d is inside", writer)
	}
}

func (v *visit) written() {
	v.again()
	if n := v.cell.readers.Load(); n != 0 {
		v.complain("%d readers have come in", n)
	}
	if sum := v.cell.sum.Load(); sum != v.sum {
		v.complain("%d others have written meanwhile", sum-v.sum)
	}
	v.cell.sum.Store(v.sum + 1)
	v.cell.writer.CompareAndSwap(v.me, 0)
}

// read begins a shared visit. A reader that was a writer until now has the token of the last
// writer.
func (v *visit) read(downgraded bool) {
	c := v.cell
	c.readers.Add(1)
	if writer := c.writer.Load(); writer != 0 {
		v.complain("writer %d is inside", writer)
	}
	last := c.written.Load()
	switch {
	case v.token == 0:
	case downgraded && v.token != last:
		v.complain("a writer with token %d has slipped in before the downgrade", last)
	case !downgraded && v.token <= last:
		v.complain("the store was written with token %d", last)
	}
	raise(&c.fence, v.token)
	v.sum = c.sum.Load()
}

func (v *visit) readAll() {
	if writer := v.cell.writer.Load(); writer != 0 {
		v.complain("writer %d has come in", writer)
	}
	if sum := v.cell.sum.Load(); sum != v.sum {
		v.complain("%d have written meanwhile", sum-v.sum)
	}
	v.cell.readers.Add(-1)
}

func (v *visit) take(n, limit int) {
	if now := v.cell.permits.Add(int64(n)); now > int64(limit) {
		v.complain("%d permits are taken, of %d", now, limit)
	}
}

func (v *visit) give(n int) { v.cell.permits.Add(int64(-n)) }
