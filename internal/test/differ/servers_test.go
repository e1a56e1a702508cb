package differ

import (
	"errors"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/test"
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
	// lapsing: sessions of ShortSession expire soon. The rest of idle is for a busy machine.
	lapsing = mode{tick: 100 * time.Millisecond, sweep: time.Hour, idle: ShortSession*time.Millisecond + 500*time.Millisecond}
	// sweeping: time for three sweeps, because a container may be the last child of another.
	sweeping = mode{tick: 2 * time.Second, sweep: 100 * time.Millisecond, wait: 400 * time.Millisecond}
)

var versionLine = regexp.MustCompile(`Zookeeper version: (\d+\.\d+\.\d+)`)

// java starts a Java server: the server under home, or the installed server.
func java(t *testing.T, home string, m mode) *Target {
	t.Helper()
	s := realzk.Standalone(t, realzk.Options{
		Home:           home,
		Tick:           m.tick,
		ContainerCheck: m.sweep,
		JVM: []string{
			"-Dzookeeper.extendedTypesEnabled=true",
			"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + SuperDigest,
		},
	})
	stat, err := s.Stat()
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
	var ensemble *memzk.Ensemble
	var listener net.Listener
	var served chan error
	stop := func() {
		if ensemble != nil {
			ensemble.Stop()
			_ = listener.Close()
			<-served
		}
	}
	target := &Target{Name: "memzk " + version, Version: version, Idle: m.idle, Sweep: m.wait}
	target.Fresh = func() {
		stop()
		var err error
		// TCP, because an ACL may name the client's address.
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		ensemble = memzk.Start(memzk.Config{
			Tick: m.tick, MaxSession: time.Minute, ContainerCheck: m.sweep, TTLNodes: true, Version: version,
		})
		served = make(chan error, 1)
		go func(e *memzk.Ensemble, l net.Listener, served chan<- error) {
			served <- e.Leader().Serve(l)
		}(ensemble, listener, served)
	}
	target.Dial = func() (net.Conn, error) { return net.Dial("tcp", listener.Addr().String()) }
	t.Cleanup(stop)
	t.Cleanup(target.Close)
	return target
}

// pair is two servers that must behave alike.
type pair [2]*Target

func (p pair) names() [2]string { return [2]string{p[0].Name, p[1].Name} }

func (p pair) play(t *testing.T, q Sequence) [2]Transcript {
	t.Helper()
	return inTime(t, q, p.playOnce)
}

// inTime plays a sequence again if the machine was too busy, which the clock shows, whatever the
// servers have answered.
func inTime[T any](t *testing.T, q Sequence, play func(Sequence) (T, error)) T {
	t.Helper()
	for range 20 {
		scripts, err := play(q)
		if errors.Is(err, ErrLate) {
			continue
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, q)
		}
		return scripts
	}
	t.Fatalf("%v, twenty times:\n%s", ErrLate, q)
	panic("unreachable")
}

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

// compare plays a sequence and returns how the servers differ, except for what their versions
// explain.
func (p pair) compare(t *testing.T, q Sequence) (*Difference, []string) {
	t.Helper()
	scripts := p.play(t, q)
	return Compare(q, p.names(), scripts[0], scripts[1], Between(p[0].Version, p[1].Version))
}

// shrink searches, in at most "tries" plays, for a shorter sequence for which the servers differ in
// the same way as in d.
func (p pair) shrink(t *testing.T, d *Difference, tries int) *Difference {
	t.Helper()
	return Shrink(d, tries, func(q Sequence) *Difference {
		d, _ := p.compare(t, q)
		return d
	})
}

func number(t *testing.T, env string, otherwise int64) int64 {
	t.Helper()
	test.Setting(t, env, &otherwise, func(v string) (int64, error) { return strconv.ParseInt(v, 10, 64) })
	return otherwise
}
