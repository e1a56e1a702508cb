package explore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// inLine returns the nodes of a lock, in the order of their sequence numbers.
func (n *nemesis) inLine() []standing {
	line := n.left()
	slices.SortFunc(line, func(a, b standing) int { return int(parsed(a.path).Seq - parsed(b.path).Seq) })
	return line
}

// remove deletes a node by hand.
func (n *nemesis) remove(s standing) bool {
	taken := n.takeAway(0, s.path)
	if n.admin.Client().Delete(s.path, -1) != nil {
		return false
	}
	n.took(s.path)
	if !n.real {
		n.condemn(s.path)
	}
	n.say("delete", "%s deleted by hand", s.path)
	if n.calm {
		time.AfterFunc(n.plan.hearing(), func() { n.unheard(taken) })
	}
	n.taken = append(n.taken, taken...)
	return true
}

// doom deletes the node of a waiter and then the nodes ahead of it, while its process receives
// nothing: the waiter must not hold.
func (n *nemesis) doom() {
	switch n.random.IntN(8) {
	case 0:
		n.doomBy(func(h *host) func() {
			h.net.in().Freeze()
			return func() { h.net.in().Thaw() }
		})
	case 1:
		n.doomBy(n.cutOff)
	default:
		n.doomBy(n.hold)
	}
}

// cutOff cuts the host's connection, and prevents another until heard is called.
func (n *nemesis) cutOff(h *host) (heard func()) {
	h.net.all().Partition()
	h.net.all().Cut()
	return h.net.heal
}

// hold delays a request of the host, or its reply and everything after it.
func (n *nemesis) hold(h *host) (heard func()) {
	action := []proxy.Action{proxy.HoldRequest, proxy.HoldReply, proxy.HoldReply}[n.random.IntN(3)]
	op := []proxy.Op{proxy.ReadOp, proxy.ReadOp, proxy.ReadOp, proxy.ListOp, proxy.CreateOp}[n.random.IntN(5)]
	f := h.net.packets.Nth(op, 1+n.random.IntN(3), action)
	if !n.fires(f) {
		f.Cancel()
		return nil
	}
	return f.Cancel
}

// doomBy is doom, with a function that deafens a host. If the function returns nil, doomBy does
// nothing.
func (n *nemesis) doomBy(deafen func(*host) (heard func())) {
	h := n.host()
	heard := deafen(h)
	if heard == nil {
		return
	}
	defer heard()
	session := h.client().conn.Client().SessionID()
	line := n.inLine()
	i := slices.IndexFunc(line, func(s standing) bool { return s.session == session && s != line[0] })
	if i < 0 {
		time.Sleep(between(n.random, time.Millisecond, 50*time.Millisecond)) // virtual: a holder may release meanwhile
		return
	}
	n.say("doom", "%s: hears nothing, and what it waits by goes: %s", h.name, line[i].path)
	switch n.random.IntN(4) {
	case 0:
		n.expire(session)
	default:
		n.remove(line[i])
	}
	if n.chance(3) {
		time.Sleep(between(n.random, time.Millisecond, 2*n.stay)) // virtual: the holders ahead may release
	} else {
		for _, s := range line {
			if slices.ContainsFunc(line, func(o standing) bool { return sameClaim(o.path, line[i].path) && isAhead(s.path, o.path) }) {
				n.remove(s)
			}
		}
	}
}

// fires waits for a fault, at most for one session timeout.
func (n *nemesis) fires(f *proxy.Fault) bool {
	over := time.NewTimer(n.session)
	defer over.Stop()
	select {
	case <-f.Fired():
		return true
	case <-over.C:
		return false
	}
}

// condemn records that nobody may hold with a node that was just deleted, nor with the nodes that
// were created with it, if the nodes ahead of one of them keep it from holding.
func (w *world) condemn(path string) {
	left := w.left()
	claim := []string{path}
	for _, s := range left {
		if sameClaim(s.path, path) {
			claim = append(claim, s.path)
		}
	}
	if slices.ContainsFunc(claim, func(path string) bool { return isBlocked(path, left, mostPermits) }) {
		for _, path := range claim {
			w.ledger.doom(path)
		}
	}
}

