package differ

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// maxConns is how many connections a sequence may use.
const maxConns = 4

// defaultTimeout is the default session timeout of clients, in milliseconds.
const defaultTimeout = 30000

// Target is a server on which sequences run, one at a time. No other client may write to it then,
// and none of its sessions may expire by itself: each write takes a zxid, and zxids are compared.
type Target struct {
	Name    string
	Version string // as in srvr
	Dial    func() (net.Conn, error)

	// Fresh, if not nil, makes a new server before each sequence, which Dial then reaches.
	Fresh func()

	// Bug, if not nil, makes the bug of a connection, see wire.
	Bug func() func(packet []byte) [][]byte

	// Idle is the time within which an unused session expires, and Sweep the time within which an
	// empty container is deleted. Steps that wait for that wait as long.
	Idle, Sweep time.Duration

	Requests int            // sent by steps
	Answers  map[string]int // by kind of request and code: "create -110"

	runs   int64
	keeper admin // set by the first run
}

func (t *Target) answered(verb string, code int32) {
	if t.Answers == nil {
		t.Answers = map[string]int{}
	}
	t.Answers[fmt.Sprintf("%s %d", verb, code)]++
}

// Transcript is a server's answers: a group of lines for each step. Lines of one connection in a
// group are in the order of their arrival.
type Transcript [][]string

// run is a sequence on a target.
type run struct {
	target   *Target
	root     string
	base     int64 // the zxid that created the root
	floor    int64 // all zxids up to this one are alike
	sessions []session
	conns    [maxConns]client
	began    time.Time
	group    []string
	late     bool // see ErrLate
}

// client is the connection with a number.
type client struct {
	wire    *wire         // nil if there is none
	session int           // index into sessions plus one, of the last session granted to it; 0: none
	timeout time.Duration // of the session
	used    time.Time     // when the last answered request was sent
}

type session struct {
	id       int64
	password []byte
}

// ErrLate is returned by Run if so much time has passed between two requests of a session that it
// may have expired, although the sequence does not intend that: the machine was busy. The answers
// are then useless.
var ErrLate = errors.New("differ: the machine was too slow for a session's timeout")

// Run plays the sequence and returns the server's answers. If it returns an error, the result is
// unknown.
func (t *Target) Run(q Sequence) (Transcript, error) {
	t.runs++
	r := &run{
		target: t,
		// All names have the same length: lengths of packets are compared.
		root:  fmt.Sprintf("/d%09d", t.runs),
		began: time.Now(),
	}
	if t.Fresh != nil {
		t.Close()
		t.Fresh()
	}
	admin, err := t.admin()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	if err := r.prepare(admin); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	var script Transcript
	for _, s := range q {
		r.group = nil
		r.step(s)
		script = append(script, r.group)
	}
	r.group = nil
	for i := range r.conns {
		r.pong(i)
	}
	script = append(script, r.group)
	if err := r.cleanUp(admin); err != nil {
		return nil, fmt.Errorf("%s: clean-up: %w", t.Name, err)
	}
	if r.late {
		return nil, ErrLate
	}
	return script, nil
}

func (r *run) say(conn int, format string, args ...any) {
	r.group = append(r.group, fmt.Sprintf("[%d] %s", conn, fmt.Sprintf(format, args...)))
}

func (r *run) step(s Step) {
	switch s.Verb {
	case "connect":
		r.connect(s)
	case "cut":
		r.cut(s.Conn)
	case "lapse":
		r.lapse(s)
	case "sweep":
		r.sweep(s)
	case "burst":
		r.request(s.Conn, s.Ops)
	default:
		r.request(s.Conn, []Step{s})
	}
}

