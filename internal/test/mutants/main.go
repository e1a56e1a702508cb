// Mutants puts bugs into the library, one at a time, and checks that a test of the normal run finds
// each of them. They are the reminder that a promise needs a test, and the proof that it has one.
//
//	go run ./internal/test/mutants              # all that are written by hand
//	go run ./internal/test/mutants barrier      # one, or those whose names match
//	go run ./internal/test/mutants -fits        # only check that each still fits the code
//	go run ./internal/test/mutants -explore 1m  # the explorer judges, a minute each
//	go run ./internal/test/mutants -shortcuts   # the explorer passes each shortcut's absence
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
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/test/patch"
	"github.com/zklocks/zklocks/internal/test/yields"
)

func main() {
	jobs := flag.Int("jobs", 2, "how many at a time")
	onlyFits := flag.Bool("fits", false, "check that mutants and shortcuts fit the code")
	explore := flag.Duration("explore", 0, "let the explorer judge, for so long each")
	shortcuts := flag.Bool("shortcuts", false, "let the explorer look for a bug in the library without each of its shortcuts")
	generate := flag.Bool("generate", false, "generate mutants of the packages whose names match the argument")
	seed := flag.Uint64("seed", rand.Uint64N(1e6), "which of them are drawn; default: others each time")
	n := flag.Int("n", 20, "how many are drawn")
	flag.Parse()

	root, err := patch.Root()
	exitOn(err)
	chosen := mutants
	if !*generate {
		chosen, err = choose(flag.Arg(0))
		exitOn(err)
	}
	if wrong := misfits(root); len(wrong) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(wrong, "\n"))
		os.Exit(1)
	}
	if *onlyFits {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "mutants-")
	exitOn(err)
	l := &lab{ctx: ctx, root: root, dir: dir, explore: cmp.Or(*explore, 20*time.Second)}
	var passed bool
	switch {
	case *generate:
		passed = l.generate(flag.Arg(0), *seed, *n, *jobs)
	case *shortcuts:
		passed = l.shortcuts()
	default:
		passed = l.run(chosen, *jobs, *explore > 0)
	}
	_ = os.RemoveAll(dir)
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

// choose returns the mutants whose names match.
func choose(what string) ([]mutant, error) {
	pattern, err := regexp.Compile(what)
	if err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !pattern.MatchString(m.name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no mutant is called %q", what)
	}
	return chosen, nil
}

// misfits says what no longer fits the code: a mutant, a shortcut, the mutant that doc.go of the
// core names for an invariant.
func misfits(root string) (wrong []string) {
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
		file, src, err := m.patch().Apply(root)
		if err == nil {
			_, err = parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
		}
		t := m.target()
		test, part, _ := strings.Cut(t.run, "/")
		switch {
		case err != nil:
			wrong = append(wrong, m.name+": "+err.Error())
		case m.old == m.new || m.why == "" || names[m.name]:
			wrong = append(wrong, m.name+": it is no bug, has no reason, or is the second of that name")
		case !strings.Contains(text(t.pkg), "\nfunc "+test+"("):
			wrong = append(wrong, m.name+": "+t.pkg+" has no "+test)
		case part != "" && !strings.Contains(text(t.pkg)+text("internal/test/contract"), `"`+part+`"`):
			wrong = append(wrong, m.name+": no part of a test is called "+part)
		}
		names[m.name] = true
	}
	doc, _ := os.ReadFile(filepath.Join(root, "internal", "queue", "doc.go"))
	named := invariant.FindAllStringSubmatch(string(doc), -1)
	for _, m := range named {
		if !names[m[1]] {
			wrong = append(wrong, "internal/queue/doc.go names a mutant that does not exist: "+m[1])
		}
	}
	if len(named) < 12 {
		wrong = append(wrong, fmt.Sprintf("only %d invariants of internal/queue/doc.go name a mutant", len(named)))
	}
	if len(mutants) > 60 {
		wrong = append(wrong, fmt.Sprintf("%d mutants are written by hand, the limit is 60", len(mutants)))
	}
	for _, s := range patch.Shortcuts {
		if _, err := patch.All(root, s.Patches...); err != nil {
			wrong = append(wrong, s.Name+": "+err.Error())
		}
	}
	return wrong
}

