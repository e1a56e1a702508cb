// Package znode builds, parses and orders the names of the nodes in a lock's queue. It is pure: no
// connection, no I/O.
package znode

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the word in front of a node's sequence number, including its hyphen if it has one. It
// says whether the node reads, writes, locks and so on, and which library created it.
type Kind string

// The kinds of members. Curator's InterProcessMutex and go-zookeeper's zk.Lock also use Lock, so
// all three share one queue.
const (
	Read   Kind = "read-"
	Write  Kind = "write-"
	Lock   Kind = "lock-"
	Permit Kind = "permit-"

	// Kinds of Curator's InterProcessReadWriteLock.
	CuratorRead  Kind = "__READ__"
	CuratorWrite Kind = "__WRIT__"

	// The kind of Curator's LeaderLatch.
	Latch Kind = "latch-"

	// Kinds of kazoo: the first of its ReadLock, the other of its Lock and WriteLock.
	KazooRead Kind = "__rlock__"
	KazooLock Kind = "__lock__"
)

// Locks are the kinds of the members of all recipes but the semaphore.
var Locks = []Kind{Read, Write, Lock, CuratorRead, CuratorWrite, Latch, KazooRead, KazooLock}

// Kinds are the kinds of the members of all recipes.
var Kinds = append([]Kind{Permit}, Locks...)

// Ours reports whether no other library gives its nodes this kind.
func (k Kind) Ours() bool { return k == Read || k == Write || k == Permit }

// Makers names what creates nodes of this kind, for the error of a caller who uses something else.
func (k Kind) Makers() string {
	switch k {
	case Read, Write:
		return "package rwlock without an option for names"
	case Lock:
		return "package reentrant or leader"
	case Permit:
		return "package semaphore"
	case CuratorRead, CuratorWrite:
		return "rwlock.WithCuratorNames"
	case Latch:
		return "leader.WithLatchNames"
	case KazooRead, KazooLock:
		return "WithKazooNames (of rwlock, reentrant or leader)"
	}
	panic("znode: no kind " + string(k))
}

// bare reports whether names of this kind begin with the ID's 32 hexadecimal digits, as kazoo
// writes them, instead of "_c_" and a dashed ID.
func (k Kind) bare() bool { return k == KazooRead || k == KazooLock }

// Node is a member's node in a lock's directory.
type Node struct {
	Name string // as the directory lists it
	ID   string // chosen by the process before the create; empty if the name has none
	Kind Kind
	Seq  int64 // assigned by the server
}

// protected begins a name with an ID that was chosen before the create (Curator's withProtection).
// A client searches for the ID after a create whose reply was lost.
const protected = "_c_"

// version is the digit of an ID that says of which version the UUID is. The IDs of this library are
// random UUIDs of version 8, and those of Curator and kazoo of version 4.
const version = '8'

// NewID returns a random UUID in its dashed form, as Curator writes it.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails: it ends the program instead
	b[6] = b[6]&0x0f | (version-'0')<<4
	b[8] = b[8]&0x3f | 0x80
	text := make([]byte, 0, 36) // Sprintf would allocate half a dozen times for each node
	for i, part := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return string(text)
}

// Prefix returns the name to create sequentially: the server appends the number.
func Prefix(id string, kind Kind) string {
	if kind.bare() {
		return strings.ReplaceAll(id, "-", "") + string(kind)
	}
	return protected + id + "-" + string(kind)
}

// As returns the node that replaces n in the queue under another kind, with the same ID and
// sequence number.
func (n Node) As(kind Kind) Node {
	n.Kind = kind
	n.Name = Prefix(n.ID, kind) + fmt.Sprintf("%010d", n.Seq)
	return n
}

// Ours reports whether this library has created the node.
func (n Node) Ours() bool {
	id := strings.ReplaceAll(n.ID, "-", "")
	return n.Kind.Ours() || len(id) == 32 && id[12] == version
}

// Parse parses a child's name. It returns false for a child of none of the given kinds. Another
// recipe or program owns such a child, so the lock ignores it.
func Parse(name string, kinds ...Kind) (Node, bool) {
	word, digits := splitSequence(name)
	if digits == "" {
		return Node{}, false
	}
	for _, kind := range kinds {
		id, ok := strings.CutSuffix(word, string(kind))
		negative := false
		if !ok {
			// A hyphen after the kind is the sign of a counter that has passed 2^31.
			if id, negative = strings.CutSuffix(word, string(kind)+"-"); !negative {
				continue
			}
		}
		if id, ok = cutID(id, kind.bare()); !ok {
			return Node{}, false
		}
		var seq int64 // at most ten digits
		for i := range len(digits) {
			seq = 10*seq + int64(digits[i]-'0')
		}
		if negative {
			if seq == 0 || len(digits) == 10 && digits[0] == '0' {
				return Node{}, false // no server writes it so
			}
			seq = -seq
		} else if len(digits) < 10 {
			return Node{}, false
		}
		return Node{Name: name, ID: id, Kind: kind, Seq: seq}, true
	}
	return Node{}, false
}

// splitSequence cuts the sequence number off a name. The server writes an int as %010d: ten digits,
// or a minus sign and nine or ten digits.
func splitSequence(name string) (word, digits string) {
	i := len(name)
	for i > 0 && '0' <= name[i-1] && name[i-1] <= '9' {
		i--
	}
	if n := len(name) - i; n < 9 || n > 10 {
		return name, ""
	}
	return name[:i], name[i:]
}

// cutID parses what precedes the kind: nothing, or a protected ID of 32 hex digits (zk.Lock) or 36
// characters (Curator, this library). A bare ID has 32 digits.
func cutID(s string, bare bool) (id string, ok bool) {
	if s == "" {
		return "", true
	}
	if bare {
		return s, len(s) == 32 && isID(s) && !strings.Contains(s, "-")
	}
	id, ok = strings.CutPrefix(s, protected)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, "-")
	return id, ok && (len(id) == 32 || len(id) == 36) && isID(id)
}

// isID reports whether s has only hexadecimal digits and dashes.
func isID(s string) bool {
	for i := range len(s) {
		if !inID[s[i]] {
			return false
		}
	}
	return true
}

// inID is a table for speed: a handover may parse a thousand names.
var inID = func() (in [256]bool) {
	for _, c := range []byte("0123456789abcdefABCDEF-") {
		in[c] = true
	}
	return in
}()

// MaxPermits is the length of the longest number of permits.
const MaxPermits = len("9223372036854775807")

// Permits parses the data of a semaphore's path: the number of permits in decimal digits. It
// returns 0 if the data are something else.
func Permits(data []byte) int {
	n, err := strconv.Atoi(string(data[:min(len(data), MaxPermits+1)]))
	if err != nil {
		return 0
	}
	return max(n, 0)
}
