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

// defaultTimeout is what a client asks for that does not care, in milliseconds.
const defaultTimeout = 30000

// Target is a server to run sequences on, one at a time. No other client may write to it meanwhile,
// and none of its sessions may expire by itself: each write takes a zxid, and they are compared.
type Target struct {
	Name    string
	Version string // as in srvr
	Dial    func() (net.Conn, error)

	// Fresh, when it is not nil, makes a new server before each sequence, which Dial then reaches.
	Fresh func()

	// Idle is within what time a session expires that is used no more, Sweep within what time an
	// empty container goes. Steps that wait for that wait as long.
	Idle, Sweep time.Duration

	Count Count

	runs   int64
	keeper admin // made by the first run
}

// Count is what a Target was asked, and how often it answered each kind of request with which code.
type Count struct {
	Sequences, Requests, Events int
	Answers                     map[string]int
}

func (c *Count) answer(verb string, code int32) {
	if c.Answers == nil {
		c.Answers = map[string]int{}
	}
	c.Answers[fmt.Sprintf("%s %d", verb, code)]++
}

// Transcript is what a server answered, a group of lines for each step. Lines of one group that
// come from one connection are in the order in which they arrived there.
type Transcript [][]string

// run is one sequence on one target.
type run struct {
	target   *Target
	root     string
	base     int64 // the zxid that created the root
	floor    int64 // of zxids up to this one nothing is said
	top      top
	sessions []session
	conns    [maxConns]client
	times    map[int64]int64 // by zxid, in milliseconds
	began    time.Time
	group    []string
	late     bool // see ErrLate
}

// client is what a connection's number stands for.
type client struct {
	wire    *wire // nil when there is none
	session int   // index into sessions plus one: the last that was granted; 0: none was
	refused bool  // the present connection was not granted one

	timeout time.Duration // of the session
	used    time.Time     // when the last request was sent that has been answered
}

type session struct {
	id       int64
	password []byte
}

// top is the node above the roots. Other sequences have left traces in its stat.
type top struct {
	cversion, children int32
}

// ErrLate is returned by Run when so much time has passed between two requests of a session that it
// may have expired, while the sequence does not want that: the machine was busy. Then the answers
// mean nothing.
var ErrLate = errors.New("differ: the machine was too slow for a session's timeout")

