package main

import (
	"flag"
	"fmt"
	"strings"
)

// overview is what `zklock help` says.
func overview(all []*command) string {
	var b strings.Builder
	b.WriteString(`zklock runs a command while it holds a lock in ZooKeeper.

  zklock run /jobs/nightly -- ./nightly.sh           one at a time, over all machines
  zklock run -try /jobs/nightly -- ./nightly.sh      not at all if another one runs
  zklock run -permits 4 /jobs/backup -- ./backup.sh  four at a time
  zklock ls /jobs/nightly                            who runs, who waits
  zklock dev                                         a server in memory, to try all of this

Commands:
`)
	for _, c := range all {
		fmt.Fprintf(&b, "  %-11s %s\n", c.name, c.short)
	}
	b.WriteString(`
zklock COMMAND -help tells more.
Servers: -servers host:port,..., else ZK_SERVERS, else 127.0.0.1:2181.
`)
	return b.String()
}

// help is what `zklock COMMAND -help` says: what it does, by example, and then
// the flags.
func (c *command) help() string {
	var b strings.Builder
	usage := strings.TrimSpace("zklock " + c.name + " [flags] " + c.args)
	fmt.Fprintf(&b, "%s\n\n%s\n", usage, strings.TrimSpace(c.long))
	first := true
	c.flags.VisitAll(func(f *flag.Flag) {
		if first {
			b.WriteString("\nFlags:\n")
			first = false
		}
		value, text := flag.UnquoteUsage(f)
		name := strings.TrimSpace("-" + f.Name + " " + value)
		fmt.Fprintf(&b, "  %-18s %s\n", name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 21)))
	})
	return b.String()
}
