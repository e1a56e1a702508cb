package memzk

import (
	"slices"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// request is a client's request that waits for the leader, for its transaction to be applied, or
// for the replies before it.
type request struct {
	c       *conn   // nil: the leader's own request
	from    *Member // the member of the client
	xid, op int32
	session int64
	body    []byte
	path    string // for the leader's own jute.OpDeleteContainer
	read    bool
	done    bool
	barrier int // for a sync: answered when the log is applied up to this index
	res     result
}

// keep makes the request independent of the buffer that it was read into.
func (r *request) keep() { r.body = append([]byte(nil), r.body...) }

func isWrite(op int32) bool {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete,
		jute.OpSetData, jute.OpSetACL, jute.OpCheck, jute.OpMulti, jute.OpReconfig, jute.OpCloseSession:
		return true
	}
	return false
}

func isRead(op int32) bool {
	switch op {
	case jute.OpExists, jute.OpGetData, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2, jute.OpPing, jute.OpSetWatches,
		jute.OpSetWatches2, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpAddWatch, jute.OpSync:
		return true
	}
	return false
}

// submit handles a client's request.
func (m *Member) submit(c *conn, xid, op int32, body []byte) {
	if !m.touch(c) {
		return // the session has ended: no answer, and the connection will be closed
	}
	switch {
	case op == jute.OpCheck && !m.e.behavior.checkAlone, !isWrite(op) && !isRead(op):
		c.reply(xid, -1, jute.CodeUnimplemented)
		c.end()
	case isWrite(op):
		r := &request{c: c, from: m, xid: xid, op: op, session: c.session, body: body}
		c.enqueue(r)
		if m.held != nil {
			r.keep()
			m.held = append(m.held, r)
			return
		}
		m.toLeader(r, (*Member).process)
	case op == jute.OpSync && m.role == following:
		r := &request{c: c, from: m, xid: xid, op: op, session: c.session, body: body, barrier: -1}
		r.keep() // the reply has the path, and later packets overwrite the buffer
		c.enqueue(r)
		m.syncs = append(m.syncs, r)
		m.toLeader(r, (*Member).processSync)
	case c.pending():
		r := &request{c: c, from: m, xid: xid, op: op, body: body, read: true}
		r.keep()
		c.enqueue(r)
	default:
		m.answerRead(c, xid, op, body)
	}
}

// Stall makes the member keep the writes of its clients, but not their handshakes, until flow is
// called: the thread that forwards them gets no processor.
func (m *Member) Stall() (flow func()) {
	m.e.lock()
	defer m.e.unlock()
	m.held = []*request{}
	return func() {
		m.e.lock()
		defer m.e.unlock()
		held := m.held
		m.held = nil
		for _, r := range held {
			m.toLeader(r, (*Member).process)
		}
	}
}

// touch reports to the leader that the session is in use: at once if this member leads, otherwise
// with the answer to the leader's next ping.
func (m *Member) touch(c *conn) bool {
	if m.role == leading {
		return m.touchSession(c.session, c.timeout)
	}
	m.touched[c.session] = c.timeout
	m.setPingAlarm()
	return true
}

// toLeader makes the leader handle the request: now, or when it is reachable again. If this member
// drops the leader first, the request is dropped.
func (m *Member) toLeader(r *request, do func(leader *Member, r *request)) {
	switch {
	case m.role == leading:
		do(m, r)
	case m.linked():
		do(m.leader, r)
	default:
		r.keep()
		m.outbox = append(m.outbox, func(leader *Member) { do(leader, r) })
	}
}

// process runs on the leader: it turns the request into a transaction and commits it.
func (m *Member) process(r *request) {
	if len(m.stalled) > 0 || !m.hasQuorum() {
		r.keep()
		m.stalled = append(m.stalled, r)
		return
	}
	x, code := m.prepare(r)
	if code != jute.CodeOK {
		// The request could not be decoded, so it is not a transaction.
		r.finish(result{kind: jute.OpError, code: code})
		return
	}
	m.commit(x, r)
}

