package main

import (
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
)

// overview returns the text of `zklock help`. Like every help text it fits on a screen of 24 lines.
func overview(all []*command) string {
	var b strings.Builder
	b.WriteString(`zklock runs a command while it holds a lock in ZooKeeper.

  zklock run /jobs/nightly -- ./nightly.sh           one at a time
  zklock run -try /jobs/nightly -- ./nightly.sh      or not at all
  zklock run -permits 4 /jobs/backup -- ./backup.sh  four at a time
  zklock ls /jobs/nightly                            who runs, who waits
  zklock dev                                         a server to try it with

Commands:
`)
	for _, c := range all {
		fmt.Fprintf(&b, "  %-11s %s\n", c.name, c.short)
	}
	b.WriteString(`
zklock help COMMAND     describes one of them
zklock help connection  how to reach the servers; ZK_SERVERS names them
zklock help exit        the exit codes
`)
	return b.String()
}

// topics are the help texts that do not belong to a command.
func topics(all []*command) map[string]func() string {
	return map[string]func() string{
		"connection": connection,
		"exit":       func() string { return exitCodes },
		"-man":       func() string { return man(all) },
	}
}

// help returns the text of `zklock COMMAND -help`: examples, what the command does, its flags.
func (c *command) help() string {
	text := c.usage() + "\n\n" + strings.Trim(c.long, "\n") + "\n"
	connects := c.flags.Lookup("servers") != nil
	if flags := flagLines(c.flags, func(f *flag.Flag) bool { return !connects || connectionFlags().Lookup(f.Name) == nil }); flags != "" {
		text += "\n" + flags
	}
	if connects {
		text += "\n-servers, -session-timeout, -tls and others: zklock help connection\n"
	}
	return text
}

func (c *command) usage() string {
	flags := ""
	c.flags.VisitAll(func(*flag.Flag) { flags = " [flags]" })
	return strings.TrimSpace("zklock " + c.name + flags + " " + c.args)
}

// flagLines returns the lines for the flags to include.
func flagLines(flags *flag.FlagSet, include func(*flag.Flag) bool) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	flags.VisitAll(func(f *flag.Flag) {
		if include(f) {
			value, text := described(f)
			fmt.Fprintf(w, "  %s\t%s\n", strings.TrimSpace("-"+f.Name+" "+value), strings.ReplaceAll(text, "\n", "\n\t"))
		}
	})
	_ = w.Flush()
	return b.String()
}

// described returns the name of a flag's value and the flag's purpose, without the value's name
// with a colon with which the usage may begin.
func described(f *flag.Flag) (value, text string) {
	value, text = flag.UnquoteUsage(f)
	return value, strings.TrimPrefix(text, value+": ")
}

// connectionFlags returns the flags of all commands that connect.
func connectionFlags() *flag.FlagSet {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	new(servers).define(flags, 0)
	return flags
}

// connection returns the text of `zklock help connection`.
func connection() string {
	return `How zklock reaches the servers. All commands that connect have these flags; a
flag overrides the variable that it names.

  export ZK_SERVERS=zk1:2181,zk2:2181,zk3:2181
  zklock ls -servers zk1:2281/team1 -tls -auth-file /etc/zk/auth /jobs/nightly

` + flagLines(connectionFlags(), func(*flag.Flag) bool { return true })
}

// man returns the manual page that `zklock help -man` prints, for man(1).
func man(all []*command) string {
	var b strings.Builder
	section := func(macro, name, text string) {
		escape := strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace
		fmt.Fprintf(&b, ".%s \"%s\"\n.nf\n", macro, escape(name))
		for line := range strings.Lines(strings.TrimSpace(text)) {
			b.WriteString(`\&` + escape(strings.TrimRight(line, "\n")) + "\n") // a line may begin with a dot
		}
		b.WriteString(".fi\n")
	}
	fmt.Fprintf(&b, ".TH ZKLOCK 1 \"\" \"zklock %s\"\n.SH NAME\nzklock \\- run a command while it holds a lock in ZooKeeper\n", release())
	usages := ""
	for _, c := range all {
		usages += c.usage() + "\n"
	}
	section("SH", "SYNOPSIS", usages)
	section("SH", "COMMANDS", "")
	for _, c := range all {
		_, text, _ := strings.Cut(c.help(), "\n")
		section("SS", c.usage(), c.short+"\n"+text)
	}
	section("SH", "CONNECTION", connection())
	section("SH", "EXIT STATUS", exitCodes)
	return b.String()
}