// connect opens a connection. It cuts the connection that had this number; the server handles other
// connections of the same session.
func (r *run) connect(s Step) {
	r.cut(s.Conn)
	c := &r.conns[s.Conn]
	conn, err := r.target.Dial()
	if err != nil {
		r.say(s.Conn, "connect: %v", err)
		return
	}
	w := newWire(conn)
	h := jute.Handshake{Timeout: s.Timeout, Password: make([]byte, 16)}
	if s.Seen {
		h.Zxid = r.base + s.Zxid
	}
	switch s.Timeout {
	case 0:
		h.Timeout = defaultTimeout
	case -1:
		h.Timeout = 0
	}
	if s.Of > 0 {
		h.Session = 0x7777 // no server has granted it
		if of := r.conns[s.Of-1].session; of > 0 {
			h.Session, h.Password = r.sessions[of-1].id, slices.Clone(r.sessions[of-1].password)
		}
		switch s.Password {
		case "wrong":
			h.Password[0] ^= 1
		case "short":
			h.Password = h.Password[:8]
		case "zero":
			clear(h.Password)
		}
	}
	r.target.Requests++
	r.touched(s.Conn)
	sent := time.Now()
	g, err := w.handshake(h, s.Old)
	switch {
	case err != nil:
		r.say(s.Conn, "connect: %s", describe(err))
		_ = conn.Close()
	case g.Session == 0:
		r.say(s.Conn, "refused: %s", r.granted(g, h.Password))
		c.wire = w
	default:
		line := r.granted(g, h.Password)
		c.wire, c.session = w, r.sessionOf(g)
		c.used, c.timeout = sent, time.Duration(g.Timeout)*time.Millisecond
		r.say(s.Conn, "connected: %s", line)
		if r.target.Bug != nil {
			w.alter = r.target.Bug()
		}
	}
	// By now the server has closed another connection of this session.
	r.barrier(-1)
}

// granted describes the reply to a handshake.
func (r *run) granted(g grant, sent []byte) string {
	password := fmt.Sprintf("%d bytes", len(g.Password))
	known := slices.IndexFunc(r.sessions, func(s session) bool { return s.id == g.Session })
	switch {
	case bytes.Equal(g.Password, make([]byte, len(g.Password))):
		password += " of zero"
	case known >= 0 && bytes.Equal(r.sessions[known].password, g.Password):
		password += ", the session's"
	case known >= 0:
		password += ", another"
	case bytes.Equal(sent, g.Password):
		password += ", as sent"
	}
	name := "new"
	if known >= 0 || g.Session == 0 {
		name = r.owner(g.Session)
	}
	return fmt.Sprintf("protocol=%d timeout=%d session=%s password=%s readOnly=%s trailing=%d",
		g.Protocol, g.Timeout, name, password, g.readOnly, g.trailing)
}

// sessionOf returns the session's index plus one.
func (r *run) sessionOf(g grant) int {
	for i, s := range r.sessions {
		if s.id == g.Session {
			return i + 1
		}
	}
	r.sessions = append(r.sessions, session{g.Session, g.Password})
	return len(r.sessions)
}

// cut closes the connection, and waits until the server has closed it, too: if the session were
// resumed while Java still cleans up after the first connection, the result would be random.
func (r *run) cut(conn int) {
	if w := r.conns[conn].wire; w != nil {
		w.close()
		r.conns[conn].wire = nil
	}
}

// request sends the steps in one write, reads the replies, and then what the other connections
// receive because of it.
func (r *run) request(conn int, steps []Step) {
	if !r.ask(conn, steps) {
		return
	}
	if slices.ContainsFunc(steps, Step.writes) {
		from := len(r.group)
		r.barrier(conn)
		if closes := slices.ContainsFunc(steps, func(s Step) bool { return s.Verb == "close" }); closes {
			r.sortEnd(conn, from)
		}
	}
}

// sortEnd sorts the events of the end of a session, whose nodes are deleted in random order: the
// events before the reply to the close, and what other connections receive, which is in the group
// from that index on.
func (r *run) sortEnd(conn, from int) {
	slices.Sort(r.group[from:])
	end := slices.IndexFunc(r.group, func(line string) bool {
		return strings.HasPrefix(line, fmt.Sprintf("[%d] reply to close", conn))
	})
	begin := end
	for begin > 0 && strings.HasPrefix(r.group[begin-1], fmt.Sprintf("[%d] event", conn)) {
		begin--
	}
	slices.Sort(r.group[max(begin, 0):max(end, 0)])
}

// ending are the errors after which a server closes the connection: AuthFailed, SessionExpired,
// SessionMoved, and Unimplemented unless it refuses a kind of node.
var ending = []int32{-115, -112, -6, -118}

// writes reports whether the request may affect other connections.
func (s Step) writes() bool {
	switch s.Verb {
	case "exists", "getData", "getACL", "getChildren", "getChildren2", "sync", "ping", "check",
		"checkWatches", "removeWatches", "setWatches", "setWatches2", "addWatch", "auth":
		return false
	}
	return true
}

