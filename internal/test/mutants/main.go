// Mutants puts bugs into the library, one at a time, and sees to it that a test
// of the normal run finds each of them.
//
//	go run ./internal/test/mutants            # all
//	go run ./internal/test/mutants barrier    # one, or those whose names match
//	go run ./internal/test/mutants -list
//	go run ./internal/test/mutants -explore 1m  # let the explorer alone judge, a minute each
//	go run ./internal/test/mutants -soak 1m barrier  # the soak on a real server, a minute each
//	go run ./internal/test/mutants -generate -seed 7 -n 20 queue
//
// The last one generates mutants of the packages whose names contain queue: it negates conditions,
// drops and swaps statements, and is off by one. The tests of the package judge them, then the
// tests of packages that use it, then the explorer. survivors.txt lists mutants that may survive.
//
// The explorer judges the mutants that it must find; with -excused also those for which a reason
// says why it does not.
//
// The files in the tree are never touched: the compiler is given a copy in their
// place (go build -overlay). Before its mutants each test runs without any, so
// that nothing is killed by a test that fails anyway. It is an error when the
// text that a mutant replaces has changed, when a mutant does not compile, and
// when its test is not there.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/test/patch"
)

func main() {
	jobs := flag.Int("jobs", 2, "how many at a time")
	list := flag.Bool("list", false, "only list the mutants")
	explore := flag.Duration("explore", 0, "let the explorer alone judge the mutants of the library, for so long each")
	soak := flag.Duration("soak", 0, "let the soak alone judge the mutants of the library, on a real server, for so long each")
	tryExcused := flag.Bool("excused", false, "let the explorer look for the mutants that it need not find, too")
	generate := flag.Bool("generate", false, "generate mutants of the packages whose names contain the argument")
	seed := flag.Uint64("seed", rand.Uint64N(1e6), "which of them are drawn; default: others each time")
	n := flag.Int("n", 20, "how many are drawn")
	flag.Parse()
	if *generate {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		l, err := newLab(ctx, max(*explore, 20*time.Second), 0)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		passed := l.generate(flag.Arg(0), *seed, *n, *jobs)
		l.clean()
		if !passed {
			os.Exit(1)
		}
		return
	}

	chosen, err := choose(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	switch {
	case *soak > 0:
		chosen = ofLibrary(chosen)
		for i := range chosen {
			chosen[i].test = target{"internal/test/hammer", "TestStress"}
		}
	case *explore > 0:
		chosen = explored(ofLibrary(chosen), *tryExcused)
	}
	if *list {
		for _, m := range chosen {
			fmt.Printf("%-45s %s: %s\n%45s %s\n", m.name, m.pkg, m.why, "", m.test)
		}
		return
	}
	if !run(chosen, *jobs, *explore, *soak) {
		os.Exit(1)
	}
}

// choose returns the mutant of that name, or those whose names match.
func choose(what string) ([]mutant, error) {
	pattern, err := regexp.Compile(what)
	if err != nil {
		return nil, err
	}
	var matching []mutant
	for _, m := range all() {
		if m.name == what {
			return []mutant{m}, nil
		}
		if pattern.MatchString(m.name) {
			matching = append(matching, m)
		}
	}
	if len(matching) == 0 {
		return nil, fmt.Errorf("no mutant is called %q", what)
	}
	return matching, nil
}

// ofLibrary are the mutants of the library alone. The servers and networks that the explorer and
// the soak run on are their tools.
func ofLibrary(mutants []mutant) []mutant {
	return slices.DeleteFunc(mutants, func(m mutant) bool {
		return strings.HasPrefix(m.pkg, "internal/test/") || strings.HasPrefix(m.pkg, "cmd/") ||
			slices.Contains([]string{"internal/memnet", "internal/memzk", "zktest"}, m.pkg)
	})
}

// explored are the mutants for the explorer to judge; excused says whether mutants that it need not
// find are among them.
func explored(mutants []mutant, excused bool) []mutant {
	var chosen []mutant
	left := 0
	for _, m := range mutants {
		if m.unexplored != "" && !excused {
			left++
			continue
		}
		m.test = target{explorer, "TestExplore"}
		chosen = append(chosen, m)
	}
	if left > 0 {
		fmt.Printf("%d mutants have a reason why the explorer does not find them; -excused tries them, too\n", left)
	}
	return chosen
}

func run(mutants []mutant, jobs int, explore, soak time.Duration) bool {
	began := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := newLab(ctx, explore, soak)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return false
	}
	defer l.clean()

	sound := l.checkTests(mutants, jobs)
	var mu sync.Mutex
	count := map[verdict]int{}
	each(jobs, mutants, func(m mutant) {
		r := result{verdict: failed, text: "its test does not pass without it"}
		if sound[m.test] {
			r = l.try(m)
		}
		mu.Lock()
		defer mu.Unlock()
		count[r.verdict]++
		fmt.Printf("%-8s %-45s %5.1fs  %s\n", r.verdict, m.name, r.took.Seconds(), r.text)
	})
	fmt.Printf("%d mutants: %d killed, %d survived, %d errors; %d s\n",
		len(mutants), count[killed], count[survived], count[failed], int(time.Since(began).Seconds()))
	if explore > 0 {
		fmt.Printf("%d survivors have their reasons\n", count[excused])
	}
	return count[killed]+count[excused] == len(mutants)
}

