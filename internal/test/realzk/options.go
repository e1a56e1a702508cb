package realzk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/test/proxy"
)

// Options shape the servers that Start and StartEnsemble run. The zero value is right for most
// tests.
type Options struct {
	// Tick is tickTime, the unit in which the server counts. Sessions last at least two ticks and
	// end up to one tick late. 0: 100ms, so that sessions of 200ms are granted; give a session that
	// is meant to live 1s or more.
	Tick time.Duration

	// ContainerCheck is how often empty container nodes are swept away. 0: 500ms. (A real server's
	// default is a minute.)
	ContainerCheck time.Duration

	// ForceSync makes each transaction wait for the disk, as a production server does. False: the
	// page cache is enough, which is safe against Kill, because only the process dies.
	ForceSync bool

	// Partitions makes the members of an ensemble reach each other through proxies of ours, so that
	// Ensemble.Isolate can separate them.
	Partitions bool

	// Config holds further lines of zoo.cfg, which override ours.
	Config map[string]string

	// Home is where the server's version is unpacked, "" for the one that ZK_HOME names or that is
	// installed: for tests of two versions at a time.
	Home string

	// JVM holds further flags of the virtual machine.
	JVM []string

	// Env holds further variables of the server's environment.
	Env []string
}

func (o Options) withDefaults() Options {
	if o.Tick <= 0 {
		o.Tick = 100 * time.Millisecond
	}
	if o.ContainerCheck <= 0 {
		o.ContainerCheck = 500 * time.Millisecond
	}
	return o
}

func (o Options) flags() []string {
	return append([]string{
		// These start a server in two thirds of the default's time.
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		// 3.4 would not start without log4j, which is not on the class path (jarsUnder).
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dzookeeper.forceSync=" + yesNo(o.ForceSync),
		fmt.Sprintf("-Dznode.container.checkIntervalMs=%d", o.ContainerCheck.Milliseconds()),
	}, o.JVM...)
}

// config is the text of zoo.cfg; more are the lines that only one server has.
func (o Options) config(more map[string]string) string {
	lines := map[string]string{
		"tickTime":                fmt.Sprint(o.Tick.Milliseconds()),
		"clientPortAddress":       proxy.Host,
		"maxClientCnxns":          "0",
		"minSessionTimeout":       fmt.Sprint(2 * o.Tick.Milliseconds()),
		"maxSessionTimeout":       "60000",
		"admin.enableServer":      "false",
		"4lw.commands.whitelist":  "*",
		"forceSync":               yesNo(o.ForceSync),
		"preAllocSize":            "1024", // KiB of log file, in place of 64 MiB
		"initLimit":               o.ticks(o.initLimit()),
		"syncLimit":               o.ticks(2 * time.Second),
		"quorumListenOnAllIPs":    "false",
		"autopurge.purgeInterval": "0",
	}
	maps.Copy(lines, more)
	maps.Copy(lines, o.Config)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&b, "%s=%s\n", key, lines[key])
	}
	return b.String()
}

// initLimit allows for a busy machine. Across a partition it is also how long members go on trying
// to follow a leader that cannot answer.
func (o Options) initLimit() time.Duration {
	if o.Partitions {
		return 4 * time.Second
	}
	return 20 * time.Second
}

// ticks is d in ticks, at least the 5 that ZooKeeper's own sample has.
func (o Options) ticks(d time.Duration) string {
	return fmt.Sprint(max(5, int64((d+o.Tick-1)/o.Tick)))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
