// Mutants puts bugs into the library, one at a time, and checks that a test of the normal run finds
// each of them. They are the reminder that a promise needs a test, and the proof that it has one.
//
//	go run ./internal/test/mutants              # all that are written by hand
//	go run ./internal/test/mutants barrier      # one, or those whose names match
//	go run ./internal/test/mutants -fits        # only check that each still fits the code
//	go run ./internal/test/mutants -explore 1m  # the explorer judges, a minute each
//	go run ./internal/test/mutants -shortcuts   # the explorer passes each shortcut's absence
//	go run ./internal/test/mutants -explore 2s -kinds  # each kind of worlds alone
//	go run ./internal/test/mutants -generate -seed 7 -n 20 internal/queue
//
// The last line is in generate.go. The compiler reads a copy of the changed file in place of the
// original (go build -overlay), so the files of the tree stay as they are. Each test first runs
// without a mutant: a test that always fails finds nothing. A mutant is in error if its text does
// not stand in the code, if it does not compile, or if its test does not exist.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/test/patch"
)

func main() {
	jobs := flag.Int("jobs", 2, "how many at a time")
	onlyFits := flag.Bool("fits", false, "check that mutants and shortcuts fit the code")
	explore := flag.Duration("explore", 0, "let the explorer judge, for so long each")
	shortcuts := flag.Bool("shortcuts", false, "let the explorer look for a bug in the library without each of its shortcuts")
	kinds := flag.Bool("kinds", false, "let each kind of the explorer's worlds judge alone")
	generate := flag.Bool("generate", false, "generate mutants of the packages whose names match the argument")
	seed := flag.Uint64("seed", rand.Uint64N(1e6), "which of them are drawn; default: others each time")
	n := flag.Int("n", 20, "how many are drawn")
	flag.Parse()

	root, err := patch.Root()
	exitOn(err)
	if wrong := misfits(root); len(wrong) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(wrong, "\n"))
		os.Exit(1)
	}
	if *onlyFits {
		return
	}
	pattern, err := regexp.Compile(flag.Arg(0))
	exitOn(err)
	want := killed
	var trials []trial
	switch {
	case *generate:
		trials, err = generated(root, pattern, *seed, *n)
		exitOn(err)
	case *shortcuts:
		want = survived // a shortcut saves requests, and safety does not rest on it
		for _, s := range patch.Shortcuts {
			changed, err := patch.All(root, s.Patches...)
			exitOn(err)
			trials = append(trials, trial{
				name: "without " + s.Name, changed: changed, judges: []target{explorer}, survivor: "the explorer finds nothing, as it should be",
			})
		}
	default:
		trials = byHand(root, pattern, *explore > 0 || *kinds)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "mutants-")
	exitOn(err)
	l := &lab{ctx: ctx, root: root, dir: dir, explore: cmp.Or(*explore, 20*time.Second)}
	if *kinds {
		l.kinds(trials, *jobs)
		_ = os.RemoveAll(dir)
		return
	}
	began := time.Now()
	count := l.judge(trials, *jobs)
	_ = os.RemoveAll(dir)
	fmt.Printf("%d mutants: %d killed, %d survived, %d accepted, %d in error; %.0f s\n",
		len(trials), count[killed], count[survived], count[accepted], count[failed], time.Since(began).Seconds())
	passed := len(trials) > 0 && count[want]+count[accepted] == len(trials)
	if *generate { // which often do not compile
		passed = count[survived] == 0 && !l.unsound.Load() && ctx.Err() == nil
	}
	if !passed {
		os.Exit(1)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// byHand returns the mutants whose names match. The explorer is to find only those that name the
// kind of world in which it does.
func byHand(root string, pattern *regexp.Regexp, explore bool) (trials []trial) {
	for _, m := range mutants {
		changed, err := patch.All(root, m.patch())
		exitOn(err)
		t := trial{name: m.name, changed: changed, survivor: "it passes, although " + m.why}
		if pkg, test, _ := strings.Cut(m.test, " "); !explore {
			t.judges = []target{named(pkg, test)}
		} else {
			t.judges, t.world = []target{explorer}, m.world
		}
		if pattern.MatchString(m.name) && (!explore || m.world != "") {
			trials = append(trials, t)
		}
	}
	return trials
}

// misfits says what no longer fits the code: a mutant, a shortcut, the mutant that doc.go of the
// core names for an invariant, a line of survivors.txt.
func misfits(root string) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	names, texts := map[string]bool{}, map[string]string{}
	text := func(pkg string) string {
		if texts[pkg] == "" {
			files, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
			for _, file := range files {
				src, _ := os.ReadFile(file)
				texts[pkg] += string(src)
			}
		}
		return texts[pkg]
	}
	for _, m := range mutants {
		pkg, run, _ := strings.Cut(m.test, " ")
		test, part, _ := strings.Cut(run, "/")
		if _, err := patch.All(root, m.patch()); err != nil {
			add("%s: %v", m.name, err)
		}
		if m.old == m.new || m.why == "" || names[m.name] {
			add("%s: it is no bug, has no reason, or is the second of that name", m.name)
		}
		if !strings.Contains(text(pkg), "\nfunc "+test+"(") {
			add("%s: %s has no %s", m.name, pkg, test)
		}
		if part != "" && !strings.Contains(text(pkg)+text("internal/test/contract"), `"`+part+`"`) {
			add("%s: no part of a test is called %s", m.name, part)
		}
		names[m.name] = true
	}
	named := invariant.FindAllStringSubmatch(text("internal/queue"), -1)
	for _, m := range named {
		if !names[m[1]] {
			add("internal/queue/doc.go names a mutant that does not exist: %s", m[1])
		}
	}
	if len(named) < 13 || len(mutants) > 42 {
		add("%d invariants name a mutant, want 13; %d mutants are written by hand, the limit is 42", len(named), len(mutants))
	}
	for _, s := range patch.Shortcuts {
		if _, err := patch.All(root, s.Patches...); err != nil {
			add("%s: %v", s.Name, err)
		}
	}
	_, entries, _ := strings.Cut(survivors, "\n\n")
	if lines := strings.Count(entries, "\n"); len(reasons()) != lines {
		add("survivors.txt: %d reasons in %d lines", len(reasons()), lines)
	}
	return wrong
}

// invariant finds the mutant in brackets behind an invariant of the core.
var invariant = regexp.MustCompile(`(?m)^//.*\[([a-z0-9]+(?:-[a-z0-9]+)+)\]`)
