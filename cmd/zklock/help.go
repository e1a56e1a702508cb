package main

import (
	"flag"
	"fmt"
	"strings"
)

// overview is the text of `zklock help`.
func overview(all []*command) string {
	var b strings.Builder
	b.WriteString(`zklock runs a command while it holds a lock in ZooKeeper.

  zklock run /jobs/nightly -- ./nightly.sh           one at a time, over all machines
  zklock run -try /jobs/nightly -- ./nightly.sh      not at all if another one runs
  zklock run -permits 4 /jobs/backup -- ./backup.sh  four at a time
  zklock ls /jobs/nightly                            who runs, who waits
  zklock ask /jobs/nightly                           ask the holder to give it up
  zklock dev                                         a server in memory, to try all of this

Commands:
`)
	for _, c := range all {
		fmt.Fprintf(&b, "  %-11s %s\n", c.name, c.short)
	}
	b.WriteString(`
zklock COMMAND -help tells more.
Where the servers are: -servers host:port,..., else ZK_SERVERS, else 127.0.0.1:2181.
`)
	return b.String()
}

// help is the text of `zklock COMMAND -help`: what the command does, by example, and then the
// flags.
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
		value, text := described(f)
		name := strings.TrimSpace("-" + f.Name + " " + value)
		fmt.Fprintf(&b, "  %-*s %s\n", flagWidth, name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", flagWidth+3)))
	})
	return b.String()
}

// flagWidth is that of the longest flag with its value.
const flagWidth = len("-kill-after duration")

// described returns the name of a flag's value, and the flag's purpose. The usage may begin with
// the name of the value, quoted and with a colon, which is not repeated.
func described(f *flag.Flag) (value, text string) {
	value, text = flag.UnquoteUsage(f)
	return value, strings.TrimPrefix(text, value+": ")
}
