// Suite runs the tests that need more than a plain go test.
//
//	go run ./internal/test/suite            lists what there is
//	go run ./internal/test/suite sim -help  lists the options of one of them
//
// make calls it: make sim ARGS='-for 1h'.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

func main() {
	if len(os.Args) < 2 {
		list(os.Stdout)
		return
	}
	if err := do(os.Args[1], os.Args[2:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "suite: %v\n", err)
		os.Exit(1)
	}
}

func do(name string, args []string) error {
	if name == "quick" {
		return quick(os.Stdout, append([]string{"./..."}, args...), append([]string{"-C", "metrics", "./..."}, args...))
	}
	i := slices.IndexFunc(runs, func(r run) bool { return r.name == name })
	if i < 0 {
		list(os.Stderr)
		return fmt.Errorf("there is no %q", name)
	}
	more, err := runs[i].parse(args)
	if err != nil {
		return err
	}
	return runs[i].start(more)
}

func list(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "quick\tgo test ./..., also in metrics, and what it left out")
	for _, r := range runs {
		fmt.Fprintf(t, "%s\t%s\n", r.name, r.what)
	}
	t.Flush()
}
