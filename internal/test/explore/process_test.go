package explore

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
)

// processEnv has the order to a process that TestProcesses starts: a copy of the test's program.
const processEnv = "EXPLORE_PROCESS"

// An order is the part of a world that one process plays: a host and its workers.
type order struct {
	Seed      uint64
	Name      string   // of the host
	Servers   []string // as the process reaches them
	Session   time.Duration
	For       time.Duration
	Workers   int
	Paths     []string
	Store     string
	Calm      bool // nothing breaks: no hold may be lost
	Testament string
}

// A testament is what a process says at the end: its holds, and what it has done and found.
type testament struct {
	Holds []history.Hold
	Tally map[string]int
	Found []complaint
}

type complaint struct {
	At   int64
	Text string
}

// plan describes a world on real servers. Half of all callers give up, or all workers would wait
// for a holder that cannot be reached.
func (o order) plan() plan {
	p := plan{
		seed: o.Seed, hosts: 1, workers: o.Workers, paths: len(o.Paths), session: o.Session, length: o.For, real: true,
		patience: time.Minute, idle: time.Millisecond, stay: 10 * time.Millisecond, least: 10 * time.Microsecond,
		long: 400, seldom: 8, proofs: 100, asks: 2, rashness: 2, reigns: 3, kind: kind{name: "real", calm: o.Calm},
	}
	if o.Calm {
		p.long = math.MaxInt // a session is long there
	}
	return p
}

// obey plays the part, and waits for a line before it closes its connection: until then no server
// deletes a node that a lock has left behind.
func (o order) obey(lines <-chan string) error {
	w := newWorld(o.plan(), o.Paths, history.Now)
	w.store = o.Store
	h := &host{world: w, name: o.Name, net: &machine{addrs: o.Servers}}
	h.connect()
	w.hosts = []*host{h}
	var tallies []map[string]int
	var working sync.WaitGroup
	for i := range o.Workers {
		k := newWorker(h, i, rand.New(rand.NewPCG(o.Seed, uint64(i))))
		tallies = append(tallies, k.tally)
		working.Go(k.run)
	}
	working.Wait()
	test.Poll(w.patience, func() bool { return w.balance.isEven() }) // until background releases are observed
	w.balanced()
	w.testify()
	t := testament{Holds: w.rec.Holds(), Tally: sum(tallies...)}
	for _, f := range w.found {
		t.Found = append(t.Found, complaint{f.at, f.text})
	}
	f, err := os.Create(o.Testament)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(f).Encode(t); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	fmt.Println("done")
	<-lines
	_ = h.client().conn.Close()         // on a busy machine the answer may take longer than Close waits
	test.Poll(w.patience, func() bool { // goleak itself waits half a second
		err = goleak.Find(goleak.IgnoreAnyFunction("github.com/zklocks/zklocks/internal/test/realzk.Lines.func1"))
		return err == nil
	})
	return err
}
