package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// files has the files of each package in reading order. The doc comments of packages queue and wire
// list their files under "# Files".
var files = map[string][]string{
	root:                {"doc.go", "all.go", "conn.go", "locker.go", "hold.go", "member.go", "options.go", "servers.go", "errors.go"},
	"rwlock":            {"doc.go", "hold.go", "rwlock.go", "handoff.go", "readsharer.go", "sharing.go", "options.go"},
	"reentrant":         {"doc.go", "reentrant.go", "owner.go", "options.go"},
	"semaphore":         {"doc.go", "semaphore.go", "count.go", "options.go", "errors.go"},
	"leader":            {"doc.go", "run.go", "observe.go", "leader.go", "status.go", "backoff.go", "options.go", "errors.go"},
	"once":              {"doc.go", "once.go", "errors.go"},
	"internal/slot":     {"slot.go", "option.go"},
	"internal/hold":     {"context.go", "hold.go"},
	"internal/znode":    {"order.go", "name.go", "path.go"},
	"internal/zkclient": {"claim.go", "dir.go", "monitor.go", "read.go", "remove.go", "watch.go", "client.go", "unreached.go", "call.go"},
}

// back are the arrows that may point up, each with its reason.
var back = map[string]string{
	"internal/zkclient: call.go to client.go":      "whether the session is still the same",
	"internal/zkclient: call.go to unreached.go":   "why a call has had no answer",
	"internal/wire: heartbeat.go to packetconn.go": "a timer sends the heartbeat, and a packet sets the timer",
	"semaphore: count.go to semaphore.go":          "the text of an error",
}

// ordered are the packages with an order of files.
var ordered = []string{
	root, "rwlock", "reentrant", "semaphore", "leader", "once",
	"internal/slot", "internal/queue", "internal/hold", "internal/znode", "internal/zkclient", "internal/wire",
}

// listed matches the files in a doc comment.
var listed = regexp.MustCompile(`(?m)^//\t(\w+\.go)\b`)

// An arrow means that a function of one file calls a function of another file in the same package.
// Passing a function on counts as a call.
type arrow struct{ from, to string }

// arrows returns the arrows between the files of a package, each with an example.
func (l *loader) arrows(p pkg) (map[arrow]string, error) {
	var parsed []*ast.File
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		src, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		f, err := l.parse(name, src)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: l.imp}
	checked, err := conf.Check(p.ImportPath, l.fset, parsed, info)
	if err != nil {
		return nil, err
	}
	found := map[arrow]string{}
	for _, f := range parsed {
		for _, d := range f.Decls {
			caller, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(caller, func(n ast.Node) bool {
				id, _ := n.(*ast.Ident)
				fn, ok := info.Uses[id].(*types.Func)
				if !ok || fn.Pkg() != checked {
					return true
				}
				a := arrow{l.fset.Position(f.Pos()).Filename, l.fset.Position(fn.Pos()).Filename}
				if example := caller.Name.Name + " calls " + fn.Name(); a.from != a.to && (found[a] == "" || example < found[a]) {
					found[a] = example
				}
				return true
			})
		}
	}
	return found, nil
}

// upwards returns a line for each arrow that points up in an order of files.
func upwards(path string, order []string, found map[arrow]string) (bad []string) {
	for a, example := range found {
		from, to := slices.Index(order, a.from), slices.Index(order, a.to)
		if key := path + ": " + a.from + " to " + a.to; from > to && back[key] == "" {
			bad = append(bad, key+": "+example)
		}
	}
	slices.Sort(bad)
	return bad
}

func TestFilesReadDownwards(t *testing.T) {
	deps := list(t, "-export", "-deps", module+"/...", zk)
	l := newLoader(deps)
	used := map[string]bool{}
	for _, p := range deps {
		path := short(p.ImportPath)
		if !slices.Contains(ordered, path) {
			continue
		}
		order, ok := files[path]
		if !ok {
			order = inDoc(t, p)
		}
		for _, name := range p.GoFiles {
			if !slices.Contains(order, name) {
				t.Errorf("%s: %s has no place in the order of its files", path, name)
			}
		}
		for _, name := range order {
			if !slices.Contains(p.GoFiles, name) {
				t.Errorf("%s: the order lists %s, which does not exist", path, name)
			}
		}
		found, err := l.arrows(p)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for a := range found {
			used[path+": "+a.from+" to "+a.to] = slices.Index(order, a.from) > slices.Index(order, a.to)
		}
		for _, line := range upwards(path, order, found) {
			t.Error(line)
		}
	}
	for key := range back {
		if !used[key] {
			t.Errorf("no such arrow: %s", key)
		}
	}
}

// inDoc returns the files that the doc comment of a package lists.
func inDoc(t *testing.T, p pkg) (names []string) {
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc == nil {
			continue
		}
		names = append(names, name)
		for _, c := range f.Doc.List {
			for _, found := range listed.FindAllStringSubmatch(c.Text, -1) {
				names = append(names, found[1])
			}
		}
	}
	return slices.Compact(names)
}

func TestAnArrowThatRunsBackIsFound(t *testing.T) {
	found := map[arrow]string{{"a.go", "b.go"}: "f calls g", {"b.go", "a.go"}: "g calls h"}
	got := fmt.Sprint(upwards("p", []string{"a.go", "b.go"}, found))
	if want := "[p: b.go to a.go: g calls h]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