// isBlocked reports whether a node cannot hold while none of the nodes in left is deleted and there
// are no more permits.
func isBlocked(path string, left []standing, permits int) bool {
	kind := parsed(path).Kind
	ahead := 0
	for _, s := range left {
		if isAhead(s.path, path) && blocks(parsed(s.path).Kind, kind) {
			ahead++
		}
	}
	return ahead > 0 && kind != znode.Permit || ahead >= permits
}

// isAhead reports whether a node has a smaller number in the same directory.
func isAhead(path, of string) bool {
	return dirOf(path) == dirOf(of) && parsed(path).Seq < parsed(of).Seq
}

// sameClaim reports whether two nodes were created together, perhaps in different directories.
func sameClaim(a, b string) bool { return idOf(a) == idOf(b) }

// idOf returns the id of nodes that were created together. Kazoo's names have no dashes.
func idOf(path string) string { return strings.ReplaceAll(parsed(path).ID, "-", "") }

// blocks reports whether a node ahead keeps another from holding.
func blocks(ahead, behind znode.Kind) bool {
	if behind == znode.Permit {
		return ahead == znode.Permit
	}
	return isExclusive(ahead) || isExclusive(behind)
}

// doom records that nobody may hold with the node.
func (l *ledger) doom(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doomed[claimOf(path)] = true
}

// halve loses the reply to a claim of several nodes, and deletes one of them at once: nobody may
// hold with the others. The reply names them.
func (n *nemesis) halve() {
	h := n.host()
	f := h.net.packets.Nth(proxy.CreateOp, 1+n.random.IntN(3), proxy.CutAfterCommit)
	defer f.Cancel()
	if !n.fires(f) {
		return
	}
	h.net.all().Partition()
	defer h.net.heal()
	created := func(s standing) bool { return bytes.Contains(f.Reply(), []byte(s.path)) }
	claim := slices.DeleteFunc(n.inLine(), func(s standing) bool { return !created(s) })
	if len(claim) > 1 && n.remove(claim[n.random.IntN(len(claim))]) {
		n.say("halved claim", "%s: of %d nodes one is gone", h.name, len(claim))
		for _, s := range claim {
			n.ledger.doom(s.path)
		}
	}
}

// outrun cuts a connection right after a create, while all members but the leader lag.
func (n *nemesis) outrun() {
	h := n.host()
	leader := n.ensemble.Leader()
	d := between(n.random, 10*time.Millisecond, n.session/2)
	others := slices.DeleteFunc(n.ensemble.Members(), func(m *memzk.Member) bool { return m == leader })
	for _, m := range others {
		m.Lag(d)
	}
	f := h.net.packets.Nth(proxy.CreateOp, 1+n.random.IntN(3), proxy.CutAfterCommit)
	defer f.Cancel()
	if n.fires(f) {
		n.say("outrun", "%s: a create is lost while others lag by %v", h.name, d)
		if n.chance(2) {
			g := h.net.packets.Nth([]proxy.Op{proxy.ListOp, proxy.CheckOp}[n.random.IntN(2)], 1, proxy.CutBefore)
			defer g.Cancel()
		}
		time.Sleep(2 * d) // virtual: the client searches meanwhile
	}
	for _, m := range others {
		m.Lag(0)
	}
}

// wait returns how long a ready goroutine of a busy host waits for a processor, at most.
func (p plan) wait() time.Duration { return 12 * p.session / 100 }

// stall delays what each host sends and reads by up to wait, after the host has taken the time.
func (n *nemesis) stall() {
	n.say("stalled", "the goroutines of all hosts wait")
	for _, h := range n.hosts {
		h.net.out().Delay(between(n.random, 0, n.wait()))
		h.net.in().Delay(between(n.random, 0, n.wait()))
	}
}

func (n *nemesis) member() *memzk.Member {
	all := n.ensemble.Members()
	return all[n.random.IntN(len(all))]
}

