package main

import "github.com/zklocks/zklocks/internal/test/patch"

// A mutant is a bug, put in on purpose, and the test that must find it.
type mutant struct {
	name  string
	pkg   string // the directory of the package, from the root of the module
	in    string // the function, as "claim" or "Client.claim"; "" if the package has the fragment only once
	why   string // it is a bug
	old   string // a fragment of Go that stands there exactly once: see patch.Patch
	new   string // replaces old
	test  string // the package and the test that find it
	world string // the kind of world in which the explorer finds it; "any"; "" if it may survive the explorer
}

func (m mutant) patch() patch.Patch { return patch.Patch{Pkg: m.pkg, In: m.in, Old: m.old, New: m.new} }

// mutants has one bug, seldom two, for each numbered invariant of internal/queue/doc.go and each
// promise of README.md and docs/reference/guarantees.md, at most 60 in all. Every other bug is left
// to the generator (generate.go), whose mutants follow the code by themselves.
var mutants = []mutant{
	// Invariant 1 of internal/queue/doc.go: the own node exists.
	{
		name: "own-node-not-looked-at", pkg: "internal/queue", in: "recheck",
		why: "the waiter's own node may have been deleted when its last blocker is: two clients hold",
		old: "range w.own {", new: "range w.own[:0] {",
		test: "internal/queue TestWhatForbidsAGrant", world: "doomed",
	}, { // Promise 8: data of other programs stay.
		name: "data-written-over", pkg: "internal/queue", in: "Queue.Saw",
		why: "the data of a node that another program has created are lost",
		old: "size := dir.DataLength; size > 0 {", new: "size := dir.DataLength; size < 0 {",
		test: "rwlock TestWriteLock/data that another program stored in the directory stay",
	}, { // Invariant 14: a writer always announces itself.
		name: "writer-not-announced", pkg: "internal/zkclient", in: "newClaimTry",
		why: "a writer that checks in place of announcing itself holds with readers that have listed none",
		old: "&zk.SetDataRequest{Path: claim.Dir, Version: -1}", new: "&zk.CheckVersionRequest{Path: claim.Dir, Version: -1}",
		test: "rwlock TestAReaderThatDoesNotListSeesTheWriter", world: "reborn",
	}, { // Invariant 2: a watch belongs to one session.
		name: "session-not-looked-at", pkg: "internal/queue", in: "recheck",
		why: "what the waiter has read in one session grants nothing in the next",
		old: "!client.In(w.sess)", new: "w.sess == 0",
		test: "internal/queue TestWhatForbidsAGrant",
	}, { // Invariant 3: zk.EventNotWatching is no deletion.
		name: "not-watching-taken-for-a-deletion", pkg: "internal/zkclient",
		why:  "the end of the own session says nothing of the node of another",
		old:  `return event.Type == zk.EventNodeDeleted || Released(event) }`,
		new:  `return event.Type == zk.EventNodeDeleted || Released(event) || event.Type == zk.EventNotWatching }`,
		test: "internal/zkclient TestAnswersOfAnotherSessionAreNotTaken", world: "any",
	}, { // Invariant 4: a lost grant deletes its nodes, behind the notice to its holders.
		name: "node-of-a-lost-hold-left", pkg: "internal/queue", in: "Grant.CleanUp",
		why:  "its session may live on, and all waiters behind wait",
		old:  "if errors.Is(end, hold.ErrLost) {",
		new:  "if errors.Is(end, hold.ErrLost) && g.sess == 0 {",
		test: "reentrant TestMutex/a lost hold whose session lives on leaves no node", world: "any",
	}, {
		name: "node-deleted-before-the-loss-is-told", pkg: "internal/hold", in: "State.ends",
		why:  "the next waiter holds while Lost is open",
		old:  "s.tell()\n\tif first {\n\t\ts.Grant.CleanUp(*end)\n\t}",
		new:  "if first {\n\t\ts.Grant.CleanUp(*end)\n\t}\n\ts.tell()",
		test: "internal/queue TestALostHoldIsToldBeforeItsNodeIsDeleted",
	}, { // Invariant 5: a missing write node may have been downgraded.
		name: "downgraded-writer-struck-out", pkg: "internal/queue", in: "remove",
		why: "a read node stands in the place of the write node that was deleted",
		old: "if b.rule.mayBeReplaced(n, seen) {", new: "if false && b.rule.mayBeReplaced(n, seen) {",
		test: "rwlock TestDowngradeBeforeTheNextWriterWatches", world: "any",
	}, { // Invariant 6: no reader joins past a writer.
		name: "joined-although-a-writer-waits", pkg: "internal/queue", in: "Tenure.may",
		why:  "it overtakes the writer",
		old:  "may := t.shared.may()",
		new:  "may := yes",
		test: "internal/queue TestWhoMayEnter", world: "quiet",
	}, {
		name: "another-directory-passes-the-check", pkg: "internal/queue", in: "view.sameDir",
		why: "a reader holds with a writer in a directory that was made again",
		old: "version != 0 && zxid-last >= version+3", new: "version < 0 && zxid < last",
		test: "internal/queue TestNoReaderBesideAWriterInAnotherDirectoryOfWhichNoEventTells", world: "reborn",
	}, { // Invariant 7: no lost grant is handed on.
		name: "lost-lock-handed-on", pkg: "internal/queue", in: "Callers.pass",
		why: "the next writer gets a lock that another process may hold",
		old: `t.grant.Err() != nil`, new: `false`,
		test: "internal/queue TestALockLostDuringItsReleaseIsNotPassedOn",
	}, { // Invariant 13: an idle grant is entered only while its node exists.
		name: "node-of-another-taken-for-the-own", pkg: "internal/queue", in: "Tenure.ask",
		why: "the own node was deleted, and the client whose node is the only one holds",
		old: "w.Only != n.node.Name", new: `w.Only == ""`,
		test: "internal/queue TestWhatAReleaseDoes",
	}, { // Invariant 8: the permit count is checked before each grant.
		name: "count-not-looked-at", pkg: "internal/queue", in: "recheck",
		why: "there are fewer permits than the waiter has judged its listing by",
		old: "fired(w.limit.Changed)", new: "fired(w.limit.Changed) && w.sess == 0",
		test: "internal/queue TestWhatForbidsAGrant",
	}, { // Invariant 9: the permit count and the directory belong together.
		name: "count-and-directory-do-not-match", pkg: "internal/queue", in: "roomInReply",
		why:  "a directory that was made again may have another limit, of the same version",
		old:  `if w.limit.Dir != 0 && dir.Czxid != w.limit.Dir {`,
		new:  `if w.limit.Dir != 0 && dir.Czxid == 0 {`,
		test: "internal/queue TestTheReplyOfAnotherDirectoryGrantsNothing",
	}, { // Invariant 10: a create whose outcome is unknown is searched for, behind a quorum request.
		name: "no-search-for-a-lost-create", pkg: "internal/zkclient",
		why:  "the create may have been done: a second node, and the first one stays as long as the session",
		old:  "found, complete, err := try.search(ctx)",
		new:  "found, complete, err := make([]Claimed, len(claims)), false, error(nil)",
		test: "internal/zkclient TestClaimSurvivesALostConnection", world: "any",
	}, {
		name: "no-barrier-before-the-search", pkg: "internal/zkclient",
		why:  "a server that is behind does not show the node yet",
		old:  `if err := c.Barrier(ctx, t.session); err != nil {`,
		new:  `if err := Ended(ctx); err != nil {`,
		test: "internal/zkclient TestTheBarrierComesBeforeTheSearch", world: "behind",
	}, { // Invariant 11: after a reconnect a waiter lists.
		name: "event-from-before-a-reconnect-grants", pkg: "internal/queue", in: "recheck",
		why: "an event from before the reconnect may be older than a deletion that the client has not heard of",
		old: "client.Epoch() != w.epoch", new: "client.Epoch() < w.epoch",
		test: "internal/queue TestWhatForbidsAGrant",
	}, { // Invariant 12: the heartbeat is a Multi of checks, on time, and counts from before its write.
		name: "heartbeat-by-a-sync", pkg: "internal/wire", in: "Conn.beat",
		why:  "a leader that was deposed and does not know still answers it",
		old:  `Multi(&zk.CheckVersionRequest{Path: "/", Version: anyVersion})`,
		new:  `Request{9, encode(nil, (&zk.CheckVersionRequest{Path: "/"}).Path)}`,
		test: "internal/zkclient TestHeartbeatsAreSentWhileLeasesLive", world: "any",
	}, {
		name: "heartbeat-waits-for-the-last-answer", pkg: "internal/wire", in: "Conn.beat",
		why: "in a busy process, or far from the servers, the waits add up until the deadline passes: a hold is lost although its session lives",
		old: `c.beatAt(due)`,
		new: `c.beatAt(due)
	if p != nil {
		for _, r := range p.sent {
			if r.heartbeat {
				c.mu.Unlock()
				return
			}
		}
	}`,
		test: ". TestAFarServerCostsNoHold",
	}, { // Guarantee 1 of docs/reference/guarantees.md: exclusion.
		name: "writer-ignores-readers", pkg: "internal/queue",
		why:  "a reader and a writer hold side by side",
		old:  `Write:        {waitsFor: []Mode{Read, Write, CuratorWrite},`,
		new:  `Write:        {waitsFor: []Mode{Write, CuratorWrite},`,
		test: "rwlock TestAQueuedWriterIsNotOvertakenByLaterReaders", world: "any",
	}, { // Guarantee 2: a grant is real.
		name: "shortcut-although-there-is-no-room", pkg: "internal/queue",
		why: "the reply to the create grants the lock to two clients",
		old: "int(dir.NumChildren)-len(w.nodes) <=", new: "int(dir.NumChildren)-len(w.nodes)-1 <=",
		test: "reentrant TestMutex/two values on one connection exclude each other", world: "any",
	}, { // Guarantee 3: a holder is notified first.
		name: "deadline-ignored", pkg: "internal/zkclient",
		why: "the next holder has the lock already when the holder that is cut off is notified",
		old: `case conn.Alive(l.session):`, new: `case conn.Session() == l.session:`,
		test: "internal/zkclient TestLossIsKnownBeforeTheServerExpiresTheSession", world: "any",
	}, {
		name: "deadline-from-the-last-heartbeat", pkg: "internal/wire",
		why:  "a follower that stops right after its answer takes the last touch with it",
		old:  `base := s.deadline.proved(sent); base`,
		new:  `base := sent; base`,
		test: "internal/wire TestDeadlineAgainstModel",
	}, { // Guarantee 4: tokens grow.
		name: "token-is-the-mzxid", pkg: "internal/queue",
		why: "a client that writes into the node of a waiter makes its token larger than that of the next",
		old: "w.token = own.Stat.Czxid", new: "w.token = own.Stat.Mzxid",
		test: "internal/queue TestTheTokenOfANodeThatWasWrittenInto", world: "asked",
	}, { // Guarantee 5: first come, first served; All never deadlocks.
		name: "announcement-not-heard", pkg: "internal/queue", in: "view.valid",
		why: "readers go on joining, and the writer that waits starves",
		old: "!fired(v.writers)", new: "(!fired(v.writers) || v.epoch != 0)",
		test: "internal/queue TestWhoMayEnter", world: "any",
	}, {
		name: "handed-on-without-a-limit", pkg: "internal/queue",
		why: "one process keeps the lock forever",
		old: `t.passed++`, new: `_ = t.passed`,
		test: "internal/queue TestWhatAReleaseDoes", world: "any",
	}, { // Guarantee 6: a call that fails leaves no node behind.
		name: "node-left-after-a-canceled-wait", pkg: "internal/queue",
		why:  "all waiters behind wait for a waiter that has given up",
		old:  "removed := all[0].queue.client.Remove(all[0].sess, removals...)",
		new:  "removed := make(chan error, 1)\n\tremoved <- nil",
		test: "reentrant TestMutex/a deadline ends the wait and nothing else", world: "any",
	}, { // What each call promises: acquiring.
		name: "watches-outlive-their-connection", pkg: "internal/wire",
		why: "a waiter waits for an event that no server will send",
		old: "p.watches.end()", new: "",
		test: "internal/wire TestWatchNodes", world: "any",
	}, {
		name: "first-reader-that-leaves-deletes-the-node", pkg: "internal/queue", in: "Tenure.Leave",
		why:  "the others still read: a writer beside readers",
		old:  "if t.users.Add(-1) > 0 || of.keep(ctx, t) {",
		new:  "if t.users.Add(-1) < 0 {",
		test: "internal/queue TestWhatTheReleaseOfAReaderDoes", world: "any",
	}, {
		name: "withheld-announcement-not-looked-for", pkg: "internal/queue", in: "sharedNode.may",
		why: "the server has withheld the event of a writer, and readers that overlap go on joining",
		old: "s.queue.view.expires(v)", new: "",
		test: "internal/queue TestWhoMayEnter",
	}, { // Holding.
		name: "own-node-not-watched", pkg: "internal/queue", in: "Grant.WatchNodes",
		why: "an administrator deletes the node, and the holder works on",
		old: "g.watching.Swap(true) {", new: "g.watching.Swap(true) || g.sess != 0 {",
		test: "reentrant TestMutex/a hold is lost with its node, its session and its connection", world: "any",
	}, {
		name: "verify-is-a-read", pkg: "internal/queue", in: "Hold.verify",
		why:  "a server that is behind finds the node of a lock that another client holds",
		old:  "at, err := h.client.Check(ctx, h.sess, guards(nodes)...)",
		new:  "at := zkclient.NotDone\n\t\t_, _, err := h.client.Get(ctx, nodes[0].path())",
		test: "reentrant TestMutex/Verify asks the quorum", world: "any",
	}, {
		name: "multi-without-its-guard", pkg: "internal/queue",
		why:  "writes of a holder that has lost the lock are done",
		old:  `guarded = append(guarded, check)`,
		new:  "check.Path = check.Path[:1]\n\t\t\tguarded = append(guarded, check)",
		test: "reentrant TestMutex/a transaction that finds the node deleted reports the loss",
	}, { // Ending.
		name: "another-member-asked", pkg: "internal/queue",
		why: "the member has gone, and the node that has its name now is asked in its place",
		old: `case stat.Czxid != token:`, new: `case stat.Czxid == 0:`,
		test: "reentrant TestMutex/a member that has gone cannot be asked",
	}, { // Leading.
		name: "leader-read-from-any-server", pkg: "internal/queue", in: "Queue.firstIn",
		why: "a server that is behind answers with the leader of before",
		old: `q.client.Barrier(ctx, sess)`, new: `error(nil)`,
		test: "leader TestNoStaleLeaderFromAServerThatIsBehind", world: "elected",
	}, { // The README's other packages: locks shared with other libraries, re-entry, once, zklock.
		name: "lock-without-a-record", pkg: "once", in: "Job.RunEvery",
		why:  "a short job is run again in each process whose clock is late",
		old:  `called.Sub(last.Called) < period/2 && last.Called.Sub(now) < period/2`,
		new:  `false`,
		test: "once TestTwelveProcessesWhoseClocksDiffer",
	}, { // A session file: only the locks of a dead process are freed.
		name: "process-that-lost-its-file-taken-for-dead", pkg: "internal/sessionfile", in: "record.runs",
		why: "it has closed the file by a bug, and works on",
		old: "r.Process == processID(r.PID)", new: "r.Process == processID(0)",
		test: "internal/test/crash TestAProgramThatClosesTheFile",
	}, {
		name: "copy-of-a-session-file-believed", pkg: "internal/sessionfile", in: "File.Dead",
		why: "the process may be alive, with the original",
		old: "r.Inode != inode:", new: "r.Inode == \"\":",
		test: "internal/wire TestASessionFileThatFreesNothing",
	},
}
