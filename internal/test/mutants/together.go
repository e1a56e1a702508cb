package main

// noneTakesSeveral is why the explorer finds none of these.
const noneTakesSeveral = "no world takes several locks at once"

// ofSeveral: zklocks.All, which takes several locks at once.
var ofSeveral = []mutant{
	{
		name: "several-granted-without-a-last-look",
		pkg:  "internal/queue",
		why:  "a node was deleted while another lock was waited for, and another client holds that lock",
		in:   "waiters.waitTurn",
		old:  "behind, next, err = all.confirm(ctx)",
		new:  "behind = nil",
		test: inRoot("TestANodeThatIsDeletedAfterItsTurnHasComeGrantsNothing"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "last-look-at-the-first-lock-only",
		pkg:  "internal/queue",
		why:  "the node of the second lock was deleted while the first was waited for",
		in:   "waiters.confirm",
		old:  "for _, w := range all {\n\t\tnext, err := w.exists",
		new:  "for _, w := range all[:1] {\n\t\tnext, err := w.exists",
		test: inRoot("TestANodeThatIsDeletedAfterItsTurnHasComeGrantsNothing"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "last-look-at-no-node",
		pkg:  "internal/queue",
		why:  "no watch shows that the node was deleted before it was set",
		in:   "waiters.confirm",
		old:  "next, err := w.exists(ctx, own[:len(w.nodes)])",
		new:  "next, err := pending, error(nil)",
		test: inRoot("TestANodeThatIsDeletedAfterItsTurnHasComeGrantsNothing"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "count-not-looked-at-when-the-last-turn-comes",
		pkg:  "internal/queue",
		why:  "the number of permits has shrunk while another lock was waited for, and more are held than there are",
		in:   "waiters.confirm",
		old:  "next, err = w.because(w.recheck())",
		new:  "next = granted",
		test: inRoot("TestALimitThatShrinksAfterTheTurnHasComeIsKept"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "locks-queued-for-one-by-one",
		pkg:  "internal/queue",
		why:  "two callers can each be first at one lock: a deadlock",
		in:   "enqueue",
		old:  "made, at, err := client.Claim(ctx, sess, claims...)",
		new: `var made []zkclient.Claimed
	at := 0
	for i, claim := range claims {
		one, _, refusal := client.Claim(ctx, sess, claim)
		if err = refusal; err != nil {
			at = i
			break
		}
		made = append(made, one...)
	}`,
		test: inRoot("TestAllTakesItsLocksInOneTransaction"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "refusal-blamed-on-the-first-lock",
		pkg:  "internal/zkclient",
		why:  "the error names a lock at which no right is missing",
		old:  "return nil, try.claimOf(a.value.failed), a.err",
		new:  "return nil, 0, a.err",
		test: inRoot("TestBadInputOfAll"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "directory-of-the-first-lock-made",
		pkg:  "internal/queue",
		why:  "that of the second does not exist, and the call goes on forever",
		in:   "enqueue",
		old:  "all[at].refused(ctx, claims[at], err)",
		new:  "all[0].refused(ctx, claims[0], err)",
		test: inRoot("TestTheDirectoryOfEachLockIsMade"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "worn-directory-of-the-second-lock-kept",
		pkg:  "internal/zkclient",
		why:  "its count comes to its end",
		in:   "Client.RemoveNow",
		old:  "for _, r := range all {\n\t\tc.resetSequence",
		new:  "for _, r := range all[:1] {\n\t\tc.resetSequence",
		test: inSession("TestRemoveGivesUpEachWornDirectory"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "search-in-the-first-directory-only",
		pkg:  "internal/zkclient",
		why:  "the reply to the create was lost, and the nodes in the others are not known",
		in:   "claimTry.list",
		old:  "range t.claims {",
		new:  "range t.claims[:1] {",
		test: inRoot("TestNodesOfSeveralLocksAreFoundAfterALostReply/all are there"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "search-judged-by-the-last-directory",
		pkg:  "internal/zkclient",
		why:  "the reply was lost and the node at the first lock deleted: the caller holds without it",
		in:   "claimTry.list",
		old:  "complete = complete && len(nodes) == claim.Nodes",
		new:  "complete = len(nodes) == claim.Nodes",
		test: inRoot("TestNodesOfSeveralLocksAreFoundAfterALostReply/one was deleted"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "orphans-removed-from-the-first-directory-only",
		pkg:  "internal/zkclient",
		why:  "the caller has gone before the reply, and the other locks stay taken",
		in:   "claimTry.removeOrphans",
		old:  "range t.claims {",
		new:  "range t.claims[:1] {",
		test: inRoot("TestNodesOfSeveralLocksAreFoundAfterALostReply/the caller has gone"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "first-queue-left-only",
		pkg:  "internal/queue",
		why:  "a caller that has stopped waiting keeps its place at the other locks",
		in:   "waiters.leave",
		old:  "all[0].sess, removals...)",
		new:  "all[0].sess, removals[:1]...)",
		test: inRoot("TestACanceledWaitForSeveralLeavesNothing"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "try-of-several-leaves-a-node",
		pkg:  "internal/queue",
		why:  "a TryLock that came second at one lock keeps the other",
		in:   "waiters.leave",
		old:  "all[0].sess, removals...)",
		new:  "all[0].sess, removals[1:]...)",
		test: inRoot("TestATryOfSeveralThatCameSecondLeavesNothing"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "first-lock-released-only",
		pkg:  "internal/queue",
		why:  "the nodes of the other locks stay",
		in:   "Joint.Release",
		old:  "last.release(ctx)",
		new:  "last[:1].release(ctx)",
		test: inRoot("TestAllTakesItsLocksInOneTransaction"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "locks-released-one-by-one",
		pkg:  "internal/queue",
		why:  "a release of n locks takes n requests",
		in:   "Joint.Release",
		old:  "if left := last.release(ctx); err == nil {\n\t\terr = left\n\t}",
		new:  "for _, g := range last {\n\t\tif left := (grants{g}).release(ctx); err == nil {\n\t\t\terr = left\n\t\t}\n\t}",
		test: inRoot("TestAllTakesItsLocksInOneTransaction"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "other-locks-kept-after-a-loss",
		pkg:  "internal/queue",
		why:  "the hold is lost, and their nodes stay",
		in:   "Joint.cleanUp",
		old:  "g.state.Lose(end)",
		new:  "_ = g",
		test: inRoot("TestTheLossOfOneLockIsTheLossOfAll"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "loss-of-one-lock-not-told",
		pkg:  "internal/queue",
		why:  "the holder works on without one of its locks",
		in:   "newJoint",
		old:  "j.state.Tie(&g.state)",
		new:  "",
		test: inRoot("TestTheLossOfOneLockIsTheLossOfAll"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "holder-of-several-told-after-the-deletion",
		pkg:  "internal/queue",
		why:  "another client holds one of the locks while Lost is open",
		in:   "newJoint",
		old:  "j.state.Tie(&g.state)",
		new:  "g.state.OnEnd(hold.Observers, func(end error) { j.state.Lose(end) })",
		test: inQueue("TestHoldersOfSeveralAreToldBeforeANodeIsDeleted"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "first-node-of-several-watched-only",
		pkg:  "internal/queue",
		why:  "the holder does not hear that the node of another lock is deleted",
		in:   "Joint.State",
		old:  "range j.grants {",
		new:  "range j.grants[:1] {",
		test: inRoot("TestTheLossOfOneLockIsTheLossOfAll"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "verify-asks-for-the-first-lock-only",
		pkg:  "internal/queue",
		why:  "another of the locks is lost",
		in:   "Joint.Verify",
		old:  "j.grants.verify(",
		new:  "j.grants[:1].verify(",
		test: inRoot("TestAQuestionOfSeveralLocksIsOfAllTheirNodes/Verify"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "multi-checks-the-first-lock-only",
		pkg:  "internal/queue",
		why:  "a write of a holder that has lost another of the locks is done",
		in:   "Joint.Multi",
		old:  "j.grants.multi(",
		new:  "j.grants[:1].multi(",
		test: inRoot("TestAQuestionOfSeveralLocksIsOfAllTheirNodes/Multi"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "guard-checks-the-first-lock-only",
		pkg:  "internal/queue",
		why:  "a write of a holder that has lost another of the locks is done",
		in:   "Joint.Guard",
		old:  "j.grants.guards()",
		new:  "j.grants[:1].guards()",
		test: inRoot("TestTheGuardOfSeveralLocksIsOfAllTheirNodes"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "lock-given-twice",
		pkg:  "internal/queue",
		why:  "the caller waits for itself",
		in:   "together",
		old:  "q.Queue.dir == p.Queue.dir",
		new:  "q.Queue == p.Queue",
		test: inRoot("TestBadInputOfAll"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "locks-of-two-connections",
		pkg:  "internal/queue",
		why:  "the nodes of all are made in the session of the first, whose end the others' program does not see",
		in:   "together",
		old:  "!p.Queue.client.Same(parts[0].Queue.client)",
		new:  "p.Queue == nil",
		test: inRoot("TestBadInputOfAll"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "reentrant-lock-that-is-held-waited-for",
		pkg:  "reentrant",
		why:  "the caller waits for itself",
		in:   "Mutex.part",
		old:  "if m.owns(ctx) {",
		new:  "if m == nil {",
		test: inRoot("TestAReentrantLockThatIsHeldIsRefused"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "owner-by-a-context-not-seen",
		pkg:  "reentrant",
		why:  "a goroutine that works for the owner waits for it",
		in:   "Mutex.owns",
		old:  "|| h != nil && h.owner.of.total > 0",
		new:  "|| h != nil && h.mutex() != m",
		test: inRoot("TestAReentrantLockThatIsHeldIsRefused"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "ownership-of-several-not-begun",
		pkg:  "internal/queue",
		why:  "the holder waits for itself when it enters the reentrant lock again",
		in:   "newJoint",
		old:  "j.owners[i] = own(g)",
		new:  "_ = own",
		test: inRoot("TestAReentrantLockAmongSeveral"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "ownership-of-several-not-carried",
		pkg:  "internal/queue",
		why:  "a goroutine with the context of the hold waits for the holder",
		in:   "Joint.Context",
		old:  "ctx = o.Context(ctx)",
		new:  "_ = o",
		test: inRoot("TestAReentrantLockAmongSeveral"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "reentry-released-with-the-other-locks",
		pkg:  "internal/queue",
		why:  "another hold rests on the node",
		in:   "Joint.Release",
		old:  "o == nil || o.End()",
		new:  "o == nil || o.End() || true",
		test: inRoot("TestAReentrantLockAmongSeveral"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "ownership-of-several-not-ended",
		pkg:  "internal/queue",
		why:  "the reentrant lock stays taken, and its last hold does not release it",
		in:   "Joint.Release",
		old:  "o == nil || o.End()",
		new:  "o == nil",
		test: inRoot("TestAReentrantLockAmongSeveral"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "turn-at-one-lock-not-told",
		pkg:  "internal/queue",
		why:  "a writer of the process behind it cannot tell its observers its place until the other turns come",
		in:   "waiters.waitTurn",
		old:  "w.local.setAhead(0)",
		new:  "",
		test: inRoot("TestAFollowerOfANodeWhoseTurnHasComeCountsOne"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "turn-at-one-lock-not-told-after-a-wait",
		pkg:  "internal/queue",
		why:  "observers of a writer behind it are told of a node that is gone",
		in:   "waiters.waitEach",
		old:  "w.local.setAhead(0)",
		new:  "",
		test: inRoot("TestAFollowerOfANodeWhoseTurnHasComeCountsOne"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "waits-go-on-after-a-failure",
		pkg:  "internal/queue",
		why:  "one of the locks cannot be had, and the caller waits for the others",
		in:   "waiters.waitEach",
		old:  "next, err = r.next, r.err\n\t\t\tcancel()",
		new:  "next, err = r.next, r.err",
		test: inRoot("TestAFailureAtOneLockEndsTheWaitForTheOthers"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "failure-at-one-lock-without-its-name",
		pkg:  "internal/queue",
		why:  "the caller is not told which of its locks cannot be had",
		in:   "waiters.waitEach",
		old:  "w.queue.named(err)",
		new:  "err",
		test: inRoot("TestAFailureAtOneLockEndsTheWaitForTheOthers"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "try-of-several-asks-for-the-first-only",
		pkg:  "internal/queue",
		why:  "TryLock in a loop, while another of the locks is taken, is a storm of writes",
		in:   "enqueue",
		old:  "if err == nil && !wait {",
		new:  "if err == nil && !wait && i == 0 {",
		test: inRoot("TestATryOfSeveralThatFindsOneTakenWritesNothing"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "own-idle-grant-keeps-a-try-of-several-out",
		pkg:  "rwlock",
		why:  "no goroutine holds the lock",
		in:   "RWMutex.writePart",
		old:  "m.reads.releaseIdle(ctx)",
		new:  "",
		test: inRoot("TestAnIdleReadLockDoesNotKeepOutATryOfSeveral"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "downgrade-of-the-first-of-several",
		pkg:  "internal/queue",
		why:  "the caller means another: the one that is downgraded is open to readers",
		in:   "Joint.In",
		old:  "p.Queue == q",
		new:  "p.Queue != nil",
		test: inRoot("TestADowngradeOfOneOfSeveral"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "observers-of-the-first-lock-told-only",
		pkg:  "internal/queue",
		why:  "those of the others do not hear of the hold",
		in:   "newJoint",
		old:  "events[i].Granted(g)",
		new:  "if i == 0 {\n\t\t\tevents[i].Granted(g)\n\t\t}",
		test: inRoot("TestTheObserversOfEachLockAreTold"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "observers-of-the-first-lock-told-of-the-release-only",
		pkg:  "internal/queue",
		why:  "those of the others count the hold for ever",
		in:   "Joint.Release",
		old:  "range j.events {",
		new:  "range j.events[:1] {",
		test: inRoot("TestTheObserversOfEachLockAreTold"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "all-of-all-refused",
		pkg:  ".",
		why:  "what All returns is a Locker as any other",
		in:   "all.parts",
		old:  "ok {\n\t\t\tinner",
		new:  "ok && len(nested.locks) == 0 {\n\t\t\tinner",
		test: inRoot("TestAllMayBeNested"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "embedded-lock-taken-for-the-lock",
		pkg:  "internal/slot",
		why:  "the Lock of the program's own type is not called",
		in:   "PartOf",
		old:  "l.lockSlot().lock != lock",
		new:  "l.lockSlot().lock == nil",
		test: inRoot("TestBadInputOfAll"),

		unexplored: noneTakesSeveral,
	},
	{
		name: "request-measured-by-its-last-lock",
		pkg:  "internal/queue",
		why:  "the server closes the connection on a request that is too large, which looks as if the network were down",
		in:   "enqueue",
		old:  "size+claims[i].Size()",
		new:  "claims[i].Size()",
		test: inRoot("TestBadInputOfAll"),

		unexplored: noneTakesSeveral,
	},
}