// Run plays the sequence and returns what the server answered. An error means that the result is
// unknown.
func (t *Target) Run(q Sequence) (Transcript, error) {
	t.runs++
	r := &run{
		target: t,
		// All names have one length: lengths of packets are part of what is compared.
		root:  fmt.Sprintf("/d%09d", t.runs),
		times: map[int64]int64{},
		began: time.Now(),
	}
	t.Count.Sequences++
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
	if err := r.cleanUp(admin); err != nil && t.Fresh == nil {
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

// connect makes a connection. The one that this number stood for is cut; any other that has the
// same session is the server's affair.
func (r *run) connect(s Step) {
	r.cut(s.Conn)
	c := &r.conns[s.Conn]
	conn, err := r.target.Dial()
	if err != nil {
		r.say(s.Conn, "connect: %v", err)
		return
	}
	w := newWire(conn)
	var zxid int64
	if s.Seen {
		zxid = r.base + s.Zxid
	}
	timeout := s.Timeout
	switch timeout {
	case 0:
		timeout = defaultTimeout
	case -1:
		timeout = 0
	}
	id, password := int64(0), make([]byte, 16)
	if s.Of > 0 {
		of := r.conns[s.Of-1].session
		if of == 0 {
			// No session was granted there: an id that no server has given out.
			id = 0x7777
		} else {
			id, password = r.sessions[of-1].id, r.sessions[of-1].password
		}
		switch s.Password {
		case "wrong":
			password = slices.Clone(password)
			password[0] ^= 1
		case "short":
			password = password[:8]
		case "zero":
			password = make([]byte, 16)
		}
	}
	r.target.Count.Requests++
	r.touched(s.Conn)
	sent := time.Now()
	g, err := w.handshake(zxid, timeout, id, password, s.Old)
	switch {
	case err != nil:
		r.say(s.Conn, "connect: %s", describe(err))
		_ = conn.Close()
	case g.session == 0:
		r.say(s.Conn, "refused: %s", r.granted(g, password))
		c.wire, c.refused = w, true
	default:
		c.wire, c.refused = w, false
		line := r.granted(g, password)
		c.session = r.sessionOf(g)
		c.used, c.timeout = sent, time.Duration(g.timeout)*time.Millisecond
		r.say(s.Conn, "connected: %s", line)
	}
	// A connection that had this session is closed by now.
	r.barrier(-1)
}

// granted describes a handshake's reply.
func (r *run) granted(g grant, sent []byte) string {
	password := fmt.Sprintf("%d bytes", len(g.password))
	known := slices.IndexFunc(r.sessions, func(s session) bool { return s.id == g.session })
	switch {
	case bytes.Equal(g.password, make([]byte, len(g.password))):
		password += " of zero"
	case known >= 0 && bytes.Equal(r.sessions[known].password, g.password):
		password += ", the session's"
	case known >= 0:
		password += ", another"
	case bytes.Equal(sent, g.password):
		password += ", as sent"
	}
	name := "new"
	if known >= 0 || g.session == 0 {
		name = r.owner(g.session)
	}
	return fmt.Sprintf("protocol=%d timeout=%d session=%s password=%s readOnly=%s trailing=%d",
		g.protocol, g.timeout, name, password, g.readOnly, g.trailing)
}

// sessionOf is the session's index plus one.
func (r *run) sessionOf(g grant) int {
	for i, s := range r.sessions {
		if s.id == g.session {
			return i + 1
		}
	}
	r.sessions = append(r.sessions, session{g.session, g.password})
	return len(r.sessions)
}

// cut closes the connection, and waits until the server has closed it, too: what Java does when the
// session comes back on another connection while it still cleans up after the first is a matter of
// microseconds.
func (r *run) cut(conn int) {
	if w := r.conns[conn].wire; w != nil {
		w.close()
		r.conns[conn].wire = nil
	}
}

// request sends the steps in one piece, reads the replies, and then what other connections were
// sent because of it.
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

// sortEnd: the nodes of a session that ends go in no certain order, so the events of that have
// none: those before the reply to the close, and what other connections were sent, which is in the
// group from that index on.
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

// ending are the errors after which servers close the connection: AuthFailed, SessionExpired,
// Unimplemented, SessionMoved.
var ending = []int32{-115, -112, -6, -118}

// writes: the request may concern other connections.
func (s Step) writes() bool {
	switch s.Verb {
	case "exists", "getData", "getACL", "getChildren", "getChildren2", "sync", "ping", "check", "multiRead",
		"removeWatches", "checkWatches", "setWatches", "setWatches2", "getEphemerals", "childCount", "addWatch", "auth",
		"whoAmI", "sasl":
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
	// The header stays whole: without it there is no request.
	b = append(b[:max(8, len(b)-s.Cut)], make([]byte, s.More)...)
	return xid, jute.Frame(b)
}

// ask sends the steps in one piece and reads the replies.
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
	r.target.Count.Requests += len(steps)
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

// touched detects that the session's last request was sent so long ago that the server may have
// expired the session before it got the one that is answered now.
func (r *run) touched(conn int) {
	c := &r.conns[conn]
	r.late = r.late || c.timeout > 0 && time.Since(c.used) >= c.timeout
}

// asked is a request that waits for its reply.
type asked struct {
	step Step
	xid  int32
}

// hesitation is how long a reply is waited for before the server is asked whether there is one.
const hesitation = 200 * time.Millisecond

// endingTime is how long a server may take to close a connection after its last packet.
const endingTime = 5 * time.Second

// replies reads until each request has its reply or will not get one: a server of old does not
// answer some. A reply to a later request tells, and where there is none, a ping is one.
func (r *run) replies(conn int, w *wire, pending []asked) {
	within, pinged, own, closes := hesitation, false, false, false
	if slices.ContainsFunc(pending, func(a asked) bool { return a.step.ends() }) {
		// A packet that arrives after the server has closed the connection makes it forget what it
		// still had to send, so nothing is sent behind such a request. It has a reply.
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
		closes = closes || step.ends() && (step.Verb != "auth" && step.Verb != "sasl") || slices.Contains(ending, code)
	}
	if closes {
		r.awaitEnd(conn, w)
	}
}

// ends: a server may close the connection after it.
func (s Step) ends() bool {
	switch s.Verb {
	case "close", "unknown", "auth", "sasl":
		return true
	}
	return false
}

// awaitEnd waits for the end of the connection. A ping would tell sooner that there is none, but
// Java sends what it has for a connection that it closes, so whether the ping is answered is a
// matter of microseconds.
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
	r.target.Count.answer(s.Verb, code)
	line := fmt.Sprintf("reply to %s: zxid=%s err=%d", s.Verb, r.zxid(zxid), code)
	if decode := verbs[s.Verb].decode; decode != nil && (code == 0 || len(d.Rest) > 0) {
		line += " " + decode(r, s, d)
	}
	if d.Bad {
		line += fmt.Sprintf(" (%v)", d.Err())
	}
	if len(d.Rest) > 0 {
		line += fmt.Sprintf(" trailing=%x", d.Rest)
	}
	r.say(conn, "%s", line)
}

func (r *run) event(conn int, zxid int64, code int32, d *jute.Decoder) {
	r.target.Count.Events++
	kind, state, path := d.Int32(), d.Int32(), d.Text()
	line := fmt.Sprintf("event zxid=%s err=%d type=%d state=%d path=%s", r.zxid(zxid), code, kind, state, r.name(path))
	if d.Bad {
		line += fmt.Sprintf(" (%v)", d.Err())
	}
	if len(d.Rest) > 0 {
		line += fmt.Sprintf(" trailing=%x", d.Rest)
	}
	r.say(conn, "%s", line)
}

// barrier reads what all connections but one have been sent so far.
func (r *run) barrier(but int) {
	for i := range r.conns {
		if i != but {
			r.pong(i)
		}
	}
}

// pong sends a ping and reads up to its answer: whatever the server had sent before comes before
// it.
func (r *run) pong(conn int) {
	w := r.conns[conn].wire
	if w == nil {
		return
	}
	ping := Step{Verb: "ping"}
	xid, packet := r.encode(w, ping)
	sent := time.Now()
	// When it cannot be sent, what came before is still there to read.
	_ = w.send(packet)
	r.replies(conn, w, []asked{{ping, xid}})
	r.touched(conn)
	if c := &r.conns[conn]; c.wire != nil {
		c.used = sent
	}
}

// lost takes note of the end of a connection.
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

// lapse keeps a connection silent until its session has expired. Of one that is cut the server says
// nothing, so that takes the time that it may take at most.
func (r *run) lapse(s Step) {
	r.touched(s.Conn)
	if w := r.conns[s.Conn].wire; w != nil {
		r.untilEnd(s.Conn, w)
		// The end of the session is an event for its own watches, too, and the connection is closed
		// at once: whether the events still arrive is a matter of microseconds.
		r.group = slices.DeleteFunc(r.group, func(line string) bool {
			return strings.HasPrefix(line, fmt.Sprintf("[%d] event", s.Conn))
		})
	} else {
		time.Sleep(r.target.Idle)
	}
	r.conns[s.Conn].timeout = 0 // it is over
	r.barrier(s.Conn)
	// The nodes go in no certain order.
	slices.Sort(r.group)
}

func (r *run) untilEnd(conn int, w *wire) {
	for {
		packet, err := w.receive(patience)
		if err != nil {
			r.lost(conn, err)
			return
		}
		d := &jute.Decoder{Rest: packet}
		xid, zxid, code := d.Int32(), d.Int64(), d.Int32()
		if xid != jute.XidEvent {
			r.say(conn, "reply that was not asked for: xid=%d zxid=%s err=%d", xid, r.zxid(zxid), code)
			continue
		}
		r.event(conn, zxid, code, d)
	}
}

// sweep sends what empties containers, and lets time pass, until the node is gone that the step
// names, or as long as a sweep takes on an idle machine. No ping comes in between: the server
// sweeps when it likes to.
//
// A Java server that is behind with its sweeps sweeps twice in a row, and asks for the same node
// twice. The second request fails, and takes a zxid. So zxids are counted again from here.
func (r *run) sweep(s Step) {
	if len(s.Ops) > 0 {
		r.ask(s.Conn, s.Ops)
	}
	from := len(r.group)
	time.Sleep(r.target.Sweep)
	// Not for long: when the sequence is shrunk, the node may be one that stays.
	for end := time.Now().Add(10 * r.target.Sweep); s.Path != "" && time.Now().Before(end) && r.target.keeper.has(r.path(s)); {
		time.Sleep(r.target.Sweep / 2)
	}
	r.floor = r.target.keeper.zxid()
	r.barrier(-1)
	// In what order several nodes go is the server's affair.
	slices.Sort(r.group[from:])
}
