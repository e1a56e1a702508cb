package arch

import (
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// files has the files of each package in reading order. Of packages queue and wire the doc comment
// lists the files under "# Files".
var files = map[string][]string{
	root:                   {"doc.go", "all.go", "conn.go", "locker.go", "hold.go", "member.go", "options.go", "sasl.go", "servers.go", "errors.go"},
	"rwlock":               {"doc.go", "hold.go", "rwlock.go", "options.go"},
	"reentrant":            {"doc.go", "reentrant.go", "owner.go", "options.go"},
	"semaphore":            {"doc.go", "semaphore.go", "count.go", "options.go", "errors.go"},
	"leader":               {"doc.go", "run.go", "observe.go", "leader.go", "status.go", "backoff.go", "options.go", "errors.go"},
	"once":                 {"doc.go", "once.go", "errors.go"},
	"internal/queue":       nil,
	"internal/wire":        nil,
	"internal/slot":        {"slot.go", "option.go"},
	"internal/hold":        {"context.go", "hold.go"},
	"internal/znode":       {"order.go", "name.go", "path.go"},
	"internal/sessionfile": {"file.go", "file_unix.go", "file_linux.go"},
	"internal/zkclient":    {"claim.go", "dir.go", "monitor.go", "read.go", "remove.go", "watch.go", "stray.go", "transact.go", "client.go", "call.go"},
}

// back are the arrows that may point up, each with its reason.
var back = map[string]string{
	"internal/wire: heartbeat.go to packetconn.go": "a timer sends the heartbeat, and a packet sets the timer",
	"internal/wire: connect.go to takeover.go":     "a Connect with a session file first ends the dead process's session, by a Connect of its own",
	"internal/wire: sessionfile.go to options.go":  "a session that could not be written is logged",
	"internal/wire: packetconn.go to run.go":       "a write that fails ends the connection",
	"semaphore: count.go to semaphore.go":          "the text of an error",
}

// listed matches the files in a doc comment.
var listed = regexp.MustCompile(`(?m)^//\t(\w+\.go)\b`)

// An arrow means that a function of one file calls a function of another file in the same package.
// Passing a function on counts as a call.
type arrow struct{ from, to string }

// arrows returns the arrows between the files of a package, each with an example.
func (l *loader) arrows(t *testing.T, p pkg) map[arrow]string {
	t.Helper()
	parsed := l.parse(t, p)
	checked, info, err := l.check(p.ImportPath, parsed...)
	if err != nil {
		t.Error(err)
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
	return found
}

func TestFilesReadDownwards(t *testing.T) {
	l, deps := load(t)
	upwards := map[string]bool{}
	for _, p := range deps {
		path := short(p.ImportPath)
		order, ok := files[path]
		if !ok {
			continue
		}
		if order == nil {
			order = inDoc(t, p)
		}
		if there := slices.Sorted(slices.Values(order)); !slices.Equal(there, p.GoFiles) {
			t.Errorf("%s: the order has the files %q, the package has %q", path, there, p.GoFiles)
		}
		for a, example := range l.arrows(t, p) {
			if slices.Index(order, a.from) <= slices.Index(order, a.to) {
				continue
			}
			key := path + ": " + a.from + " to " + a.to
			upwards[key] = true
			if back[key] == "" {
				t.Errorf("%s: %s", key, example)
			}
		}
	}
	for key := range back { // which also shows that arrows are found
		if !upwards[key] {
			t.Errorf("no such arrow: %s", key)
		}
	}
}

// inDoc returns the files that the doc comment of a package lists.
func inDoc(t *testing.T, p pkg) []string {
	text, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"doc.go"}
	for _, found := range listed.FindAllSubmatch(text, -1) {
		names = append(names, string(found[1]))
	}
	return names
}
