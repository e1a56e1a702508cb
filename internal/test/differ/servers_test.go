package differ

import (
	"errors"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// mode is the configuration of the servers for a class of sequences.
type mode struct {
	tick, sweep time.Duration
	idle, wait  time.Duration // Target.Idle, Target.Sweep
}

var (
	// calm: nothing happens by itself during a sequence.
	calm = mode{tick: 2 * time.Second, sweep: time.Hour}
	// lapsing: sessions of 700 ms expire soon. The rest of idle is for a busy machine.
	lapsing = mode{tick: 100 * time.Millisecond, sweep: time.Hour, idle: 1200 * time.Millisecond}
	// sweeping: time for three sweeps, because a container may be the last child of another.
	sweeping = mode{tick: 2 * time.Second, sweep: 100 * time.Millisecond, wait: 400 * time.Millisecond}
)

var versionLine = regexp.MustCompile(`Zookeeper version: (\d+\.\d+\.\d+)`)

// java starts the installed server.
func java(t *testing.T, m mode) *Target {
	t.Helper()
	s := realzk.Standalone(t, realzk.Options{
		Tick:           m.tick,
		ContainerCheck: m.sweep,
		JVM: []string{
			"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + SuperDigest,
		},
	})
	stat, err := s.Word("srvr")
	if err != nil {
		t.Fatal(err)
	}
	version := versionLine.FindStringSubmatch(stat)
	if version == nil {
		t.Fatalf("no version in %q", stat)
	}
	target := &Target{
		Name:    "Java " + version[1],
		Version: version[1],
		Dial:    func() (net.Conn, error) { return net.Dial("tcp", s.Addr()) },
		Idle:    m.idle,
		Sweep:   m.wait,
	}
	t.Cleanup(target.Close)
	return target
}

// memory starts in-memory servers, a new one for each sequence.
func memory(t *testing.T, version string, m mode) *Target {
	t.Helper()
	stop := func() {}
	target := &Target{Name: "memzk " + version, Version: version, Idle: m.idle, Sweep: m.wait}
	target.Fresh = func() {
		stop()
		// TCP, because an ACL may name the client's address.
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ensemble := memzk.Start(memzk.Config{
			Tick: m.tick, MaxSession: time.Minute, ContainerCheck: m.sweep, Version: version,
		})
		served := make(chan error, 1)
		go func() { served <- ensemble.Leader().Serve(listener) }()
		stop = func() {
			ensemble.Stop()
			<-served
		}
		target.Dial = func() (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }
	}
	t.Cleanup(func() { stop() })
	t.Cleanup(target.Close)
	return target
}

// pair is two servers that must behave alike.
type pair [2]*Target

func (p pair) playOnce(q Sequence) (scripts [2]Transcript, err error) {
	second := make(chan error, 1)
	go func() {
		var err error
		scripts[1], err = p[1].Run(q)
		second <- err
	}()
	scripts[0], err = p[0].Run(q)
	return scripts, errors.Join(err, <-second)
}

// inTime plays a sequence again if the machine was too busy, which the clock shows, whatever the
// servers have answered.
func inTime[T any](t *testing.T, q Sequence, play func(Sequence) (T, error)) (scripts T) {
	t.Helper()
	err := ErrLate
	for tries := 0; errors.Is(err, ErrLate) && tries < 20; tries++ {
		scripts, err = play(q)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, q)
	}
	return scripts
}

// compare plays a sequence and returns how the servers differ.
func (p pair) compare(t *testing.T, q Sequence) *Difference {
	t.Helper()
	scripts := inTime(t, q, p.playOnce)
	return Compare(q, [2]string{p[0].Name, p[1].Name}, scripts[0], scripts[1])
}

func (p pair) shrink(t *testing.T, d *Difference, tries int) *Difference {
	t.Helper()
	return Shrink(d, tries, func(q Sequence) *Difference { return p.compare(t, q) })
}
