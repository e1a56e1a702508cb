package queue

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"unicode"
)

// identity is what a node contains unless WithData says otherwise: the process that created it, for
// a person who looks at the queue. docs/reference/wire-format.md describes it.
type identity struct {
	Host string `json:"host,omitempty"`
	Pid  int    `json:"pid"`
}

// maxIdentity is longer than any identity: a host name has at most 255 bytes.
const maxIdentity = 4 << 10

// self is the identity of this process, encoded once.
var self = sync.OnceValue(func() []byte {
	host, _ := os.Hostname() // a process without one still has a number
	data, _ := json.Marshal(identity{Host: host, Pid: os.Getpid()})
	return data
})

// identify reads an identity. Data of any other kind have none. What others have written may be
// shown on a terminal: a name that is no word is left out.
func identify(data []byte) (host string, pid int) {
	var id identity
	if len(data) > maxIdentity || json.Unmarshal(data, &id) != nil {
		return "", 0
	}
	if len(id.Host) <= 255 && !strings.ContainsFunc(id.Host, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		host = id.Host
	}
	return host, max(0, id.Pid)
}