// processSync runs on the leader: the member may answer when it has applied everything that was
// committed. A sync needs no majority, unless writes wait for one.
func (m *Member) processSync(r *request) {
	if len(m.stalled) > 0 {
		r.keep()
		m.stalled = append(m.stalled, r)
		return
	}
	r.barrier = m.e.end()
	r.from.finishSyncs()
}

// finishSyncs answers each sync for which this member has applied all transactions that the leader
// had logged when it processed the sync.
func (m *Member) finishSyncs() {
	for len(m.syncs) > 0 && m.syncs[0].barrier >= 0 && m.syncs[0].barrier <= m.applied {
		r := m.syncs[0]
		m.syncs = m.syncs[1:]
		r.finish(result{kind: jute.OpSync})
	}
}

// finish is called on the client's member when it has applied the transaction.
func (r *request) finish(res result) {
	r.res, r.done = res, true
	if r.c == nil || r.c.closed {
		return
	}
	if r.op == jute.OpCreateSession {
		r.c.establish(true)
		return
	}
	r.c.drain()
}

// prepare validates a request against the leader's state, which is the state after all
// transactions. A request that fails is a transaction, too. If the request cannot be decoded,
// prepare returns a code instead of a transaction.
func (m *Member) prepare(r *request) (*txn, int32) {
	x := &txn{kind: jute.OpError, session: r.session}
	switch r.op {
	case jute.OpCreateSession:
		m.trackSession(r.session, r.c.timeout, r.from)
		return &txn{kind: jute.OpCreateSession, session: r.session, timeout: int32(r.c.timeout / time.Millisecond)}, jute.CodeOK
	case jute.OpCloseSession:
		return m.closeTxn(r.session), jute.CodeOK
	}
	draft := draft{t: m.tree, ipv6: m.e.behavior.ipv6, sasl: m.e.cfg.SASL != nil}
	who := requester{session: r.session}
	if r.c != nil {
		who.auth = r.c.auth
	}
	if r.op == jute.OpMulti {
		return m.prepareMulti(r, draft, who), jute.CodeOK
	}
	if r.op == jute.OpDeleteContainer {
		y, code := draft.deleteContainer(r.path)
		return finishTxn(x, y, code), jute.CodeOK
	}
	d := jute.Decoder{Rest: r.body}
	o := readOp(&d, r.op)
	if d.Bad {
		return nil, jute.CodeMarshalling
	}
	code := m.tracker.check(r.session, r.from)
	var y txn
	if code == jute.CodeOK {
		y, code = draft.op(who, o)
	}
	return finishTxn(x, y, code), jute.CodeOK
}

func isCreate(op int32) bool {
	return op == jute.OpCreate || op == jute.OpCreate2 || op == jute.OpCreateContainer || op == jute.OpCreateTTL
}

func finishTxn(x *txn, y txn, code int32) *txn {
	if code != jute.CodeOK {
		x.code = code
		return x
	}
	session := x.session
	*x = y
	x.session = session
	return x
}

// op is a write, alone or in a multi.
type op struct {
	kind    int32
	path    string
	data    []byte
	acl     []acl
	flags   int32
	version int32
}

func readOp(d *jute.Decoder, kind int32) op {
	o := op{kind: kind}
	switch kind {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		o.path, o.data, o.acl, o.flags = d.Text(), slices.Clone(d.Bytes()), decodeACL(d), d.Int32()
	case jute.OpCreateTTL: // refused, see flagsOf
		o.path, o.data, o.acl, o.flags = d.Text(), d.Bytes(), decodeACL(d), d.Int32()
		d.Int64()
	case jute.OpDelete, jute.OpCheck:
		o.path, o.version = d.Text(), d.Int32()
	case jute.OpSetData:
		o.path, o.data, o.version = d.Text(), slices.Clone(d.Bytes()), d.Int32()
	case jute.OpSetACL:
		o.path, o.acl, o.version = d.Text(), decodeACL(d), d.Int32()
	case jute.OpReconfig: // refused, so its members do not matter
		_, _, _, _ = d.Text(), d.Text(), d.Text(), d.Int64()
	default:
		d.Bad = true
	}
	return o
}