func (r *run) encode(w *wire, s Step) (xid int32, packet []byte) {
	v := verbs[s.Verb]
	code := v.code
	switch s.Verb {
	case "ping":
		xid = jute.XidPing
	case "auth":
		xid = jute.XidAuth
	case "setWatches", "setWatches2":
		xid = jute.XidSetWatches
	case "unknown":
		code = s.Code
		fallthrough
	default:
		w.xid++
		xid = w.xid
	}
	b := jute.AppendInt32(jute.AppendInt32(nil, xid), code)
	if v.encode != nil {
		b = v.encode(r, s, b)
	}
	return xid, jute.Frame(b)
}

// ask sends the steps in one write and reads the replies.
func (r *run) ask(conn int, steps []Step) (connected bool) {
	w := r.conns[conn].wire
	if w == nil {
		r.say(conn, "has no connection")
		return false
	}
	var packets []byte
	var pending []asked
	for _, s := range steps {
		xid, packet := r.encode(w, s)
		packets = append(packets, packet...)
		pending = append(pending, asked{s, xid})
	}
	r.target.Requests += len(steps)
	sent := time.Now()
	if err := w.send(packets); err != nil {
		r.lost(conn, ended(err))
	} else {
		r.replies(conn, w, pending)
	}
	r.touched(conn)
	if c := &r.conns[conn]; c.wire != nil {
		c.used = sent
	}
	return true
}

// touched detects that so much time has passed since the session's last request that the server may
// have expired the session before the request that it answers now.
func (r *run) touched(conn int) {
	c := &r.conns[conn]
	r.late = r.late || c.timeout > 0 && time.Since(c.used) >= c.timeout
}

// asked is a request without a reply.
type asked struct {
	step Step
	xid  int32
}

// hesitation is how long to wait for a reply before a ping checks whether there is one.
const hesitation = 200 * time.Millisecond

// endingTime is how long a server may take to close a connection after its last packet.
const endingTime = 5 * time.Second

// replies reads until each request has a reply or will not have one: old servers do not answer some
// requests. A reply to a later request shows that; if there is none, a ping is sent.
func (r *run) replies(conn int, w *wire, pending []asked) {
	within, pinged, own, closes := hesitation, false, false, false
	if slices.ContainsFunc(pending, func(a asked) bool { return a.step.ends() }) {
		// If a packet arrives after a server has closed the connection, the server's unsent packets
		// are lost. So nothing is sent after such a request, which always has a reply.
		within, pinged = patience, true
	}
	for len(pending) > 0 {
		packet, err := w.receive(within)
		if errors.Is(err, errSilent) && !pinged {
			within, pinged, own = patience, true, true
			ping := Step{Verb: "ping"}
			xid, packet := r.encode(w, ping)
			pending = append(pending, asked{ping, xid})
			err = w.send(packet)
		}
		if err != nil {
			r.lost(conn, err)
			return
		}
		if packet == nil {
			continue
		}
		d := &jute.Decoder{Rest: packet}
		xid, zxid, code := d.Int32(), d.Int64(), d.Int32()
		if !d.Bad && xid == jute.XidEvent {
			r.event(conn, zxid, code, d)
			continue
		}
		at := slices.IndexFunc(pending, func(a asked) bool { return a.xid == xid })
		if at < 0 {
			r.say(conn, "reply that was not asked for: xid=%d zxid=%s err=%d", xid, r.zxid(zxid), code)
			continue
		}
		for _, a := range pending[:at] {
			r.say(conn, "no reply to %s", a.step.Verb)
		}
		step := pending[at].step
		pending = pending[at+1:]
		if len(pending) > 0 || !own {
			r.reply(conn, step, zxid, code, d)
		}
		// After these a server may close the connection.
		closes = closes || step.ends() && step.Verb != "auth" || slices.Contains(ending, code) && !strings.HasPrefix(step.Verb, "create")
	}
	if closes {
		r.awaitEnd(conn, w)
	}
}

// ends reports whether a server may close the connection after it.
func (s Step) ends() bool {
	switch s.Verb {
	case "close", "unknown", "auth":
		return true
	}
	return false
}

