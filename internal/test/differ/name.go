package differ

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// path is what is sent to the server.
func (r *run) path(s Step) string {
	if s.Literal {
		return s.Path
	}
	return r.below(s.Path)
}

// below is a path of a sequence as the server knows it: "/" is the root.
func (r *run) below(path string) string {
	if path == "/" {
		return r.root
	}
	return r.root + path
}

// name is the opposite of below. A path that is not below the root is marked.
func (r *run) name(path string) string {
	rest, ours := strings.CutPrefix(path, r.root)
	switch {
	case ours && rest == "":
		return `"/"`
	case ours && rest[0] == '/':
		return strconv.Quote(rest)
	default:
		return "literal " + strconv.Quote(path)
	}
}

// rootName matches the roots of sequences in a listing of the top.
var rootName = regexp.MustCompile(`^d\d{9}$`)

// children are sorted: they come in the order of a hash table. Roots of other sequences are left
// out.
func (r *run) children(path string, names []string) string {
	if names == nil {
		return "null"
	}
	if path == "/" || path == "" {
		names = slices.DeleteFunc(names, rootName.MatchString)
	}
	slices.Sort(names)
	return fmt.Sprintf("%q", names)
}

// zxid counts from the creation of the root, or from the last sweep. What happened before that is
// all the same.
func (r *run) zxid(z int64) string {
	switch {
	case z == 0 || z == -1:
		return strconv.FormatInt(z, 10)
	case z <= r.floor:
		return "before"
	default:
		return fmt.Sprintf("+%d", z-r.floor-1)
	}
}

// owner names sessions in the order in which they were granted.
func (r *run) owner(id int64) string {
	if id == 0 {
		return "0"
	}
	for i, s := range r.sessions {
		if s.id == id {
			return fmt.Sprintf("S%d", i)
		}
	}
	return fmt.Sprintf("%#x", uint64(id))
}

// stat reads a stat. Times are not compared, but what can be said of them is: they are those of
// this test, what one transaction did happened at one time, and nothing is changed before it is
// created.
func (r *run) stat(path string, d *jute.Decoder) string {
	czxid, mzxid := d.Int64(), d.Int64()
	ctime, mtime := d.Int64(), d.Int64()
	version, cversion, aversion := d.Int32(), d.Int32(), d.Int32()
	owner := d.Int64()
	length, children := d.Int32(), d.Int32()
	pzxid := d.Int64()
	if d.Bad {
		return "stat cut off"
	}
	if path == "/" || path == "" {
		// The top of the tree: other sequences have added to it.
		cversion -= r.top.cversion
		children -= r.top.children
	}
	return fmt.Sprintf("stat{c=%s m=%s p=%s version=%d cversion=%d aversion=%d owner=%s length=%d children=%d%s}",
		r.zxid(czxid), r.zxid(mzxid), r.zxid(pzxid), version, cversion, aversion, r.owner(owner), length, children,
		r.oddTimes(czxid, mzxid, ctime, mtime))
}

func (r *run) oddTimes(czxid, mzxid, ctime, mtime int64) string {
	if czxid == 0 {
		// The nodes that a new server begins with.
		if ctime != 0 || mtime != 0 && mzxid == 0 {
			return " times of no transaction"
		}
		return ""
	}
	var odd []string
	for _, change := range [][2]int64{{czxid, ctime}, {mzxid, mtime}} {
		if at, seen := r.times[change[0]]; seen && at != change[1] {
			odd = append(odd, "one zxid has two times")
		}
		r.times[change[0]] = change[1]
	}
	if mtime < ctime {
		odd = append(odd, "changed before it was created")
	}
	// A minute is for clocks that are set while the test runs.
	if early, late := r.began.Add(-time.Minute), time.Now().Add(time.Minute); czxid >= r.base &&
		(time.UnixMilli(ctime).Before(early) || time.UnixMilli(mtime).After(late)) {
		odd = append(odd, "not of the time of this test")
	}
	if len(odd) == 0 {
		return ""
	}
	slices.Sort(odd)
	return " times: " + strings.Join(slices.Compact(odd), ", ")
}