func (d *draft) op(who requester, o op) (txn, int32) {
	switch o.kind {
	case jute.OpDelete:
		return d.delete(who, o.path, o.version)
	case jute.OpSetData:
		return d.setData(who, o.path, o.data, o.version)
	case jute.OpSetACL:
		return d.setACL(who, o.path, o.acl, o.version)
	case jute.OpCheck:
		return d.check(who, o.path, o.version)
	case jute.OpReconfig:
		return txn{}, jute.CodeNoReconfig
	}
	return d.create(who, o.kind, o.path, o.data, o.acl, o.flags)
}

// prepareMulti validates each operation with the effects of the operations before it. If an
// operation fails, the transaction has only its error.
func (m *Member) prepareMulti(r *request, draft draft, who requester) *txn {
	ops, ok := m.readMulti(r.body)
	if !ok {
		return &txn{kind: jute.OpError, session: r.session, code: jute.CodeMarshalling}
	}
	draft.changed = make(map[string]*record, 2*len(ops))
	x := &txn{kind: jute.OpMulti, session: r.session, subs: make([]txn, len(ops))}
	for i, o := range ops {
		code := m.tracker.check(r.session, r.from)
		if code == jute.CodeOK {
			x.subs[i], code = draft.op(who, o)
		}
		if code == jute.CodeOK {
			continue
		}
		for j := range x.subs {
			x.subs[j] = txn{kind: jute.OpError}
			switch {
			case j == i:
				x.subs[j].code = code
			case j > i:
				x.subs[j].code = jute.CodeInconsistency
			}
		}
		break
	}
	return x
}

func (m *Member) readMulti(body []byte) (ops []op, ok bool) {
	d := jute.Decoder{Rest: body}
	for {
		kind, done := d.Int32(), d.Bool()
		d.Int32() // a result code, without a meaning in requests
		if done || d.Bad {
			return ops, !d.Bad
		}
		o := op{kind: kind}
		switch {
		case isCreate(kind):
			o, ok = m.createInMulti(readOp(&d, kind))
		case kind == jute.OpDelete, kind == jute.OpSetData, kind == jute.OpCheck:
			o, ok = readOp(&d, kind), true
		default:
			ok = false
		}
		if !ok || d.Bad {
			return nil, false
		}
		ops = append(ops, o)
	}
}

// createInMulti returns a create as it is in a multi: there its flags decide its kind. It returns
// false for flags that do not fit the request.
func (m *Member) createInMulti(o op) (op, bool) {
	timed := o.flags == jute.FlagTTL || o.flags == jute.FlagTTLSequential
	switch {
	case o.flags < jute.FlagPersistent || o.flags > jute.FlagTTLSequential || timed != (o.kind == jute.OpCreateTTL):
		return o, false
	case o.flags == jute.FlagContainer:
		o.kind = jute.OpCreateContainer
	case !timed && !m.e.behavior.create2InMulti:
		o.kind = jute.OpCreate
	}
	return o, true
}

// answerWrite sends the reply of a write or a sync.
func (c *conn) answerWrite(r *request) {
	zxid := c.m.tree.zxid
	res := &r.res
	if res.code == jute.CodeSessionMoved || movedInMulti(res) {
		// A client that has moved must not receive the reply here: the connection just ends.
		c.end()
		return
	}
	if res.code != jute.CodeOK && res.kind != jute.OpMulti {
		c.reply(r.xid, zxid, res.code)
		return
	}
	if r.op == jute.OpCheck {
		return // ZooKeeper fails to encode this reply and sends none
	}
	var start int
	c.out, start = startReply(c.out, r.xid, zxid, res.code)
	switch r.op {
	case jute.OpCreate:
		c.out = jute.AppendText(c.out, res.path)
	case jute.OpCreate2, jute.OpCreateContainer:
		c.out = jute.AppendText(c.out, res.path)
		c.out = appendStat(c.out, res.stat)
	case jute.OpSetData, jute.OpSetACL:
		c.out = appendStat(c.out, res.stat)
	case jute.OpMulti:
		for i := range res.subs {
			c.out = appendSubResult(c.out, &res.subs[i])
		}
		c.out = appendMultiHeader(c.out, -1, true, -1)
	case jute.OpSync:
		d := jute.Decoder{Rest: r.body}
		c.out = jute.AppendBytes(c.out, d.Bytes())
	}
	c.out = endReply(c.out, start)
	c.wrote()
	if r.op == jute.OpCloseSession {
		c.end()
	}
}