// awaitEnd waits for the end of the connection. It sends no ping: Java sends what it has for a
// connection that it closes, so whether a ping is answered is random.
func (r *run) awaitEnd(conn int, w *wire) {
	switch packet, err := w.receive(endingTime); {
	case errors.Is(err, errSilent):
		r.pong(conn)
	case err != nil:
		r.lost(conn, err)
	default:
		r.say(conn, "a packet of %d bytes in place of the end", len(packet))
	}
}

func (r *run) reply(conn int, s Step, zxid int64, code int32, d *jute.Decoder) {
	r.target.answered(s.Verb, code)
	line := fmt.Sprintf("reply to %s: zxid=%s err=%d", s.Verb, r.zxid(zxid), code)
	if decode := verbs[s.Verb].decode; decode != nil && (code == 0 || len(d.Rest) > 0) {
		line += " " + decode(r, s, d)
	}
	r.say(conn, "%s", line+rest(d))
}

// rest describes a packet that ends too early or too late.
func rest(d *jute.Decoder) (text string) {
	if d.Bad {
		text = fmt.Sprintf(" (%v)", d.Err())
	}
	if len(d.Rest) > 0 {
		text += fmt.Sprintf(" trailing=%x", d.Rest)
	}
	return text
}

func (r *run) event(conn int, zxid int64, code int32, d *jute.Decoder) {
	kind, state, path := d.Int32(), d.Int32(), d.Text()
	r.say(conn, "event zxid=%s err=%d type=%d state=%d path=%s%s", r.zxid(zxid), code, kind, state, r.name(path), rest(d))
}

// barrier reads what all connections but one have received so far.
func (r *run) barrier(but int) {
	for i := range r.conns {
		if i != but {
			r.pong(i)
		}
	}
}

// pong sends a ping and reads up to its answer: everything that the server had sent comes before
// it.
func (r *run) pong(conn int) {
	w := r.conns[conn].wire
	if w == nil {
		return
	}
	ping := Step{Verb: "ping"}
	xid, packet := r.encode(w, ping)
	sent := time.Now()
	// If it cannot be sent, the earlier packets can still be read.
	_ = w.send(packet)
	r.replies(conn, w, []asked{{ping, xid}})
	r.touched(conn)
	if c := &r.conns[conn]; c.wire != nil {
		c.used = sent
	}
}

// lost records the end of a connection.
func (r *run) lost(conn int, err error) {
	r.say(conn, "%s", describe(err))
	r.cut(conn)
}

func describe(err error) string {
	if errors.Is(err, io.EOF) {
		return "closed"
	}
	return err.Error()
}

// lapse keeps a connection silent until its session has expired. If the connection was cut, the
// server sends nothing, so lapse waits for the longest possible time.
func (r *run) lapse(s Step) {
	r.touched(s.Conn)
	if w := r.conns[s.Conn].wire; w != nil {
		// The end of the session also fires its own watches, and the connection is closed at once:
		// whether the events arrive is random.
		packet, err := w.receive(patience)
		for ; err == nil; packet, err = w.receive(patience) {
			d := &jute.Decoder{Rest: packet}
			if xid := d.Int32(); xid != jute.XidEvent {
				r.say(s.Conn, "reply that was not asked for: xid=%d", xid)
			}
		}
		r.lost(s.Conn, err)
	} else {
		time.Sleep(r.target.Idle)
	}
	r.conns[s.Conn].timeout = 0 // the session has ended
	r.barrier(s.Conn)
	// The nodes are deleted in random order.
	slices.Sort(r.group)
}

// sweep sends requests that empty containers, and waits until the node in the step is deleted, or
// as long as a sweep takes on an idle machine. It sends no ping meanwhile: the server may sweep at
// any time.
//
// A Java server that is late sweeps twice in a row, and deletes the same node twice. The second
// request fails, and takes a zxid. So zxids are counted again from here.
func (r *run) sweep(s Step) {
	if len(s.Ops) > 0 {
		r.ask(s.Conn, s.Ops)
	}
	from := len(r.group)
	time.Sleep(r.target.Sweep)
	// The wait is limited: while the sequence is shrunk, the node may never be deleted.
	for end := time.Now().Add(10 * r.target.Sweep); s.Path != "" && time.Now().Before(end) && r.target.keeper.has(r.path(s)); {
		time.Sleep(r.target.Sweep / 2)
	}
	r.floor = r.target.keeper.zxid()
	r.barrier(-1)
	// Several nodes are deleted in random order.
	slices.Sort(r.group[from:])
}
