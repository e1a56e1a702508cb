package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/leader"
)

const (
	failoverTick = 500 * time.Millisecond // how often ZooKeeper ends sessions; etcd checks its leases as often
	candidates   = 3
)

// candidacy is the order to a candidate of package leader.
type candidacy struct {
	Server, Path string
	Timeout      time.Duration
}

// obey prints "leads" when the candidate leads, and resigns at the first line from its parent.
func (c *candidacy) obey() error {
	ctx, resign := context.WithCancel(context.Background())
	defer resign()
	lines := realzk.Lines()
	conn, err := zklocks.Connect(ctx, []string{c.Server}, c.Timeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = leader.New(conn, c.Path).Run(ctx, func(context.Context, *zklocks.Hold) error {
		fmt.Println("leads")
		<-lines
		resign()
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// office is an election among candidates of one library, each in its own process.
type office struct {
	*testing.T
	name     string
	campaign func() *realzk.Child
	queued   func() int // how many candidates have queued
	resign   func(*realzk.Child)
	queue    []*realzk.Child // the leader, and the other candidates in their order
}

// fill starts candidates until all have queued.
func (o *office) fill() {
	for len(o.queue) < candidates {
		o.queue = append(o.queue, o.campaign())
		test.Eventually(o.T, patience, "the candidate has queued", func() bool { return o.queued() == len(o.queue) })
	}
}

// vacant makes the leader leave, and returns how long it took until the next candidate led.
func (o *office) vacant(leave func(*realzk.Child)) time.Duration {
	began := time.Now()
	leave(o.queue[0])
	o.queue = o.queue[1:]
	o.queue[0].Hears("leads")
	took := time.Since(began)
	test.Eventually(o.T, patience, "the leader's node is deleted", func() bool { return o.queued() == len(o.queue) })
	o.fill()
	return took
}

// failovers measures how long there is no leader, from the SIGKILL of the leader's process or from
// its order to resign until the next candidate leads: for package leader, and at full size next to
// Curator's LeaderLatch and etcd.
func failovers(t *testing.T, o options) {
	timeout, server := time.Second, ""
	if o.short() {
		server = realzk.Servers(t)[0]
	} else {
		timeout, server = 4*time.Second, realzk.Standalone(t, realzk.Options{Tick: failoverTick, ForceSync: true}).Addr()
	}
	witness := realzk.Connect(t, lasting, server)
	base := test.Path(t)
	children := func(path string) func() int {
		return func() int {
			names, _, err := witness.Client().Children(path)
			if err != nil {
				return 0 // the directory does not exist yet
			}
			return len(names)
		}
	}
	resign := func(c *realzk.Child) { c.Say("resign") }
	offices := []*office{{name: "zklocks/leader", resign: resign, queued: children(base), campaign: func() *realzk.Child {
		return realzk.StartChild(t, childEnv, candidacy{server, base, timeout})
	}}}
	if !o.short() {
		etcd := startEtcd(t)
		curator := base + "-curator"
		offices = append(offices, &office{name: "Curator LeaderLatch", resign: resign, queued: children(curator), campaign: func() *realzk.Child {
			cmd, missing := realzk.CuratorProgram(t, filepath.Join("testdata", "Latch.java"), server, curator, fmt.Sprint(timeout.Milliseconds()))
			if cmd == nil {
				t.Fatal(missing)
			}
			return realzk.StartProgram(t, cmd)
		}}, &office{
			// etcd's Election and its Mutex queue in the same way, by the oldest key with a lease.
			// The holder prints its key, which begins with the mutex's name.
			name: "etcd", resign: func(c *realzk.Child) { c.Signal(os.Interrupt) }, queued: etcd.keys, campaign: func() *realzk.Child {
				return realzk.StartProgram(t, etcd.ctl("lock", "--ttl", fmt.Sprint(int(timeout.Seconds())), etcdMutex))
			},
		})
	}
	rows := make([]string, len(offices))
	var all sync.WaitGroup
	for i, of := range offices {
		all.Go(func() {
			of.T = t
			var killed, resigned quantiles
			of.fill()
			of.queue[0].Hears("leads")
			for began := time.Now(); len(killed) == 0 || !o.short() && time.Since(began) < o.For; {
				pass(rand.N(timeout / 2)) // the kill comes at any phase of the heartbeat
				killed = append(killed, of.vacant((*realzk.Child).Kill))
				resigned = append(resigned, of.vacant(of.resign))
			}
			slices.Sort(killed)
			slices.Sort(resigned)
			rows[i] = fmt.Sprintf("| %s | %d | %s, %s | %s, %s |", of.name, len(killed), killed.at(0.5), killed.at(1), resigned.at(0.5), resigned.at(1))
		})
	}
	all.Wait()
	t.Logf("T = %v\n| | times | killed: median, longest | resigned: median, longest |\n|---|---|---|---|\n%s", timeout, strings.Join(rows, "\n"))
}

const etcdMutex = "leads " // its name

// etcd is a server of one member.
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
	test.Eventually(t, patience, "etcd serves", func() bool { return e.ctl("endpoint", "health").Run() == nil })
	return e
}

// ctl runs etcd's command line client.
func (e *etcd) ctl(args ...string) *exec.Cmd {
	cmd := exec.Command("etcdctl", append([]string{"--endpoints", e.endpoint}, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	return cmd
}

// keys counts the keys of the candidates.
func (e *etcd) keys() int {
	out, err := e.ctl("get", "--prefix", "--keys-only", etcdMutex).Output()
	if err != nil {
		e.t.Errorf("etcdctl get: %v", err)
	}
	return strings.Count(string(out), etcdMutex)
}