func movedInMulti(res *result) bool {
	for i := range res.subs {
		if res.subs[i].code == jute.CodeSessionMoved {
			return true
		}
	}
	return false
}

func appendMultiHeader(b []byte, kind int32, done bool, code int32) []byte {
	b = jute.AppendInt32(b, kind)
	b = jute.AppendBool(b, done)
	return jute.AppendInt32(b, code)
}

func appendSubResult(b []byte, r *result) []byte {
	kind := r.kind
	if kind == jute.OpCreateContainer {
		kind = jute.OpCreate2 // the results are alike
	}
	b = appendMultiHeader(b, kind, false, r.code)
	switch r.kind {
	case jute.OpError:
		b = jute.AppendInt32(b, r.code)
	case jute.OpCreate:
		b = jute.AppendText(b, r.path)
	case jute.OpCreate2, jute.OpCreateContainer:
		b = jute.AppendText(b, r.path)
		b = appendStat(b, r.stat)
	case jute.OpSetData:
		b = appendStat(b, r.stat)
	}
	return b
}

// answerRead answers a read from the member's own state.
func (m *Member) answerRead(c *conn, xid, op int32, body []byte) {
	zxid := m.tree.zxid
	// Only the leader knows where a session is: other members answer reads until the connection
	// ends.
	if m.role == leading {
		switch code := m.tracker.check(c.session, m); code {
		case jute.CodeOK:
		case jute.CodeSessionMoved:
			c.end()
			return
		default:
			c.reply(xid, zxid, code)
			return
		}
	}
	if op == jute.OpPing {
		c.reply(jute.XidPing, zxid, jute.CodeOK)
		return
	}
	// The request may append events to c.out, and these must precede its reply. So the reply is
	// built in another buffer, and appended to c.out afterwards.
	reply, start := startReply(m.e.scratch[:0], xid, zxid, jute.CodeOK)
	d := jute.Decoder{Rest: body}
	reply, code := m.readReply(reply, c, op, &d)
	m.e.scratch = reply
	if d.Bad {
		code = jute.CodeMarshalling
	}
	if code != jute.CodeOK {
		c.reply(xid, zxid, code)
		return
	}
	if c.mute() {
		return
	}
	c.out = append(c.out, endReply(reply, start)...)
	c.wrote()
}

