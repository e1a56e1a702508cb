package znode

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxPath keeps the requests that name the path, or a node below it, far below the 1 MiB that a
// server reads. A server closes the connection on a longer request, which looks like any lost
// connection and would be retried forever.
const maxPath = 64 << 10

// maxName is longer than the name of any node of a lock.
const maxName = 256

// ValidatePath returns an error that says what is wrong with the path of a lock. It accepts only
// what every server accepts, so that a bad path fails at once, before any node is created.
func ValidatePath(path string) error { return validate(path, maxPath) }

// ValidateNode is ValidatePath for the path of a node in the directory of a lock.
func ValidateNode(path string) error { return validate(path, maxPath+maxName) }

func validate(path string, most int) error {
	switch {
	case path == "":
		return errors.New("path is empty")
	case len(path) > most:
		return fmt.Errorf("path has %d bytes, the limit is %d", len(path), most)
	case path[0] != '/':
		return fmt.Errorf("path %q is relative: it must start with a slash", path)
	case path == "/":
		return errors.New("path is the root: a lock needs a directory of its own")
	case strings.HasSuffix(path, "/"):
		return fmt.Errorf("path %q ends with a slash", path)
	case path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/"):
		return fmt.Errorf("path %q is reserved by ZooKeeper", path)
	case !utf8.ValidString(path):
		return fmt.Errorf("path %q is not valid UTF-8", path)
	}
	for _, part := range strings.Split(path[1:], "/") {
		switch part {
		case "":
			return fmt.Errorf("path %q has an empty part", path)
		case ".", "..":
			return fmt.Errorf("path %q has a relative part", path)
		}
	}
	for _, r := range path {
		if r <= 0x1f || 0x7f <= r && r <= 0x9f || 0xd800 <= r && r <= 0xf8ff || 0xfff0 <= r {
			return fmt.Errorf("path %q has the character %U, which ZooKeeper refuses", path, r)
		}
	}
	return nil
}

// Shown returns a path for an error text: quoted if it would break the line of a log, and cut if it
// is too long.
func Shown(path string) string {
	switch {
	case len(path) > maxPath+maxName:
		return fmt.Sprintf("%.100q...", path)
	case !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl):
		return fmt.Sprintf("%q", path)
	}
	return path
}

// Parent returns the directory of a path, and "/" for a path right under the root.
func Parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}
