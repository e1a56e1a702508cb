package differ

import (
	"encoding/binary"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

var rootPath = regexp.MustCompile(`^/d\d{9}`)

// A server with a bug is the in-memory server behind a connection that alters its packets.

// altered replaces each packet of a server by the packets that alter returns.
type altered struct {
	net.Conn
	alter func(packet []byte) [][]byte
	shook bool   // whether the handshake's packet has passed
	got   []byte // from the server; a read deadline may pass within a packet
	ready []byte
}

func (c *altered) Read(b []byte) (int, error) {
	for len(c.ready) == 0 {
		if len(c.got) < 4 || len(c.got) < 4+c.size() {
			n, err := c.Conn.Read(b)
			if c.got = append(c.got, b[:n]...); err != nil {
				return 0, err
			}
			continue
		}
		packets := [][]byte{c.got[4 : 4+c.size()]}
		c.got = c.got[4+c.size():]
		if c.shook {
			packets = c.alter(packets[0])
		}
		c.shook = true
		for _, p := range packets {
			c.ready = append(c.ready, jute.Frame(p)...)
		}
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

func (c *altered) size() int { return int(binary.BigEndian.Uint32(c.got)) }

func (c *altered) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

func xidOf(packet []byte) int32  { return int32(binary.BigEndian.Uint32(packet)) }
func codeOf(packet []byte) int32 { return int32(binary.BigEndian.Uint32(packet[12:])) }

// TestBugsAreFound: a few hundred sequences find each of these bugs and report it in a few steps.
func TestBugsAreFound(t *testing.T) {
	t.Parallel()
	code := func(from, to int32) func() func([]byte) [][]byte {
		return func() func([]byte) [][]byte {
			return func(packet []byte) [][]byte {
				if codeOf(packet) == from {
					binary.BigEndian.PutUint32(packet[12:], uint32(to))
				}
				return [][]byte{packet}
			}
		}
	}
	bugs := []struct {
		name  string
		alter func() func(packet []byte) [][]byte // makes an alter function for each connection
		steps int                                 // how many steps suffice to show the bug
	}{
		{"NotEmpty is said to be NoNode", code(jute.CodeNotEmpty, jute.CodeNoNode), 4},
		{"a bad version is no error", code(jute.CodeBadVersion, jute.CodeOK), 3},
		{"events of children are lost", func() func([]byte) [][]byte {
			return func(packet []byte) [][]byte {
				if xidOf(packet) == jute.XidEvent && binary.BigEndian.Uint32(packet[16:]) == 4 {
					return nil
				}
				return [][]byte{packet}
			}
		}, 4},
		{"an event comes after the reply of its cause", func() func([]byte) [][]byte {
			var late [][]byte
			return func(packet []byte) [][]byte {
				if xidOf(packet) == jute.XidEvent {
					late = append(late, packet)
					return nil
				}
				packets := append([][]byte{packet}, late...)
				late = nil
				return packets
			}
		}, 3},
		{"a failed write takes no zxid", func() func([]byte) [][]byte {
			failed := int64(0)
			return func(packet []byte) [][]byte {
				if code := codeOf(packet); code == jute.CodeNoNode && xidOf(packet) > 0 {
					failed++
				}
				if zxid := binary.BigEndian.Uint64(packet[4:]); int64(zxid) > 0 && xidOf(packet) > 0 {
					binary.BigEndian.PutUint64(packet[4:], zxid-uint64(failed))
				}
				return [][]byte{packet}
			}
		}, 2},
		{"no more than one node is in a listing of ephemerals", func() func([]byte) [][]byte {
			return func(packet []byte) [][]byte {
				// The reply is a count of two and two paths below a root.
				d := jute.Decoder{Rest: packet[16:]}
				if paths := d.Texts(); !d.Bad && len(d.Rest) == 0 && len(paths) == 2 && rootPath.MatchString(paths[0]) {
					return [][]byte{jute.AppendTexts(packet[:16:16], paths[:1])}
				}
				return [][]byte{packet}
			}
		}, 5},
	}
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			right, wrong := memory(t, "3.9.3", calm), memory(t, "3.9.3", calm)
			wrong.Name = "with a bug"
			dial := wrong.Dial
			wrong.Dial = func() (net.Conn, error) {
				conn, err := dial()
				if err != nil {
					return nil, err
				}
				return &altered{Conn: conn, alter: bug.alter()}, nil
			}
			p := pair{right, wrong}
			for i := range int64(usualCount) {
				d, _ := p.compare(t, Generate(1, i))
				if d == nil {
					continue
				}
				short := p.shrink(t, d, 400)
				t.Logf("sequence %d, %d steps of %d:\n%s", i, len(short.Sequence), len(d.Sequence), short)
				if len(short.Sequence) > bug.steps {
					t.Errorf("%d steps, want at most %d", len(short.Sequence), bug.steps)
				}
				if again, _ := p.compare(t, short.Sequence); again == nil {
					t.Error("the sequence that is shown does not differ")
				}
				return
			}
			t.Errorf("not found in %d sequences", usualCount)
		})
	}
}