// rebalance moves the connection of a host to a server chosen at random.
func (n *nemesis) rebalance() {
	h := n.host()
	n.say("rebalanced", "%s: its connection moves, unless it is there already", h.name)
	h.client().conn.Rebalance()
}

// remake is what another program may do to a directory: it fills and empties it, or deletes it and
// makes it again, with and without data, and sometimes with as many writes as the former had.
// Sometimes the clients may not read the directory when it is deleted, so that no event tells them.
func (n *nemesis) remake() {
	zkc, dir := n.admin.Client(), n.paths[n.random.IntN(len(n.paths))]
	data := func() []byte { return []byte([]string{"config", ""}[n.random.IntN(2)]) }
	if n.chance(4) {
		if _, err := zkc.Set(dir, data(), -1); err == nil {
			n.say("remade", "%s: other data", dir)
		}
		return
	}
	silent, restored := n.chance(2), func() {}
	if silent {
		restored = n.forbids(dir)
		_, _ = zkc.SetACL(dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
	}
	var was int32
	err := zk.ErrNotEmpty
	for range 50 { // until it has no nodes
		if _, stat, read := zkc.Exists(dir); read == nil {
			was = stat.Version
		}
		if err = zkc.Delete(dir, -1); err != zk.ErrNotEmpty {
			break
		}
		time.Sleep(between(n.random, time.Millisecond, n.stay)) // virtual
	}
	if err == nil && !n.chance(4) {
		_, err = zkc.Create(dir, data(), n.random.Int32N(2)*zk.FlagContainer, zk.WorldACL(zk.PermAll))
		for ; err == nil && was > 0 && n.chance(2); was-- {
			_, _ = zkc.Set(dir, data(), -1)
		}
	}
	if silent {
		_, _ = zkc.SetACL(dir, zk.WorldACL(zk.PermAll), -1)
		restored()
	}
	n.say("remade", "%s: deleted and made again: %v", dir, err)
}

// wear sets the next sequence number of a directory near the end.
func (n *nemesis) wear() {
	dir := n.paths[n.random.IntN(len(n.paths))]
	to := []int32{1<<30 - 3, 1<<31 - 1<<20 - 3, math.MaxInt32 - 3}[n.random.IntN(3)]
	if line := n.inLine(); len(line) > 0 && parsed(line[len(line)-1].path).Seq >= int64(to) {
		return
	}
	n.mu.Lock()
	delete(n.ledger.worn, dir)
	n.mu.Unlock()
	if n.ensemble.SetSequence(dir, to) {
		n.say("worn", "%s: the next number is %d", dir, to)
	}
	time.Sleep(between(n.random, time.Second, 5*time.Second)) // virtual: callers receive numbers near the end meanwhile
}

// hush makes a host, or the hosts of a member, receive several events at once.
func (n *nemesis) hush() {
	h := n.host()
	if n.chance(2) {
		m := n.member()
		n.say("member lags", "member %d is behind for a while", m.ID())
		m.Lag(between(n.random, time.Millisecond, n.session/4))
		time.Sleep(between(n.random, time.Millisecond, n.session)) // virtual: hosts read its old data meanwhile
		m.Lag(0)
		return
	}
	n.say("hush", "%s: hears nothing for a while", h.name)
	h.net.in().Freeze()
	time.Sleep(between(n.random, time.Millisecond, n.session/3)) // virtual: events happen meanwhile
	h.net.in().Thaw()
}

// pluck deletes one of several nodes of a hold or a waiter, sometimes while the host's own delete
// is under way or its reply is lost.
func (n *nemesis) pluck() {
	h := n.host()
	if n.chance(2) {
		action := []proxy.Action{proxy.HoldRequest, proxy.HoldReply, proxy.CutBefore, proxy.CutAfterCommit}[n.random.IntN(4)]
		f := h.net.packets.Nth(proxy.DeleteOp, 1+n.random.IntN(3), action)
		defer f.Cancel()
		if !n.fires(f) {
			return
		}
	}
	session := h.client().conn.Client().SessionID()
	line := slices.DeleteFunc(n.inLine(), func(s standing) bool { return s.session != session })
	if len(line) > 0 {
		s := line[n.random.IntN(len(line))]
		if n.remove(s) {
			n.say("plucked", "%s: %s", h.name, s.path)
		}
	}
}

// several strikes callers that acquire several locks together.
func (n *nemesis) several() {
	[]func(){n.pluck, n.halve, n.doom}[n.random.IntN(3)]()
}

// prune deletes a node of a holder or a waiter, without other faults.
func (n *nemesis) prune() {
	if line := n.inLine(); len(line) > 0 {
		s := line[n.random.IntN(len(line))]
		n.remove(s)
		n.excuse(s.path) // without one of its nodes the claim of a waiter seems due too early
	}
}

// ask asks a member to release, as Curator's Revoker does.
func (n *nemesis) ask() {
	line := n.inLine()
	if len(line) == 0 {
		return
	}
	n.askOne(line[n.random.IntN(len(line))].path)
}

func (n *nemesis) askOne(path string) {
	after := n.asking(path)
	_, err := n.admin.Client().Set(path, []byte(request), -1)
	after(err == nil)
	if err == nil {
		n.say("ask", "%s is asked to release", path)
	}
}

// usurp delays or loses a leader's write or its reply, while all members but one may lag. Meanwhile
// the leader is asked to release, or its term is ended.
func (n *nemesis) usurp() {
	h := n.host()
	if leader := n.ensemble.Leader(); n.chance(3) {
		d := between(n.random, 10*time.Millisecond, n.session/2)
		for _, m := range n.ensemble.Members() {
			if m != leader {
				m.Lag(d)
				defer m.Lag(0)
			}
		}
	}
	action := []proxy.Action{proxy.HoldRequest, proxy.HoldRequest, proxy.HoldReply, proxy.CutBefore, proxy.CutAfterCommit}[n.random.IntN(5)]
	op := []proxy.Op{proxy.SetOp, proxy.SetOp, proxy.ReadOp}[n.random.IntN(3)]
	f := h.net.packets.Nth(op, 1+n.random.IntN(2), action)
	defer f.Cancel()
	if !n.fires(f) {
		return
	}
	line := n.inLine()
	if len(line) == 0 {
		return
	}
	n.say("usurped", "%s: %v: %v, while %s leads", h.name, action, op, line[0].path)
	switch n.random.IntN(4) {
	case 0:
		n.expire(line[0].session)
	case 1:
		n.remove(line[0])
	default:
		n.askOne(line[0].path)
	}
	time.Sleep(between(n.random, time.Millisecond, n.session/3)) // virtual: another leads, or the leader has been notified
}

// hint asks a leader or a candidate to release, or deletes its node, without other faults.
func (n *nemesis) hint() {
	[]func(){n.ask, n.ask, n.prune}[n.random.IntN(3)]()
}

// strew creates and deletes children of other programs, and nodes of the lock.
func (n *nemesis) strew() {
	switch n.random.IntN(6) {
	case 0:
		n.prune()
	case 1:
		n.ask()
	default:
		n.scatter()
	}
}

// scatter creates children of other programs in a lock's directory or in the directory above, and
// deletes them after a while. Their names belong to other recipes or resemble this recipe's names.
func (n *nemesis) scatter() {
	zkc := n.admin.Client()
	locks := n.hosts[0].client().locks
	l := locks[n.random.IntN(len(locks))]
	dir := l.dir
	if n.chance(4) {
		dir = l.path
	}
	var made []string
	for range 1 + n.random.IntN(4) {
		flags := []int32{zk.FlagPersistent, zk.FlagEphemeral, zk.FlagSequence, zk.FlagEphemeralSequential}[n.random.IntN(4)]
		name := foreign[n.random.IntN(len(foreign))]
		if dir != l.dir && strings.Contains(name, "lease") {
			continue // in the directory above, these are nodes of a Curator semaphore, which is refused
		}
		if flags&zk.FlagSequence == 0 {
			name += fmt.Sprintf("%010d", n.random.IntN(1<<n.random.IntN(31)))
		}
		if path, err := zkc.Create(dir+"/"+name, []byte(request), flags, zk.WorldACL(zk.PermAll)); err == nil {
			made = append(made, path)
		}
	}
	n.say("strewn", "%v are there", made)
	time.Sleep(between(n.random, time.Millisecond, n.session)) // virtual: others lock meanwhile
	for _, path := range made {
		if err := zkc.Delete(path, -1); err != nil {
			n.complain("delete %s: %v", path, err)
		}
	}
	n.say("", "%v are gone", made)
}

// foreign are the beginnings of names that belong to no recipe, whatever number follows.
var foreign = []string{
	"", "x", "lock", "clock-", "-lock-", "_c_-lock-", "_c_0f8fad5b-d9cb-469f-a165-70867728950e-lease-",
	"_c_0f8fad5b-d9cb-469f-a165-70867728950e-LOCK-",
	"_c_0f8fad5b-d9cb-469f-a165-70867728950elock-", "_c_zf8fad5b-d9cb-469f-a165-70867728950e-lock-",
	"_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-0", "076e6e61c0cde965b0859f41aaeb74ff__lease__", "076e6e61c0cde965b0859f41aaeb74ff_lock__",
	"permit-x", "write-x", "read-x", "лок-", "lock-released-",
}

// forbid revokes rights for a while: on the directory of a lock, on the directory above for a
// semaphore, or on a node. Meanwhile the permit count may change without an event, or a member may
// be asked to release, and packets of a host may be lost, see plan.lossy. The following must hold:
//   - Exclusion, as in every world. A waiter may use a permit count that was replaced while it
//     lacked READ, until its next recheck, see starving.
//   - No hold is lost, unless packets are.
//   - Each call succeeds or, if a right was missing since it began, returns zk.ErrNoAuth and the
//     name of the right.
//   - A waiter whose turn has come holds or leaves at the latest at its next recheck. This comes at
//     most 5 s, plus four thirds of the time that it waited for its turn, after its turn (see
//     starving).
//   - A holder is notified of a request at the latest at its next recheck after the right is
//     granted again. This comes at most 5 s, plus the time since the lock was granted, later (see
//     unheardOf).
//   - No node remains. The process deletes the nodes that it could not delete, or not find after a
//     lost reply, when the right is back.
func (n *nemesis) forbid() {
	zkc := n.admin.Client()
	locks := n.hosts[0].client().locks
	l := locks[n.random.IntN(len(locks))]
	path, missing, d := l.path, []int32{zk.PermRead, zk.PermWrite, zk.PermCreate, zk.PermDelete}[n.random.IntN(4)], n.while()
	line := slices.DeleteFunc(n.inLine(), func(s standing) bool { return dirOf(s.path) != l.dir })
	switch {
	case n.chance(4):
		path = l.dir
	case len(line) > 0 && n.chance(2):
		path = line[n.random.IntN(len(line))].path
		if n.least > time.Second && n.chance(2) {
			path, missing, d = line[0].path, zk.PermRead, n.stay // until the holder has released it
		}
	}
	unheard := path != l.dir && path == l.path && n.chance(2)
	if unheard {
		missing = zk.PermRead
	}
	if path == l.dir && missing == zk.PermDelete {
		d = min(d, n.session) // a caller that cannot leave is not starving yet
	}
	if n.lossy {
		action, op, h := actions[n.random.IntN(len(actions))], kinds[n.random.IntN(len(kinds))], n.host()
		n.say("", "%s: %v: %v", h.name, action, op)
		defer h.net.packets.Nth(op, 1+n.random.IntN(3), action).Cancel()
	}
	restored := n.forbids(l.path)
	_, err := zkc.SetACL(path, zk.WorldACL(zk.PermAll&^missing), -1)
	if err != nil {
		restored()
		time.Sleep(between(n.random, time.Millisecond, n.session)) // virtual: the node does not exist during this time
		return
	}
	n.say("forbidden", "%s: without the rights %#x for %v", path, missing, d)
	switch {
	case unheard:
		n.resizeUnheard(path)
	case path != l.path && path != l.dir && missing == zk.PermRead && l.election == nil && n.chance(2):
		n.demandOf(path)
	}
	time.Sleep(d) // virtual: others are refused
	_, err = zkc.SetACL(path, zk.WorldACL(zk.PermAll), -1)
	n.say("", "%s: all rights are back: %v", path, err)
	restored()
	if path == l.dir && (missing == zk.PermDelete || missing == zk.PermRead && n.lossy) {
		n.excuseAll(l.dir)
		for _, h := range n.hosts {
			if n.chance(2) { // the deletions that were refused are repeated at once; else after pauses
				h.net.all().Cut()
			}
		}
	}
}

// excuseAll records that the nodes in a directory may be nodes that could not be deleted.
func (n *nemesis) excuseAll(dir string) {
	for _, s := range n.left() {
		if dirOf(s.path) == dir {
			n.excuse(s.path)
		}
	}
}

// excuse records that a claim need not hold when its turn comes.
func (n *nemesis) excuse(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id := idOf(path); n.entered[id] == 0 { // else it holds since then
		n.entered[id] = n.clock.now()
	}
}

// resizeUnheard stores another number of permits while no client has READ.
func (n *nemesis) resizeUnheard(path string) {
	to := leastPermits + n.random.IntN(mostPermits-leastPermits+1)
	err := n.resizeBy(context.Background(), path, to, false, func() error {
		_, err := n.admin.Client().Set(path, []byte(fmt.Sprint(to)), -1)
		return err
	})
	n.say("resized unheard", "%s: %d permits: %v", path, to, err)
}

// firstLook is the time until a waiter's first recheck.
const firstLook = 5 * time.Second

// sever cuts the connection of a host. Before the host reconnects, it expires the session, deletes
// a node of the host or the nodes ahead of it, or changes a number of permits. The request that
// sets the host's watches, on the next or on this connection, may be lost or refused.
func (n *nemesis) sever() {
	h := n.host()
	n.whole.Store(math.MaxInt64)
	var f *proxy.Fault
	op := []proxy.Op{proxy.WatchesOp, proxy.WatchesOp, proxy.ReadOp}[n.random.IntN(3)]
	if n.chance(2) {
		action := []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit, proxy.Answer(-127), proxy.Answer(-127), proxy.Answer(-12), proxy.HoldRequest}[n.random.IntN(7)]
		f = h.net.packets.Nth(op, 1+n.random.IntN(2), action)
		n.say("", "%s: %v: %v", h.name, action, op)
	}
	session, locks := h.client().conn.Client().SessionID(), h.client().locks
	line := n.inLine()
	heard := func() {}
	if !n.chance(4) {
		n.say("severed", "%s: cut off", h.name)
		heard = n.cutOff(h)
	}
	n.taken = nil
	i := slices.IndexFunc(line, func(s standing) bool { return s.session == session && (s != line[0] || n.chance(2)) })
	switch {
	case n.chance(6):
		if taken, ok := n.expire(session); ok {
			n.say("expire", "%s: session %#x expired at the server", h.name, session)
			n.taken = taken
		}
	case n.resizes && locks[0].path != locks[0].dir && n.chance(2): // a semaphore
		n.resizeUnheard(n.paths[0])
	case i >= 0 && !n.chance(4):
		for j, s := range line[:max(i, 1)] {
			if (j == i || !sameClaim(s.path, line[i].path)) && n.remove(s) {
				n.excuse(s.path) // a waiter detects the deletion of one of its nodes when its turn comes
			}
		}
	}
	time.Sleep(between(n.random, time.Millisecond, n.session/4)) // virtual: another may hold meanwhile
	heard()
	if f != nil && n.fires(f) {
		time.Sleep(between(n.random, time.Millisecond, 100*time.Millisecond)) // virtual: a dropped request is sent again
		if n.chance(2) {
			h.net.all().Cut()
		}
	}
	if f != nil {
		f.Cancel()
	}
	time.Sleep(n.session / 2) // virtual: it reconnects, perhaps twice
	n.whole.Store(n.clock.now())
	time.Sleep(n.session / 2) // virtual: it receives all events
	n.unheard(n.taken)
}

