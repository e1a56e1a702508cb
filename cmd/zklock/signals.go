package main

import (
	"os"
	"os/signal"
	"syscall"
)

// passedOn are the signals that a user or a service manager sends to zklock and that zklock sends
// on to the command.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH,
}

// catch delivers these signals on a channel. SIGHUP, as under nohup(1), and SIGINT remain ignored
// if they are ignored. Go's runtime does not leave other signals ignored.
func catch() <-chan os.Signal {
	var caught []os.Signal
	for _, sig := range passedOn {
		if !signal.Ignored(sig) {
			caught = append(caught, sig)
		}
	}
	c := make(chan os.Signal, 16)
	signal.Notify(c, caught...)
	return c
}

// fatal reports whether a signal ends a process that does not handle it.
func fatal(sig os.Signal) bool { return sig != syscall.SIGCONT && sig != syscall.SIGWINCH }
