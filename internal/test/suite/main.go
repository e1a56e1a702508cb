// Suite runs the tests that need more than a plain go test.
//
//	go run ./internal/test/suite            lists what there is
//	go run ./internal/test/suite sim -help  lists the options of one of them
//
// make calls it: make sim ARGS='-for 1h'.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
)

const exitInterrupted = 130

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if len(os.Args) < 2 {
		list(os.Stdout)
		return
	}
	switch err := do(ctx, os.Args[1], os.Args[2:]); {
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "suite: interrupted")
		os.Exit(exitInterrupted)
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "suite: %v\n", err)
		os.Exit(1)
	}
}

func do(ctx context.Context, name string, args []string) error {
	if name == "quick" {
		return quick(ctx, append([]string{"./..."}, args...), os.Stdout)
	}
	i := slices.IndexFunc(runs, func(r run) bool { return r.name == name })
	if i < 0 {
		list(os.Stderr)
		return fmt.Errorf("there is no %q", name)
	}
	return runs[i].start(ctx, args)
}

func list(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "quick\tgo test ./..., and what it left out")
	for _, r := range runs {
		fmt.Fprintf(t, "%s\t%s\n", r.name, r.what)
	}
	t.Flush()
}