// starving periodically searches for claims whose turn has come and which neither hold nor leave.
// If the server has withheld its event, a waiter rechecks after five seconds, after ten more, and
// so on, each time up to a quarter earlier. In the worst case it has rechecked just before its
// turn, all times before were short, and the next is long: five seconds, and four thirds of the
// time that it has waited. In a prompt world each event reaches its waiter soon after its
// connection is restored.
func (w *world) starving(ctx context.Context) {
	const slack = 2 * time.Second
	const prompt = firstLook - time.Second                      // a client may dial twice, a second apart
	came, due := make(map[string]int64), make(map[string]int64) // by idOf; 0: not due
	for ctx.Err() == nil {
		time.Sleep(firstLook / 10) // virtual: often enough for this bound
		numbers := make(map[string]int)
		for _, l := range w.hosts[0].client().locks {
			numbers[l.dir] = w.number(l.path)
		}
		left := w.left()
		now := w.clock.now()
		blocked := make(map[string]bool)
		for _, s := range left {
			id := idOf(s.path)
			if came[id] == 0 {
				came[id] = now
			}
			blocked[id] = blocked[id] || isBlocked(s.path, left, numbers[dirOf(s.path)])
		}
		for id := range blocked {
			switch {
			case blocked[id]:
				due[id] = 0
			case due[id] == 0:
				due[id] = now
			}
		}
		w.ledger.mu.Lock()
		for _, s := range left {
			id := idOf(s.path)
			late := now-due[id] >= (due[id]-came[id])*4/3+int64(firstLook+slack)
			if w.kind.prompt {
				late = now-max(due[id], w.whole.Load()) >= int64(prompt)
			}
			if blocked[id] || w.entered[id] != 0 || !late {
				continue
			}
			w.entered[id] = now // report it only once
			w.complainLocked("%s: its turn came at %v, it came at %v, and it waits", s.path, time.Duration(due[id]), time.Duration(came[id]))
		}
		w.ledger.mu.Unlock()
	}
}