// invariant finds the mutant in brackets behind an invariant of the core.
var invariant = regexp.MustCompile(`\[([a-z0-9]+(?:-[a-z0-9]+)+)\]`)

// run has the mutants judged by their tests, or by the explorer, and returns whether all were
// killed.
func (l *lab) run(chosen []mutant, jobs int, explore bool) bool {
	began := time.Now()
	if explore {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(m mutant) bool { return m.world == "" })
	}
	judge := func(m mutant) target {
		if explore {
			return target{explorer, "TestExplore"}
		}
		return m.target()
	}
	byPackage := map[string][]target{}
	for _, m := range chosen {
		byPackage[judge(m).pkg] = append(byPackage[judge(m).pkg], judge(m))
	}
	sound := l.sound(byPackage, jobs)
	count := l.each(jobs, len(chosen), func(i int) (result, string) {
		m := chosen[i]
		if !sound[judge(m)] {
			return result{verdict: failed, text: "its test does not pass without it"}, m.name
		}
		file, src, err := m.patch().Apply(l.root)
		if err != nil {
			return result{verdict: failed, text: err.Error()}, m.name
		}
		r := l.look(judge(m), map[string][]byte{file: src}, m.world)
		if r.verdict == survived {
			r.text = judge(m).pkg + " " + judge(m).run + " passes, although " + m.why
		}
		return r, m.name
	})
	fmt.Printf("%d mutants: %d killed, %d survived, %d errors; %d s\n",
		len(chosen), count[killed], count[survived], count[failed], int(time.Since(began).Seconds()))
	return count[killed] == len(chosen)
}

// shortcuts has the explorer run the library without each of its shortcuts, and returns whether it
// found nothing: a shortcut saves requests, and safety does not rest on it.
func (l *lab) shortcuts() bool {
	count := l.each(1, len(patch.Shortcuts), func(i int) (result, string) {
		s := patch.Shortcuts[i]
		changed, err := patch.All(l.root, s.Patches...)
		if err != nil {
			return result{verdict: failed, text: err.Error()}, s.Name
		}
		r := l.look(target{explorer, "TestExplore"}, changed, "")
		if r.verdict == survived {
			r.text = "the explorer finds nothing, as it should be"
		}
		return r, "without " + s.Name
	})
	return count[survived] == len(patch.Shortcuts)
}

// each calls f for n items, so many at a time, counts the verdicts, and prints results that have a
// name.
func (l *lab) each(jobs, n int, f func(i int) (r result, name string)) map[verdict]int {
	var all sync.WaitGroup
	var mu sync.Mutex
	count := map[verdict]int{}
	slots := make(chan struct{}, max(1, jobs))
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			r, name := f(i)
			mu.Lock()
			defer mu.Unlock()
			count[r.verdict]++
			if name != "" {
				fmt.Printf("%-8s %6.1fs  %s\n%18s%s\n", r.verdict, time.Since(began).Seconds(), name, "", r.text)
			}
		})
	}
	all.Wait()
	return count
}

// sound returns the tests that pass without a mutant.
func (l *lab) sound(byPackage map[string][]target, jobs int) map[target]bool {
	packages := slices.Sorted(maps.Keys(byPackage))
	passed, usual := map[target]bool{}, map[string]time.Duration{}
	var mu sync.Mutex
	l.each(jobs, len(packages), func(i int) (result, string) {
		pkg := packages[i]
		var tests []string
		for _, t := range byPackage[pkg] {
			test, _, _ := strings.Cut(t.run, "/")
			tests = append(tests, test)
		}
		r := l.look(target{pkg, strings.Join(tests, "|")}, nil, "")
		mu.Lock()
		defer mu.Unlock()
		usual[pkg] = r.took
		for _, t := range byPackage[pkg] {
			passed[t] = t.run == "" && r.verdict == survived || t.run != "" && strings.Contains(r.output, "--- PASS: "+strings.ReplaceAll(t.run, " ", "_")+" (")
		}
		if r.verdict == survived {
			return r, ""
		}
		return r, pkg + " without a mutant"
	})
	l.usual = usual
	return passed
}

type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	failed   verdict = "ERROR"
	accepted verdict = "accepted" // survived, for a reason in survivors.txt
)

type result struct {
	verdict
	text   string // which test failed, or why there is no verdict
	output string // of the tests
	took   time.Duration
}