// each calls f for all items, so many at a time, and waits.
func each[T any](jobs int, items []T, f func(T)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, max(1, jobs))
	for _, item := range items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(item)
		})
	}
	all.Wait()
}

type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	failed   verdict = "ERROR"
	excused  verdict = "excused" // survived the explorer, which cannot find it
)

type result struct {
	verdict
	took time.Duration // of the test
	text string
}

// lab is where mutants are made and tested.
type lab struct {
	ctx     context.Context
	root    string        // of the module
	dir     string        // for copies and test programs
	explore time.Duration // how long the explorer looks at each mutant; 0: it does not judge
	soak    time.Duration // the same of the soak
}

func newLab(ctx context.Context, explore, soak time.Duration) (*lab, error) {
	root, err := patch.Root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	return &lab{ctx, root, dir, explore, soak}, err
}

func (l *lab) clean() { _ = os.RemoveAll(l.dir) }

// checkTests runs each test without a mutant, and returns those that passed.
func (l *lab) checkTests(mutants []mutant, jobs int) map[target]bool {
	byPackage := map[string][]target{}
	var targets []target
	var packages []string
	seen := map[target]bool{}
	for _, m := range mutants {
		if t := m.test; !seen[t] {
			seen[t] = true
			targets = append(targets, t)
			if byPackage[t.pkg] == nil {
				packages = append(packages, t.pkg)
			}
			byPackage[t.pkg] = append(byPackage[t.pkg], t)
		}
	}
	var mu sync.Mutex
	program := map[string]string{}
	each(jobs, packages, func(pkg string) {
		overlay, err := "", error(nil)
		if l.explore > 0 {
			overlay, err = l.overlay(filepath.Join(l.dir, "sound"), "", nil)
		}
		file := ""
		if err == nil {
			file, err = l.build(pkg, strings.ReplaceAll(pkg, "/", "-"), overlay)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			fmt.Println(err)
			return
		}
		program[pkg] = file
	})
	sound := map[target]bool{}
	each(jobs, targets, func(t target) {
		mu.Lock()
		file := program[t.pkg]
		mu.Unlock()
		if file == "" {
			return
		}
		out := l.test(file, t, "")
		ran := strings.Contains(out.text, ": "+strings.ReplaceAll(t.run, " ", "_")+" (")
		mu.Lock()
		defer mu.Unlock()
		if sound[t] = out.passed && ran; !sound[t] {
			fmt.Printf("without a mutant: %s: passed %v, has run %v\n%s", t, out.passed, ran, out.text)
		}
	})
	return sound
}

// try makes a mutant and has its test look at it.
func (l *lab) try(m mutant) result {
	file, src, err := m.patched(l.root)
	if err != nil {
		return result{verdict: failed, text: err.Error()}
	}
	dir := filepath.Join(l.dir, "mutant-"+m.name)
	overlay, err := l.overlay(dir, file, src)
	if err != nil {
		return result{verdict: failed, text: err.Error()}
	}
	defer os.RemoveAll(dir)
	program, err := l.build(m.test.pkg, filepath.Join("mutant-"+m.name, "program"), overlay)
	if err != nil {
		return result{verdict: failed, text: err.Error()}
	}
	out := l.test(program, m.test, m.kind)
	if l.ctx.Err() != nil {
		return result{verdict: failed, text: "interrupted"}
	}
	if !out.ended {
		return result{verdict: failed, text: "the test did not end by itself\n" + out.text}
	}
	if out.passed && l.explore > 0 && m.unexplored != "" {
		return result{excused, out.took, m.unexplored}
	}
	if out.passed {
		return result{survived, out.took, m.test.String() + " passes, although " + m.why}
	}
	return result{killed, out.took, m.test.pkg + " " + out.failed()}
}
