// Package failover measures how long there is no leader: from the SIGKILL of the leader's process,
// or from the word to resign, until the next candidate says that it leads. Package leader,
// Curator's LeaderLatch and etcd are measured beside each other, each with three candidates that
// are processes of their own.
package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/leader"
)

const (
	timeout    = 4 * time.Second        // of a session, and the time to live of a lease
	tick       = 500 * time.Millisecond // how often ZooKeeper ends sessions; etcd looks at its leases as often
	candidates = 3
	childEnv   = "FAILOVER_CHILD"
)

// order is what a candidate of package leader is told.
type order struct{ Server, Path string }

func TestMain(m *testing.M) {
	var o order
	if realzk.Ordered(childEnv, &o) {
		if err := candidate(o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Main(m)
}

// candidate says "leads" when it does, and resigns at the first line that it is told.
func candidate(o order) error {
	ctx, resign := context.WithCancel(context.Background())
	defer resign()
	told := realzk.Lines()
	conn, err := zklocks.Connect(ctx, []string{o.Server}, timeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = leader.New(conn, o.Path).Run(ctx, func(context.Context, *zklocks.Hold) error {
		fmt.Println("leads")
		<-told
		resign()
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// A station is what the candidates of one library run for.
type station struct {
	*testing.T
	campaign func() *realzk.Child
	queued   func() int // how many of them have queued
	resign   func(*realzk.Child)
	queue    []*realzk.Child // the leader, and the others in their order
}

// fill has candidates join until all are there.
func (o *station) fill() {
	o.Helper()
	for len(o.queue) < candidates {
		o.queue = append(o.queue, o.campaign())
		test.Eventually(o.T, time.Minute, "the candidate has queued", func() bool { return o.queued() == len(o.queue) })
	}
}

// vacant has the leader go, and returns how long it took until the next one led.
func (o *station) vacant(leave func(*realzk.Child)) time.Duration {
	o.Helper()
	began := time.Now()
	leave(o.queue[0])
	o.queue = o.queue[1:]
	o.queue[0].Hears("leads")
	took := time.Since(began)
	test.Eventually(o.T, time.Minute, "the one before has gone", func() bool { return o.queued() == len(o.queue) })
	o.fill()
	return took
}

func TestFailover(t *testing.T) {
	rounds := 0
	if test.Setting(t, "FAILOVER", &rounds, strconv.Atoi); rounds < 1 {
		t.Log("FAILOVER is not set to a number of rounds: nothing is measured")
		return
	}
	server := realzk.Standalone(t, realzk.Options{Tick: tick, ForceSync: true})
	witness := realzk.Connect(t, 10*time.Second, server.Addr())
	children := func(path string) func() int {
		return func() int {
			names, _, err := witness.Children(path)
			if err != nil {
				return 0 // it is not made yet
			}
			return len(names)
		}
	}
	resign := func(c *realzk.Child) { c.Say("resign") }
	etcd := startEtcd(t)

	offices := []struct {
		name string
		open func(t *testing.T) *station
	}{
		{"zklocks/leader", func(t *testing.T) *station {
			return &station{T: t, resign: resign, queued: children("/ours"), campaign: func() *realzk.Child {
				return realzk.StartChild(t, childEnv, order{server.Addr(), "/ours"})
			}}
		}},
		{"Curator LeaderLatch", func(t *testing.T) *station {
			return &station{T: t, resign: resign, queued: children("/curator"), campaign: func() *realzk.Child {
				cmd, missing := realzk.CuratorProgram(t, filepath.Join("curator", "Latch.java"), server.Addr(), "/curator", fmt.Sprint(timeout.Milliseconds()))
				if cmd == nil {
					t.Fatal(missing)
				}
				return realzk.StartProgram(t, cmd)
			}}
		}},
		// etcd's Election and its Mutex queue in the same way, by the oldest key with a lease. The
		// holder prints its key, which begins with the mutex's name.
		{"etcd", func(t *testing.T) *station {
			return &station{T: t, resign: func(c *realzk.Child) { c.Signal(os.Interrupt) }, queued: etcd.keys, campaign: func() *realzk.Child {
				return realzk.StartProgram(t, etcd.ctl("lock", "--ttl", fmt.Sprint(int(timeout.Seconds())), office))
			}}
		}},
	}
	var mu sync.Mutex
	table := make(map[string]string)
	t.Run("all", func(t *testing.T) {
		for _, o := range offices {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				var killed, resigned []time.Duration
				office := o.open(t)
				office.fill()
				office.queue[0].Hears("leads")
				for range rounds {
					// Real time: the kill comes at any phase of the heartbeat.
					time.Sleep(rand.N(timeout / 2))
					killed = append(killed, office.vacant((*realzk.Child).Kill))
					resigned = append(resigned, office.vacant(office.resign))
				}
				mu.Lock()
				defer mu.Unlock()
				table[o.name] = fmt.Sprintf("| %s | %s | %s |", o.name, spread(killed), spread(resigned))
			})
		}
	})
	if t.Failed() {
		return
	}
	fmt.Println("| | killed: median, longest | resigned: median, longest |")
	fmt.Println("|---|---|---|")
	for _, o := range offices {
		fmt.Println(table[o.name])
	}
}

// spread is the median and the longest.
func spread(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%.3g s, %.3g s", all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
}

const office = "leads " // the name of etcd's mutex

// An etcd is a server of one member.
type etcd struct {
	t        *testing.T
	endpoint string
}

func startEtcd(t *testing.T) *etcd {
	t.Helper()
	ports, err := proxy.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	url := func(port int) string { return fmt.Sprintf("http://%s:%d", proxy.Host, port) }
	cmd := exec.Command("etcd", "--data-dir", t.TempDir(), "--log-level", "error",
		"--listen-client-urls", url(ports[0]), "--advertise-client-urls", url(ports[0]),
		"--listen-peer-urls", url(ports[1]), "--initial-advertise-peer-urls", url(ports[1]), "--initial-cluster", "default="+url(ports[1]))
	server := realzk.StartProgram(t, cmd)
	t.Cleanup(func() { server.Signal(syscall.SIGTERM) })
	e := &etcd{t, url(ports[0])}
	test.Eventually(t, time.Minute, "etcd serves", func() bool { return e.ctl("endpoint", "health").Run() == nil })
	return e
}

// ctl is its command line.
func (e *etcd) ctl(args ...string) *exec.Cmd {
	cmd := exec.Command("etcdctl", append([]string{"--endpoints", e.endpoint}, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	return cmd
}

// keys counts those of the candidates.
func (e *etcd) keys() int {
	out, err := e.ctl("get", "--prefix", "--keys-only", office).Output()
	if err != nil {
		e.t.Fatalf("etcdctl get: %v", err)
	}
	return strings.Count(string(out), office)
}
