package realzk

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/test/proxy"
)

// Options configure the servers of Start and StartEnsemble. The zero value suits most tests.
type Options struct {
	// Tick is tickTime, ZooKeeper's unit of time. Session timeouts are at least two ticks, and
	// sessions expire up to one tick late. 0: 100 ms, so that timeouts of 200 ms are granted; a
	// session that must not expire needs 1 s or more.
	Tick time.Duration

	// ContainerCheck is how often empty container nodes are deleted; 0: 500 ms. (A real server's
	// default is a minute.)
	ContainerCheck time.Duration

	// ForceSync makes each transaction wait for the disk, as a production server does. Without it
	// the page cache must suffice, which is safe if only the process dies, as in Kill.
	ForceSync bool

	// Partitions makes the members of an ensemble use our proxies between them, so that
	// Ensemble.Isolate can separate them.
	Partitions bool

	// Dynamic gives an ensemble a dynamic configuration, which Ensemble.Add and clients can change.
	Dynamic bool

	// Config has further lines of zoo.cfg, which override ours.
	Config map[string]string

	// JVM has further flags of the virtual machine.
	JVM []string

	// Env has further environment variables of the server.
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
		// With these flags a server starts in two thirds of the default's time.
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.forceSync=" + yesNo(o.ForceSync),
		fmt.Sprintf("-Dznode.container.checkIntervalMs=%d", o.ContainerCheck.Milliseconds()),
	}, o.JVM...)
}

// config returns the text of zoo.cfg; more are lines of a single server.
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
		"preAllocSize":            "1024", // KiB of log file, instead of 64 MiB
		"initLimit":               o.ticks(o.initLimit()),
		"syncLimit":               o.ticks(2 * time.Second),
		"quorumListenOnAllIPs":    "false",
		"autopurge.purgeInterval": "0",
	}
	maps.Copy(lines, more)
	if o.Dynamic { // the lines of the members have the client ports
		delete(lines, "clientPort")
		delete(lines, "clientPortAddress")
		lines["reconfigEnabled"], lines["standaloneEnabled"], lines["skipACL"] = "true", "false", "yes"
	}
	maps.Copy(lines, o.Config)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		fmt.Fprintf(&b, "%s=%s\n", key, lines[key])
	}
	return b.String()
}

// initLimit is long enough for a busy machine. It is also how long members, during a partition, try
// to follow a leader that cannot answer.
func (o Options) initLimit() time.Duration {
	if o.Partitions {
		return 4 * time.Second
	}
	return 20 * time.Second
}

// ticks returns d in ticks, but at least the 5 ticks of ZooKeeper's sample configuration.
func (o Options) ticks(d time.Duration) string {
	return fmt.Sprint(max(5, int64((d+o.Tick-1)/o.Tick)))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