// crash is the death of a process: its host sends nothing more. What it has sent before may still
// arrive, also after its end. With a session file a reaper ends its session, through any member,
// and no node of the session may remain. Without one the servers expire it. Then the host has
// another process.
func (n *nemesis) crash() {
	h := n.host()
	c := h.client()
	c.mu.Lock()
	was := c.closed
	c.closed = true
	c.mu.Unlock()
	if was { // another hand has closed it
		time.Sleep(n.session / 4) // virtual
		return
	}
	h.net.all().Freeze()
	own, reaped := slot.Wire(c.conn).Own(), n.chance(2)
	n.takeAway(own.ID, "")
	n.say("crash", "%s: crashes, session %#x, with a file: %v", h.name, own.ID, reaped)
	if reaped {
		ctx, cancel := context.WithTimeout(context.Background(), n.session)
		var members []string
		for _, m := range n.ensemble.Members() {
			members = append(members, memberAddr(m))
		}
		err := wire.End(ctx, members, n.session, *own, wire.WithDialer(n.network.Host("reaper").DialContext))
		cancel()
		if errors.Is(err, wire.ErrOver) {
			err = nil
		}
		if err == nil && n.chance(2) {
			h.net.all().Thaw()                                                   // the late requests arrive
			time.Sleep(between(n.random, time.Millisecond, 50*time.Millisecond)) // virtual
		}
		for _, s := range n.left() {
			if err == nil && s.session == own.ID {
				n.complain("%s remains after a reaper has ended its session", s)
			}
		}
		n.say("", "session %#x is ended: %v", own.ID, err)
	} else {
		time.Sleep(between(n.random, n.session, 2*n.session)) // virtual
	}
	h.net.all().Partition()
	_ = c.conn.Close() // ends the goroutines
	h.net.heal()
	h.connect()
}