// readReply appends the body of the reply, or returns a code.
func (m *Member) readReply(b []byte, c *conn, op int32, d *jute.Decoder) ([]byte, int32) {
	switch op {
	case jute.OpExists:
		path, watch := d.Text(), d.Bool()
		if d.Bad {
			return b, jute.CodeMarshalling
		}
		if strings.IndexByte(path, 0) != -1 {
			return b, jute.CodeBadArguments
		}
		n := m.tree.nodes[path]
		if n != nil && m.e.behavior.readForExists && !allows(n.acl, permRead, c.auth) {
			return b, jute.CodeNoAuth
		}
		if watch {
			m.watches.watchData(path, c, standard)
		}
		if n == nil {
			return b, jute.CodeNoNode
		}
		return appendStat(b, n.stat()), jute.CodeOK
	case jute.OpGetData:
		path, watch := d.Text(), d.Bool()
		n, code := m.readable(path, c, d)
		if code != jute.CodeOK {
			return b, code
		}
		if watch {
			m.watches.watchData(path, c, standard)
		}
		return appendStat(jute.AppendBytes(b, n.data), n.stat()), jute.CodeOK
	case jute.OpGetChildren, jute.OpGetChildren2:
		path, watch := d.Text(), d.Bool()
		n, code := m.readable(path, c, d)
		if code != jute.CodeOK {
			return b, code
		}
		if watch {
			m.watches.watchChild(path, c, standard)
		}
		b = appendChildren(b, n)
		if op == jute.OpGetChildren2 {
			b = appendStat(b, n.stat())
		}
		return b, jute.CodeOK
	case jute.OpGetACL:
		path := d.Text()
		n := m.tree.nodes[path]
		switch {
		case d.Bad:
			return b, jute.CodeMarshalling
		case n == nil:
			return b, jute.CodeNoNode
		case !allows(n.acl, permRead|permAdmin, c.auth):
			return b, jute.CodeNoAuth
		}
		list := n.acl
		if !allows(n.acl, permAdmin, c.auth) {
			list = hideDigests(list)
		}
		return appendStat(appendACL(b, list), n.stat()), jute.CodeOK
	case jute.OpSync:
		return jute.AppendBytes(b, d.Bytes()), jute.CodeOK
	case jute.OpSetWatches, jute.OpSetWatches2:
		return b, m.setWatches(c, op, d)
	case jute.OpAddWatch:
		return m.addWatch(b, c, d)
	case jute.OpCheckWatches, jute.OpRemoveWatches:
		path, kind := d.Text(), d.Int32()
		if d.Bad {
			return b, jute.CodeMarshalling
		}
		return b, m.watches.checked(path, kind, c, op == jute.OpRemoveWatches)
	}
	return b, jute.CodeUnimplemented
}

func (m *Member) readable(path string, c *conn, d *jute.Decoder) (*node, int32) {
	if d.Bad {
		return nil, jute.CodeMarshalling
	}
	n := m.tree.nodes[path]
	if n == nil {
		return nil, jute.CodeNoNode
	}
	if !allows(n.acl, permRead, c.auth) {
		return nil, jute.CodeNoAuth
	}
	return n, jute.CodeOK
}

func appendChildren(b []byte, n *node) []byte {
	b = jute.AppendInt32(b, int32(len(n.children)))
	for _, child := range n.listing() {
		b = jute.AppendText(b, child.name())
	}
	return b
}

// setWatches handles the request that a client sends after a reconnect, with its watches and the
// last zxid that it has seen. It sends the events since then at once.
func (m *Member) setWatches(c *conn, op int32, d *jute.Decoder) int32 {
	seen := d.Int64()
	data, exist, child := d.Texts(), d.Texts(), d.Texts()
	var persist, recur []string
	if op == jute.OpSetWatches2 {
		persist, recur = d.Texts(), d.Texts()
	}
	if d.Bad {
		return jute.CodeMarshalling
	}
	for _, path := range data {
		switch n := m.tree.nodes[path]; {
		case n == nil:
			c.event(eventDeleted, path, -1)
		case n.mzxid > seen:
			c.event(eventChanged, path, -1)
		default:
			m.watches.watchData(path, c, standard)
		}
	}
	for _, path := range exist {
		if m.tree.nodes[path] != nil {
			c.event(eventCreated, path, -1)
		} else {
			m.watches.watchData(path, c, standard)
		}
	}
	for _, path := range child {
		switch n := m.tree.nodes[path]; {
		case n == nil:
			c.event(eventDeleted, path, -1)
		case n.pzxid > seen:
			c.event(eventChildren, path, -1)
		default:
			m.watches.watchChild(path, c, standard)
		}
	}
	for _, path := range persist {
		m.watches.watchAll(path, c, persistent)
	}
	for _, path := range recur {
		m.watches.watchAll(path, c, recursive)
	}
	return jute.CodeOK
}

func (m *Member) addWatch(b []byte, c *conn, d *jute.Decoder) ([]byte, int32) {
	path, kind := d.Text(), d.Int32()
	if d.Bad {
		return b, jute.CodeMarshalling
	}
	switch kind {
	case 0:
		m.watches.watchAll(path, c, persistent)
	case 1:
		m.watches.watchAll(path, c, recursive)
	default:
		return b, jute.CodeMarshalling
	}
	return jute.AppendInt32(b, jute.CodeOK), jute.CodeOK
}