// A target is a package and a test in it; "" is all its tests.
type target struct{ pkg, run string }

func (m mutant) target() target {
	pkg, run, _ := strings.Cut(m.test, " ")
	return target{pkg, run}
}

// pattern returns the argument of -run for the target's test. In its name slashes separate
// subtests, "|" separates alternatives, and go test writes "_" for a space.
func (t target) pattern() string {
	parts := strings.Split(t.run, "/")
	for i, part := range parts {
		parts[i] = "^(" + strings.ReplaceAll(regexp.QuoteMeta(strings.ReplaceAll(part, " ", "_")), `\|`, "|") + ")$"
	}
	if t.run == "" {
		return "."
	}
	return strings.Join(parts, "/")
}

const explorer = "internal/test/explore"

// lab makes copies of the library and runs tests on them.
type lab struct {
	ctx     context.Context
	root    string        // of the module
	dir     string        // for copies and test programs
	explore time.Duration // how long the explorer looks at each copy

	usual map[string]time.Duration // how long the tests of a package take without a mutant
}

// patience is how long the tests of a package may take: a mutant may run in a circle.
func (l *lab) patience(pkg string) time.Duration {
	if usual := l.usual[pkg]; usual > 0 {
		return 30*time.Second + 3*usual
	}
	return 4*time.Minute + l.explore
}

// look runs tests on a library in which files are changed. Without the race detector: a mutant is
// no race, and the tests are twice as quick. world is the kind of the explorer's worlds; "any" or
// "" is all kinds.
func (l *lab) look(t target, changed map[string][]byte, world string) result {
	dir, err := os.MkdirTemp(l.dir, "copy-")
	if err != nil {
		return result{verdict: failed, text: err.Error()}
	}
	defer os.RemoveAll(dir)
	var overlay string
	env := os.Environ()
	if t.pkg == explorer {
		overlay, err = yields.Write(l.root, dir, changed)
		env = append(env, "EXPLORE="+l.explore.String(), "EXPLORE_STOP=true", "EXPLORE_JOBS=1", "EXPLORE_FROM=1")
		if world != "any" {
			env = append(env, "EXPLORE_KIND="+world)
		}
	} else {
		overlay, err = patch.Overlay(l.root, dir, changed)
	}
	if err != nil {
		return result{verdict: failed, text: err.Error()}
	}
	program := filepath.Join(dir, "program.test")
	build := exec.CommandContext(l.ctx, "go", "test", "-c", "-vet=off", "-o", program, "-overlay", overlay, ".")
	build.Dir = filepath.Join(l.root, filepath.FromSlash(t.pkg)) // it may belong to a nested module
	if out, err := build.CombinedOutput(); err != nil {
		return result{verdict: failed, text: "it does not compile: " + strings.TrimSpace(string(out))}
	}
	// A mutant may allocate forever, so the shell bounds its memory, where it can.
	tests := exec.CommandContext(l.ctx, "sh", "-c", `ulimit -v 8000000 2>/dev/null; exec "$0" "$@"`, program, "-test.v", "-test.count=1", "-test.short=false",
		"-test.timeout="+l.patience(t.pkg).String(), "-test.run="+t.pattern())
	tests.Dir, tests.Env = build.Dir, env
	began := time.Now()
	out, err := tests.CombinedOutput()
	r := result{verdict: killed, output: string(out), took: time.Since(began)}
	switch {
	case l.ctx.Err() != nil:
		r.verdict, r.text = failed, "interrupted"
	case err == nil && strings.Contains(r.output, "--- PASS: "):
		r.verdict = survived
	case err == nil:
		r.verdict, r.text = failed, "no test ran"
	case !tests.ProcessState.Exited():
		r.verdict, r.text = failed, "the tests did not end by themselves: "+err.Error()
	default:
		r.text = t.pkg + " " + failure(r.output)
	}
	return r
}

// failure says which test failed, or what ended the program.
func failure(output string) string {
	last := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " (")
			if strings.HasPrefix(name, last) { // the part, not the whole
				last = name
			}
		}
		if strings.HasPrefix(line, "panic: ") {
			return line
		}
	}
	if last != "" {
		return last
	}
	output = strings.TrimSpace(output)
	return "after the tests: " + output[strings.LastIndexByte(output, '\n')+1:]
}
