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

// path returns the path that is sent to the server.
func (r *run) path(s Step) string {
	if s.Literal {
		return s.Path
	}
	return r.below(s.Path)
}

// below returns the server's path for a path of the sequence: "/" is the root.
func (r *run) below(path string) string {
	if path == "/" {
		return r.root
	}
	return r.root + path
}

// name is the inverse of below. It marks a path that is not below the root.
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

// rootName matches the roots of sequences among the children of "/".
var rootName = regexp.MustCompile(`^d\d{9}$`)

// children returns sorted children, because servers return them in the order of a hash table. It
// omits roots of other sequences.
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

// zxid counts from the creation of the root, or from the last sweep. Earlier zxids are all alike.
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

// owner names a session by the order in which it was granted.
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

// stat decodes a Stat.
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
		cversion, children = 0, 0 // "/" also has the changes of other sequences
	}
	return fmt.Sprintf("stat{c=%s m=%s p=%s version=%d cversion=%d aversion=%d owner=%s length=%d children=%d%s}",
		r.zxid(czxid), r.zxid(mzxid), r.zxid(pzxid), version, cversion, aversion, r.owner(owner), length, children,
		r.oddTimes(czxid, ctime, mtime))
}

// oddTimes checks times, which are not compared: no node changes before it is created, and what
// this sequence creates has times of this test. A minute is for clocks that are set meanwhile.
func (r *run) oddTimes(czxid, ctime, mtime int64) string {
	early, late := r.began.Add(-time.Minute), time.Now().Add(time.Minute)
	if mtime < ctime || czxid >= r.base && (time.UnixMilli(ctime).Before(early) || time.UnixMilli(mtime).After(late)) {
		return " with odd times"
	}
	return ""
}
