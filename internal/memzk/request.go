package memzk

import (
	"slices"
	"strings"
	"time"
)

// request is one that waits for something: for the leader, for its transaction to be applied, or
// for its turn.
type request struct {
	c       *conn   // nil: the leader's own
	from    *Member // where it came in
	xid, op int32
	session int64
	body    []byte
	path    string // of the leader's own opDeleteContainer
	read    bool
	done    bool
	barrier int // of a sync: answered when so much of the log is applied
	res     result
}

// keep makes the request independent of the buffer that it was read into.
func (r *request) keep() { r.body = append([]byte(nil), r.body...) }

func isWrite(op int32) bool {
	switch op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opDeleteContainer,
		opSetData, opSetACL, opCheck, opMulti, opReconfig, opCloseSession:
		return true
	}
	return false
}

func (m *Member) isRead(op int32) bool {
	switch op {
	case opExists, opGetData, opGetACL, opGetChildren, opGetChildren2, opPing, opSetWatches,
		opSetWatches2, opCheckWatches, opRemoveWatches, opGetEphemerals, opMultiRead, opAddWatch,
		opCountChildren, opWhoAmI, opSync:
		return true
	}
	return false
}

// submit is where a client's request begins.
func (m *Member) submit(c *conn, xid, op int32, body []byte) {
	if !m.touch(c) {
		return // the session is over: no answer, the connection will be closed
	}
	c.lastXid = xid
	switch {
	case op == opCheck && !m.e.behavior.checkAlone, !isWrite(op) && !m.isRead(op):
		c.reply(xid, -1, codeUnimplemented)
		c.end()
	case isWrite(op):
		r := &request{c: c, from: m, xid: xid, op: op, session: c.session, body: body}
		c.enqueue(r)
		m.toLeader(r, (*Member).process)
	case op == opSync && m.role == following:
		r := &request{c: c, from: m, xid: xid, op: op, session: c.session, body: body, barrier: -1}
		r.keep() // its path is in the reply, which may come after later packets
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

// touch records at the leader's timer that the session is in use: at once if this member leads,
// else with the answer to the leader's next ping.
func (m *Member) touch(c *conn) bool {
	if m.role == leading {
		return m.touchSession(c.session, c.timeout)
	}
	m.touched[c.session] = c.timeout
	m.setPingAlarm()
	return true
}

// toLeader makes the leader do something with the request: now, when it can be reached again, or
// never, when this member drops the leader.
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

// process is the leader's: it turns the request into a transaction and commits that.
func (m *Member) process(r *request) {
	if len(m.stalled) > 0 || !m.hasQuorum() {
		r.keep()
		m.stalled = append(m.stalled, r)
		return
	}
	x, code := m.prepare(r)
	if code != codeOK {
		// It could not be read, and makes no transaction.
		kind := opError
		if r.op == opMulti && !m.e.behavior.wholeRequests {
			kind = opMulti // ZooKeeper finds out when it has begun its answer
		}
		r.finish(result{kind: kind, code: code})
		return
	}
	m.commit(x, r)
}

// processSync is the leader's: the member may answer when it has applied all that was committed. It
// needs no majority, unless writes wait for one.
func (m *Member) processSync(r *request) {
	if len(m.stalled) > 0 {
		r.keep()
		m.stalled = append(m.stalled, r)
		return
	}
	r.barrier = m.e.end()
	r.from.finishSyncs()
}

// finishSyncs answers the syncs whose transactions have been applied.
func (m *Member) finishSyncs() {
	for len(m.syncs) > 0 && m.syncs[0].barrier >= 0 && m.syncs[0].barrier <= m.applied {
		r := m.syncs[0]
		m.syncs = m.syncs[1:]
		r.finish(result{kind: opSync})
	}
}

// finish is called at the member where the request came in, when it has applied the transaction.
func (r *request) finish(res result) {
	r.res, r.done = res, true
	if r.c == nil || r.c.closed {
		return
	}
	if r.op == opCreateSession {
		r.c.establish(true)
		return
	}
	r.c.drain()
}

// prepare validates a request against the leader's state, which is that after all transactions. A
// request that fails is a transaction, too. The code is for a request that cannot be read.
func (m *Member) prepare(r *request) (*txn, int32) {
	x := &txn{kind: opError, session: r.session}
	switch r.op {
	case opCreateSession:
		m.trackSession(r.session, r.c.timeout, r.from)
		return &txn{kind: opCreateSession, session: r.session, timeout: int32(r.c.timeout / time.Millisecond)}, codeOK
	case opCloseSession:
		return m.closeTxn(r.session), codeOK
	case opReconfig:
		d := decoder{b: r.body}
		d.bytes() // members that join
		d.bytes() // that leave
		d.bytes() // that are there
		d.int64() // the version to change
		if d.bad {
			return nil, codeMarshalling
		}
		x.code = codeReconfigDisabled
		return x, codeOK
	}
	draft := draft{t: m.tree, ttl: m.e.cfg.TTLNodes, ipv6: m.e.behavior.ipv6}
	who := requester{session: r.session}
	if r.c != nil {
		who.auth = r.c.auth
	}
	if r.op == opMulti {
		return m.prepareMulti(r, draft, who)
	}
	if r.op == opDeleteContainer {
		path := r.path
		switch d := (decoder{b: r.body}); {
		case r.c == nil:
		case !m.e.behavior.wholeRequests:
			path = "" // ZooKeeper takes the whole packet for the path, which so is never valid
		default:
			if path = d.string(); d.failed() {
				return m.garbled(r, x, &d)
			}
		}
		y, code := draft.deleteContainer(path)
		return m.finishTxn(x, y, code), codeOK
	}
	d := decoder{b: r.body}
	o := readOp(&d, r.op)
	if d.failed() {
		if isCreate(r.op) && !d.bad {
			// The flags are looked at before the path is missed.
			if code := draft.flags(o.flags, o.ttl); code != codeOK {
				x.code = code
				return x, codeOK
			}
		}
		return m.garbled(r, x, &d)
	}
	code := m.tracker.check(r.session, r.from)
	var y txn
	if code == codeOK {
		y, code = draft.op(who, o)
	}
	return m.finishTxn(x, y, code), codeOK
}

func isCreate(op int32) bool {
	return op == opCreate || op == opCreate2 || op == opCreateContainer || op == opCreateTTL
}

// garbled is the end of a write that cannot be understood.
func (m *Member) garbled(r *request, x *txn, d *decoder) (*txn, int32) {
	if m.e.behavior.wholeRequests && (d.bad || r.op == opDeleteContainer) {
		return nil, codeMarshalling
	}
	x.code = codeMarshalling
	if !d.bad && (r.op == opSetData || r.op == opSetACL || r.op == opCheck) {
		x.code = codeBadArguments // these look at the path first
	}
	return x, codeOK
}

func (m *Member) finishTxn(x *txn, y txn, code int32) *txn {
	if code != codeOK {
		x.code = code
		return x
	}
	session := x.session
	*x = y
	x.session = session
	return x
}

// op is a write as a client sends it, alone or in a multi.
type op struct {
	kind    int32
	path    string
	data    []byte
	acl     []acl
	noPath  bool // the path is null
	noACL   bool // the ACL is null, not just empty
	flags   int32
	ttl     int64
	version int32
	misfit  bool // in a multi: of a kind that its record is not made for
}

func readOp(d *decoder, kind int32) op {
	o := op{kind: kind, ttl: -1}
	switch kind {
	case opCreate, opCreate2, opCreateContainer:
		o.path, o.data = d.string(), d.data()
		o.noACL = d.isNull()
		o.acl, o.flags = d.acl(), d.int32()
	case opCreateTTL:
		o.path, o.data, o.acl, o.flags, o.ttl = d.string(), d.data(), d.acl(), d.int32(), d.int64()
	case opDelete, opCheck:
		o.path, o.version = d.string(), d.int32()
	case opSetData:
		o.path, o.data, o.version = d.string(), d.data(), d.int32()
	case opSetACL:
		o.path, o.acl, o.version = d.string(), d.acl(), d.int32()
	default:
		d.bad = true
	}
	return o
}

func (d *draft) op(who requester, o op) (txn, int32) {
	switch o.kind {
	case opDelete:
		return d.delete(who, o.path, o.version)
	case opSetData:
		return d.setData(who, o.path, o.data, o.version)
	case opSetACL:
		return d.setACL(who, o.path, o.acl, o.version)
	case opCheck:
		return d.check(who, o.path, o.version)
	}
	return d.create(who, o.kind, o.path, o.data, o.acl, o.flags, o.ttl)
}

// prepareMulti validates each operation with the effects of those before it. If one fails, none
// takes place, and the transaction says which.
func (m *Member) prepareMulti(r *request, draft draft, who requester) (*txn, int32) {
	whole := &txn{kind: opError, session: r.session, code: codeMarshalling}
	ops, ok := m.readMulti(r.body)
	if !ok {
		if len(ops) > 0 && ops[len(ops)-1].noACL {
			// ZooKeeper stumbles over it before it takes a zxid.
			return nil, codeMarshalling
		}
		return whole, codeOK
	}
	if slices.ContainsFunc(ops, func(o op) bool { return o.noPath }) {
		if m.e.behavior.wholeRequests {
			return whole, codeOK
		}
		m.zxid++ // taken and not used
		return nil, codeMarshalling
	}
	draft.changed = make(map[string]*record, 2*len(ops))
	x := &txn{kind: opMulti, session: r.session, subs: make([]txn, len(ops))}
	for i, o := range ops {
		if o.misfit {
			return whole, codeOK
		}
		code := m.tracker.check(r.session, r.from)
		if code == codeOK {
			x.subs[i], code = draft.op(who, o)
		}
		if code == codeOK {
			continue
		}
		for j := range x.subs {
			x.subs[j] = txn{kind: opError}
			switch {
			case j == i:
				x.subs[j].code = code
			case j > i:
				x.subs[j].code = codeInconsistency
			}
		}
		break
	}
	return x, codeOK
}

// readMulti returns the operations up to the one that cannot be read, if there is one: that with it
// when its ACL is at fault.
func (m *Member) readMulti(body []byte) (ops []op, ok bool) {
	d := decoder{b: body}
	for {
		kind, done := d.int32(), d.bool()
		d.int32() // a result code, which requests have no use for
		if d.bad {
			return nil, false
		}
		if done {
			return ops, true
		}
		switch kind {
		case opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opSetData, opCheck:
		default:
			return nil, false
		}
		o := readOp(&d, kind)
		if d.bad {
			return nil, false
		}
		o.noPath, d.null = d.null, false
		switch o, ok = m.inMulti(o); {
		case ok:
			ops = append(ops, o)
		case o.noACL:
			return append(ops, o), false
		default:
			return nil, false
		}
	}
}

// inMulti: in a multi, the flags of a create decide what kind of request it is.
func (m *Member) inMulti(o op) (op, bool) {
	timed := o.flags == flagTTL || o.flags == flagTTLSequential
	known := o.flags >= flagPersistent && o.flags <= flagTTLSequential
	strict := m.e.behavior.create2InMulti
	switch o.kind {
	case opCreate, opCreate2, opCreateContainer:
		o.noACL = o.noACL && strict && known
		switch {
		case strict && (!known || timed || o.noACL):
			return o, false
		case timed:
			o.misfit = true
		case !strict:
			o.kind = opCreate
		}
	case opCreateTTL:
		if timed {
			return o, true
		}
		o.kind, o.ttl = opCreate, -1
	default:
		return o, true
	}
	if o.flags == flagContainer {
		o.kind = opCreateContainer
	}
	return o, true
}

// answerWrite sends the reply of a write or a sync.
func (c *conn) answerWrite(r *request) {
	zxid := c.m.tree.zxid
	res := &r.res
	c.lastZxid = zxid
	if res.code == codeSessionMoved || movedInMulti(res) {
		// A client that has moved must not get the reply here: the connection just ends.
		c.end()
		return
	}
	if res.code != codeOK && res.kind != opMulti {
		c.reply(r.xid, zxid, res.code)
		return
	}
	if r.op == opCheck {
		return // ZooKeeper fails to encode this reply, and sends none
	}
	var start int
	c.out, start = startReply(c.out, r.xid, zxid, res.code)
	switch r.op {
	case opCreate:
		c.out = appendString(c.out, res.path)
	case opCreate2, opCreateContainer, opCreateTTL:
		c.out = appendString(c.out, res.path)
		c.out = appendStat(c.out, res.stat)
	case opSetData, opSetACL:
		c.out = appendStat(c.out, res.stat)
	case opMulti:
		for i := range res.subs {
			c.out = appendSubResult(c.out, &res.subs[i])
		}
		c.out = appendMultiHeader(c.out, -1, true, -1)
	case opSync:
		d := decoder{b: r.body}
		c.out = appendText(c.out, d.bytes())
	}
	c.out = endReply(c.out, start)
	c.wrote()
	if r.op == opCloseSession {
		c.end()
	}
}

func movedInMulti(res *result) bool {
	for i := range res.subs {
		if res.subs[i].code == codeSessionMoved {
			return true
		}
	}
	return false
}

func appendMultiHeader(b []byte, kind int32, done bool, code int32) []byte {
	b = appendInt32(b, kind)
	b = appendBool(b, done)
	return appendInt32(b, code)
}

func appendSubResult(b []byte, r *result) []byte {
	kind := r.kind
	if kind == opCreateContainer || kind == opCreateTTL {
		kind = opCreate2 // which has the same result
	}
	b = appendMultiHeader(b, kind, false, r.code)
	switch r.kind {
	case opError:
		b = appendInt32(b, r.code)
	case opCreate:
		b = appendString(b, r.path)
	case opCreate2, opCreateContainer, opCreateTTL:
		b = appendString(b, r.path)
		b = appendStat(b, r.stat)
	case opSetData:
		b = appendStat(b, r.stat)
	}
	return b
}

// answerRead reads the member's own state.
func (m *Member) answerRead(c *conn, xid, op int32, body []byte) {
	zxid := m.tree.zxid
	c.lastZxid = zxid
	// Only the leader knows where a session is: at another member reads go on until the connection
	// ends.
	if m.role == leading {
		switch code := m.tracker.check(c.session, m); code {
		case codeOK:
		case codeSessionMoved:
			c.end()
			return
		default:
			c.reply(xid, zxid, code)
			return
		}
	}
	if op == opPing {
		c.reply(xidPing, zxid, codeOK)
		return
	}
	// Events that the request causes come before its reply, so the reply is made aside.
	reply, start := startReply(m.e.scratch[:0], xid, zxid, codeOK)
	d := decoder{b: body}
	reply, code := m.readReply(reply, c, op, &d)
	m.e.scratch = reply
	if d.failed() {
		code = codeMarshalling
	}
	if code != codeOK && op == opMultiRead && len(reply) > start+headerSize {
		setCode(reply[start:], code)
	} else if code != codeOK {
		c.reply(xid, zxid, code)
		return
	}
	if c.mute() {
		return
	}
	c.out = append(c.out, endReply(reply, start)...)
	c.wrote()
}

// readReply appends the body of the reply, if the code is OK and the request could be read.
func (m *Member) readReply(b []byte, c *conn, op int32, d *decoder) ([]byte, int32) {
	switch op {
	case opExists:
		path, watch := d.string(), d.bool()
		if d.failed() {
			return b, codeMarshalling
		}
		if strings.IndexByte(path, 0) != -1 {
			return b, codeBadArguments
		}
		n := m.tree.nodes[path]
		if n != nil && m.e.behavior.readForExists && !allows(n.acl, permRead, c.auth) {
			return b, codeNoAuth
		}
		if watch {
			m.watches.watchData(path, c, standard)
		}
		if n == nil {
			return b, codeNoNode
		}
		return appendStat(b, n.stat()), codeOK
	case opGetData:
		path, watch := d.string(), d.bool()
		n, code := m.readable(path, c, d)
		if code != codeOK {
			return b, code
		}
		if watch {
			m.watches.watchData(path, c, standard)
		}
		return appendStat(appendBytes(b, n.data), n.stat()), codeOK
	case opGetChildren, opGetChildren2:
		path, watch := d.string(), d.bool()
		n, code := m.readable(path, c, d)
		if code != codeOK {
			return b, code
		}
		if watch {
			m.watches.watchChild(path, c, standard)
		}
		b = appendChildren(b, n)
		if op == opGetChildren2 {
			b = appendStat(b, n.stat())
		}
		return b, codeOK
	case opCountChildren:
		path := d.string()
		if _, code := m.readable(path, c, d); code != codeOK {
			return b, code
		}
		return appendInt32(b, m.tree.countBelow(path)), codeOK
	case opGetACL:
		path := d.string()
		n := m.tree.nodes[path]
		switch {
		case d.failed():
			return b, codeMarshalling
		case n == nil:
			return b, codeNoNode
		case !allows(n.acl, permRead|permAdmin, c.auth):
			return b, codeNoAuth
		}
		list := n.acl
		if !allows(n.acl, permAdmin, c.auth) {
			list = hideDigests(list)
		}
		return appendStat(appendACL(b, list), n.stat()), codeOK
	case opSync:
		return appendText(b, d.bytes()), codeOK
	case opSetWatches, opSetWatches2:
		return b, m.setWatches(c, op, d)
	case opAddWatch:
		return m.addWatch(b, c, d)
	case opCheckWatches, opRemoveWatches:
		path, kind := d.string(), d.int32()
		if d.failed() {
			return b, codeMarshalling
		}
		look := m.watches.contains
		if op == opRemoveWatches {
			look = m.watches.removed
		}
		found, known := look(path, kind, c)
		switch {
		case !known:
			return b, codeMarshalling
		case !found:
			return b, codeNoWatcher
		}
		return b, codeOK
	case opGetEphemerals:
		prefix := d.bytes()
		return m.appendEphemerals(b, c.session, string(prefix)), codeOK
	case opMultiRead:
		return m.multiRead(b, c, d)
	case opWhoAmI:
		return appendIdentities(b, c.auth), codeOK
	}
	return b, codeUnimplemented
}

func (m *Member) readable(path string, c *conn, d *decoder) (*node, int32) {
	if d.failed() {
		return nil, codeMarshalling
	}
	n := m.tree.nodes[path]
	if n == nil {
		return nil, codeNoNode
	}
	if !allows(n.acl, permRead, c.auth) {
		return nil, codeNoAuth
	}
	return n, codeOK
}

func appendChildren(b []byte, n *node) []byte {
	b = appendInt32(b, int32(len(n.children)))
	for _, child := range n.listing() {
		b = appendString(b, child.name())
	}
	return b
}

func (t *tree) countBelow(path string) int32 {
	if path == "/" {
		return int32(len(t.nodes) - 2)
	}
	count := int32(0)
	for p := range t.nodes {
		if strings.HasPrefix(p, path+"/") {
			count++
		}
	}
	return count
}

func (m *Member) appendEphemerals(b []byte, session int64, prefix string) []byte {
	if trimmed := strings.TrimSpace(prefix); trimmed == "" || trimmed == "/" {
		prefix = ""
	}
	var paths []string
	for _, path := range m.tree.ephemeralPaths(session) {
		if strings.HasPrefix(path, prefix) {
			paths = append(paths, path)
		}
	}
	b = appendInt32(b, int32(len(paths)))
	for _, path := range paths {
		b = appendString(b, path)
	}
	return b
}

func appendIdentities(b []byte, auth []ident) []byte {
	b = appendInt32(b, int32(len(auth)))
	for _, a := range auth {
		user := a.id
		if a.scheme == "digest" {
			user, _, _ = strings.Cut(user, ":")
		}
		b = appendString(appendString(b, a.scheme), user)
	}
	return b
}

// setWatches is what a client sends after it has connected again: the watches it had, and the last
// zxid it has seen. The events since then are sent at once.
func (m *Member) setWatches(c *conn, op int32, d *decoder) int32 {
	seen := d.int64()
	data, exist, child := d.strings(), d.strings(), d.strings()
	var persist, recur []string
	if op == opSetWatches2 {
		persist, recur = d.strings(), d.strings()
	}
	if d.failed() {
		return codeMarshalling
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
		m.watches.watchChild(path, c, persistent)
		m.watches.watchData(path, c, persistent)
	}
	for _, path := range recur {
		m.watches.watchData(path, c, recursive)
		if m.watches.child.single {
			m.watches.watchChild(path, c, recursive)
		}
	}
	return codeOK
}

func (m *Member) addWatch(b []byte, c *conn, d *decoder) ([]byte, int32) {
	path, kind := d.string(), d.int32()
	if d.failed() {
		return b, codeMarshalling
	}
	switch kind {
	case 0:
		m.watches.watchData(path, c, persistent)
		m.watches.watchChild(path, c, persistent)
	case 1:
		m.watches.watchData(path, c, recursive)
		if m.watches.child.single {
			m.watches.watchChild(path, c, recursive)
		}
	default:
		return b, codeMarshalling
	}
	return appendInt32(b, codeOK), codeOK
}

// multiRead answers each of several reads with a result or an error of its own. Like ZooKeeper it
// sends what it has when it comes upon something else than a read.
func (m *Member) multiRead(b []byte, c *conn, d *decoder) ([]byte, int32) {
	ops, ok := readMultiRead(d)
	if !ok {
		return b, codeMarshalling
	}
	code := codeOK
	for _, o := range ops {
		if o.kind != opGetData && o.kind != opGetChildren || o.noPath {
			code = codeMarshalling
			break
		}
		n, code := m.readable(o.path, c, d)
		switch {
		case code != codeOK:
			b = appendSubResult(b, &result{kind: opError, code: code})
		case o.kind == opGetData:
			b = appendMultiHeader(b, o.kind, false, codeOK)
			b = appendStat(appendBytes(b, n.data), n.stat())
		default:
			b = appendMultiHeader(b, o.kind, false, codeOK)
			b = appendChildren(b, n)
		}
	}
	return appendMultiHeader(b, -1, true, -1), code
}

func readMultiRead(d *decoder) (ops []op, ok bool) {
	reads, writes := false, false
	for {
		kind, done := d.int32(), d.bool()
		d.int32()
		if d.failed() {
			return nil, false
		}
		if done {
			return ops, true
		}
		switch kind {
		case opGetData, opGetChildren:
			// ZooKeeper does not set the watch that this may ask for.
			o := op{kind: kind, path: d.string()}
			o.noPath, d.null = d.null, false
			ops = append(ops, o)
			d.bool()
			reads = true
		case opCreate, opCreate2, opCreateContainer, opCreateTTL, opDelete, opSetData, opCheck:
			ops = append(ops, readOp(d, kind))
			writes = true
		default:
			return nil, false
		}
		if reads && writes {
			return nil, false
		}
	}
}
