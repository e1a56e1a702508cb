// Zklock runs a command while it holds a lock in ZooKeeper, and shows the holders and waiters of a
// lock. It is for cron jobs and scripts: flock(1) over all machines.
//
//	zklock run /jobs/nightly -- ./nightly.sh
//	zklock run -permits 4 /jobs/backup -- ./backup.sh
//	zklock ls /jobs/nightly
//	zklock dev
//
// `zklock help` has more; docs/reference/zklock.md describes what happens when a lock is lost.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// The system kills a child when the *thread* that has started it ends, see diesWithUs. The main
// thread lives as long as the process, so main is locked to it and starts the commands.
func init() { runtime.LockOSThread() }

func main() {
	switch os.Args[0] {
	case guardName:
		os.Exit(guard(os.Stdin, os.Args[1:]))
	case starterName:
		os.Exit(starter(os.Args[1], os.Args[2:]))
	}
	os.Exit(zklock(os.Args[1:]))
}

// command is one of zklock's commands.
type command struct {
	name  string
	args  string // usage, after the flags
	short string
	long  string // examples, then notes
	flags *flag.FlagSet
	run   func(args []string) error
}

// parse reads the flags and returns the other arguments. Flags may also follow the path, up to the
// command that `run` starts.
func (c *command) parse(args []string) (words []string, err error) {
	for {
		if err := c.flags.Parse(args); err != nil {
			return nil, err
		}
		rest := c.flags.Args()
		n := len(args) - len(rest)
		dashes := n > 0 && args[n-1] == "--"
		switch {
		case len(rest) == 0:
			return words, nil
		case dashes && c.name == "run" && words == nil && !strings.HasPrefix(rest[0], "/"):
			return nil, nil // a command without a path
		case dashes, c.name == "run" && words != nil:
			return append(words, rest...), nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
}

// newCommand uses package flag: a library for commands would be larger than the code that it saves
// here.
func newCommand(name, args, short, long string) *command {
	c := &command{name: name, args: args, short: short, long: long, flags: flag.NewFlagSet(name, flag.ContinueOnError)}
	c.flags.SetOutput(io.Discard) // it also returns its messages as errors
	return c
}

// given reports whether the user has set a flag.
func (c *command) given(name string) (given bool) {
	c.flags.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

func commands() []*command {
	return []*command{runCommand(), listCommand(), watchCommand(), askCommand(), breakCommand(), resizeCommand(), reapCommand(), devCommand(), completionCommand(), versionCommand()}
}

func zklock(args []string) int {
	all := commands()
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, overview(all))
		return exitUsage
	}
	name, args := args[0], args[1:]
	if name == "-version" || name == "--version" {
		name = "version"
	}
	if asksForHelp(name) {
		if len(args) == 0 || asksForHelp(args[0]) {
			fmt.Print(overview(all))
			return 0
		}
		if text, ok := topics(all)[args[0]]; ok {
			fmt.Print(text())
			return 0
		}
		name, args = args[0], []string{"-help"}
	}
	for _, c := range all {
		if c.name != name {
			continue
		}
		words, err := c.parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			fmt.Print(c.help())
			return 0
		case err != nil:
			err = usage("%w", err)
		default:
			err = c.run(words)
		}
		return report(c, err)
	}
	fmt.Fprintf(os.Stderr, "zklock: there is no command %q; zklock help lists them\n", name)
	return exitUsage
}

func asksForHelp(word string) bool {
	return word == "help" || word == "-h" || word == "-help" || word == "--help"
}