// TestSequencesAreText: a printed sequence can be parsed, and a seed always makes the same one.
func TestSequencesAreText(t *testing.T) {
	t.Parallel()
	for _, generate := range []func(seed, number int64) Sequence{Generate, GenerateLapse, GenerateSweep} {
		for i := range int64(50) {
			q := generate(7, i)
			text := q.String()
			again, err := Parse(strings.NewReader(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if again.String() != text || generate(7, i).String() != text {
				t.Fatalf("sequence %d is not the same twice:\n%s\n%s", i, text, again)
			}
		}
	}
	for _, bad := range []string{"x connect", "0 conect", `0 connect {"timeuot":1}`, "9 connect", `0 multi {"ops":[{"verb":"x"}]}`} {
		if _, err := Parse(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken for a step", bad)
		}
	}
}

func TestVersionsHaveChanges(t *testing.T) {
	t.Parallel()
	names := func(a, b string) (list []string) {
		for _, c := range Between(a, b) {
			list = append(list, c.Name)
		}
		return list
	}
	if same := names("3.9.3", "3.9.3"); len(same) > 0 {
		t.Errorf("a version differs from itself: %q", same)
	}
	for _, test := range []struct {
		in   []string
		have map[string]bool
	}{
		{[]string{"3.8.5", "3.9.3"}, map[string]bool{
			"3.7.9": false, "3.8.4": false, "3.8.5": true, "3.9.0": false, "3.9.2": false, "3.9.3": true, "3.10.0": true, "4.0.0": true,
		}},
		{[]string{"3.9.0"}, map[string]bool{"3.8.9": false, "3.9.0": true, "3.10.0": true}},
	} {
		for version, want := range test.have {
			if got := (Change{In: test.in}).has(version); got != want {
				t.Errorf("in since %v: %s has it: %v", test.in, version, got)
			}
		}
	}
	if !slices.Contains(names("3.8.0", "3.9.3"), Changes[0].Name) {
		t.Error("3.8.0 and 3.9.3 do not differ in what has changed with 3.9.0")
	}
}

// TestTimesAreChecked: the times in a Stat are not compared, but must be plausible.
func TestTimesAreChecked(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ms := now.UnixMilli()
	for _, test := range []struct {
		name                       string
		czxid, mzxid, ctime, mtime int64
		odd                        bool
	}{
		{"created", 5, 5, ms, ms, false},
		{"changed", 5, 6, ms, ms + 1, false},
		{"one zxid, two times", 5, 5, ms, ms + 1, true},
		{"changed before", 5, 6, ms, ms - 1, true},
		{"of long ago", 5, 5, ms - 600_000, ms - 600_000, true},
		{"of the future", 5, 6, ms, ms + 600_000, true},
		{"in seconds", 5, 5, ms / 1000, ms / 1000, true},
	} {
		r := &run{base: 1, began: now, times: map[int64]int64{}}
		if got := r.oddTimes(test.czxid, test.mzxid, test.ctime, test.mtime); (got != "") != test.odd {
			t.Errorf("%s: %q", test.name, got)
		}
	}
	r := &run{base: 1, began: now, times: map[int64]int64{}}
	if first, second := r.oddTimes(5, 5, ms, ms), r.oddTimes(4, 5, ms, ms+1); first != "" || second == "" {
		t.Errorf("another node, the same zxid, another time: %q, %q", first, second)
	}
}
