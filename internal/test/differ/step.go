package differ

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Step is an action of a client. A sequence of steps means the same on every server: paths are
// below a root for the sequence, zxids are counted from the creation of that root, and sessions are
// named by the connection that had them.
//
// As text a step is a line: the number of the connection, the verb, and the arguments that are not
// zero as a JSON object. A burst and a multi contain steps.
type Step struct {
	Conn int    `json:"-"`
	Verb string `json:"verb,omitempty"` // in JSON only inside another step

	Path    string `json:"path,omitempty"`
	Literal bool   `json:"literal,omitempty"` // send the path as it is, not below the root

	Data string `json:"data,omitempty"`
	Null bool   `json:"null,omitempty"` // the data is null
	Size int    `json:"size,omitempty"` // the data is that many bytes

	// ACL has entries like "31 world anyone"; nil means this entry. A single "empty" is a list
	// without entries. "digest NAME" means the digest of NAME:NAME, "digest! ID" means ID itself.
	ACL []string `json:"acl,omitempty"`

	Flags   int32 `json:"flags,omitempty"`
	TTL     int64 `json:"ttl,omitempty"`
	Version int32 `json:"version,omitempty"` // -1: any
	Watch   bool  `json:"watch,omitempty"`
	Kind    int32 `json:"kind,omitempty"` // kind of watch, for removeWatches and addWatch

	// For setWatches. Zxid counts from the creation of the root, also in connect.
	Zxid      int64    `json:"zxid,omitempty"`
	DataW     []string `json:"dataW,omitempty"`
	Exist     []string `json:"exist,omitempty"`
	Child     []string `json:"child,omitempty"`
	Persist   []string `json:"persist,omitempty"`
	Recursive []string `json:"recursive,omitempty"`

	Scheme string `json:"scheme,omitempty"`
	Auth   string `json:"auth,omitempty"`

	// For connect. Of is the number, plus one, of the connection whose last session is resumed; 0:
	// a new session. Timeout is in milliseconds.
	Of       int    `json:"of,omitempty"`
	Password string `json:"password,omitempty"` // "wrong", "short" or "zero"; otherwise the right one
	Timeout  int32  `json:"timeout,omitempty"`  // 0: 30000; -1: 0
	Seen     bool   `json:"seen,omitempty"`     // send Zxid as the last seen zxid; otherwise 0
	Old      bool   `json:"old,omitempty"`      // without the read-only byte, like clients before 3.4

	Code int32 `json:"code,omitempty"` // for an "unknown" request

	Ops []Step `json:"ops,omitempty"` // for multi, burst
}

func (s Step) String() string {
	verb, conn := s.Verb, s.Conn
	s.Verb = ""
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return fmt.Sprintf("%d %s %v", conn, verb, err)
	}
	if args := strings.TrimSpace(b.String()); args != "{}" {
		return fmt.Sprintf("%d %s %s", conn, verb, args)
	}
	return fmt.Sprintf("%d %s", conn, verb)
}

// Sequence is the steps of the clients, in order.
type Sequence []Step

func (q Sequence) String() string {
	var b strings.Builder
	for _, s := range q {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// Parse parses the text of Sequence.String. It skips empty lines and lines that begin with #.
func Parse(r io.Reader) (Sequence, error) {
	var q Sequence
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := parseStep(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		q = append(q, s)
	}
	return q, lines.Err()
}

func parseStep(line string) (Step, error) {
	number, rest, _ := strings.Cut(line, " ")
	verb, args, _ := strings.Cut(rest, " ")
	conn, err := strconv.Atoi(number)
	if err != nil || conn < 0 || conn >= maxConns {
		return Step{}, fmt.Errorf("%q is no number of a connection", number)
	}
	var s Step
	if args != "" {
		d := json.NewDecoder(strings.NewReader(args))
		// Without this a misspelled argument would make another request.
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return Step{}, err
		}
	}
	s.Conn, s.Verb = conn, verb
	return s, s.check()
}

func (s Step) check() error {
	if _, known := verbs[s.Verb]; !known {
		return fmt.Errorf("unknown verb %q", s.Verb)
	}
	for _, op := range s.Ops {
		if err := op.check(); err != nil {
			return err
		}
	}
	return nil
}
