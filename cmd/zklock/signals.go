package main

import (
	"os"
	"os/signal"
	"syscall"
)

// passedOn are the signals that a user or a service manager sends to zklock and means for the
// command.
var passedOn = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH,
}

// catch has these signals come through a channel. What is ignored, as nohup(1) does with SIGHUP,
// stays ignored.
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

// fatal reports whether a signal ends processes that do not care about it.
func fatal(sig os.Signal) bool { return sig != syscall.SIGCONT && sig != syscall.SIGWINCH }
