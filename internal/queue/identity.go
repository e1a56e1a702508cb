package queue

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/zklocks/zklocks/internal/znode"
)

// identity is what a node contains without WithData: the process that created it, for people who
// list the queue. docs/reference/wire-format.md describes it.
type identity struct {
	Host string `json:"host,omitempty"`
	Pid  int    `json:"pid"`
}

// self is the identity of this process, encoded once.
var self = sync.OnceValue(func() []byte {
	host, _ := os.Hostname() // a process without one still has a number
	data, _ := json.Marshal(identity{Host: host, Pid: os.Getpid()})
	return data
})

// identify reads an identity; it returns zero values for other data. Any client may have written
// the data, and the result may be shown on a terminal. So identify omits a host name with spaces or
// control characters.
func identify(data []byte) (host string, pid int) {
	var id identity
	if len(data) > 4<<10 || json.Unmarshal(data, &id) != nil {
		return "", 0
	}
	if len(id.Host) <= 255 && !strings.ContainsFunc(id.Host, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		host = id.Host
	}
	return host, max(0, id.Pid)
}

// releaseRequest is the first line of the data of a node whose member is asked to release the lock.
const releaseRequest = "__REVOKE__"

func isReleaseRequest(data []byte) bool {
	rest, ok := bytes.CutPrefix(data, []byte(releaseRequest))
	return ok && (len(rest) == 0 || rest[0] == '\n')
}

// withoutRequest returns what a node contained before a request was written into it.
func withoutRequest(data []byte) []byte {
	if !isReleaseRequest(data) {
		return data
	}
	return bytes.TrimPrefix(data[len(releaseRequest):], []byte("\n"))
}

// requestFor returns the request to write into the node at path, which contains data. It keeps the
// data if this library has created the node, which its name shows. Other nodes may belong to
// Curator, which compares all of the data with the word.
func requestFor(path string, data []byte) []byte {
	node, ok := znode.Parse(path[strings.LastIndexByte(path, '/')+1:], znode.Kinds...)
	if len(data) > 0 && ok && node.Ours() {
		return slices.Concat([]byte(releaseRequest), []byte("\n"), data)
	}
	return []byte(releaseRequest)
}
