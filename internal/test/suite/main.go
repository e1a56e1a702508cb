// Suite runs the tests, and reports what go test by itself does not.
//
//	go run ./internal/test/suite quick
//
// runs go test ./..., and says in one line how many tests were left out because no ZooKeeper is
// installed (make quick).
//
//	go run ./internal/test/suite again -n 50 -- COMMAND
//
// runs a command that prints what go test -json prints again and again on a busy machine, and shows
// which tests have failed how often (make again).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const exitInterrupted = 130

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "suite: quick or again?")
		os.Exit(2)
	}
	if os.Args[1] == spinner {
		spin()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var passed bool
	var err error
	switch os.Args[1] {
	case "quick":
		passed, err = quick(ctx, append([]string{"go", "test", "-json", "-count=1", "./..."}, os.Args[2:]...), os.Stdout)
	case "again":
		passed, err = againFromFlags(ctx, os.Args[2:])
	default:
		err = fmt.Errorf("%q is neither quick nor again", os.Args[1])
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "suite: interrupted")
		os.Exit(exitInterrupted)
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "suite: %v\n", err)
		os.Exit(1)
	case !passed:
		os.Exit(1)
	}
}
