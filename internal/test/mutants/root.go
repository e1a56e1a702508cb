package main

// ofTheFrontDoor: the root package, and what stands behind its methods alone.
var ofTheFrontDoor = []mutant{
	{
		name: "do-works-under-a-hold-that-was-released",
		pkg:  ".",
		why:  "the lock function has returned a hold of an earlier call",
		in:   "Do",
		old:  `case errors.Is(h.Err(), ErrReleased):`,
		new:  `case errors.Is(h.Err(), ErrReleased) && lock == nil:`,
		test: inRoot("TestDoWithoutAHold"),

		unexplored: "no worker calls Do",
	},
	{
		name: "multi-without-its-guard",
		pkg:  "internal/queue",
		why:  "writes of a holder that has lost the lock are done",
		old:  `guarded = append(guarded, check)`,
		new:  "check.Path = check.Path[:1]\n\t\t\tguarded = append(guarded, check)",
		test: scenario(inReentrant, "TestMutex", "a transaction that finds the node deleted tells the loss"),

		unexplored: "its holds nearly always know of a loss before they write",
	},
	{
		name: "multi-guards-the-first-permit-only",
		pkg:  "internal/queue",
		why:  "another permit was deleted, and the hold is lost with it",
		old:  `guarded = append(guarded, check)`,
		new:  "check.Path = nodes.guards()[0].Path\n\t\t\tguarded = append(guarded, check)",
		test: inSemaphore("TestATransactionNeedsAllPermits"),

		unexplored: "its holds nearly always know of a loss before they write",
	},
	{
		name: "multi-of-a-hold-that-was-released",
		pkg:  "internal/queue",
		why:  "another hold of the process has the node, and this one writes on",
		in:   "Hold.Multi",
		old:  "multi(ctx, h.Err, ops)",
		new:  "multi(ctx, h.Grant.Err, ops)",
		test: inReentrant("TestTheLockIsHeldUntilTheLastOfItsHoldsIsUnlocked"),

		unexplored: "in a crowd a hold may have been released before or after",
	},
	{
		name: "multi-under-way-told-as-not-done",
		pkg:  "internal/queue",
		why:  "the hold has ended, and the caller is not told that the transaction may have taken place",
		old:  `return nil, fmt.Errorf("the transaction may have taken place: %w; the hold has ended meanwhile: %v", err, end)`,
		new:  `return nil, end`,
		test: inQueue("TestATransactionWhoseHoldEndsMeanwhile"),

		unexplored: "it takes either answer of a hold that another goroutine ends",
	},
	{
		name: "multi-with-the-response-to-its-guard",
		pkg:  "internal/queue",
		why:  "response i is not that of operation i",
		old:  "return replies[len(nodes):], nil",
		new:  "return replies[:len(ops)], nil",
		test: scenario(inReentrant, "TestMutex", "a transaction answers for the operations of the caller alone"),
	},
	{
		name: "responses-of-a-refused-multi-shifted",
		pkg:  "internal/queue",
		why:  "the caller looks for the operation that was refused, and finds the one before it",
		old:  `return replies[len(nodes):], named(`,
		new:  `return replies[:len(ops)], named(`,
		test: scenario(inReentrant, "TestMutex", "an operation of the caller that is refused is no loss"),
	},
	{
		name: "missing-node-of-the-caller-taken-for-a-loss",
		pkg:  "internal/queue",
		why:  "the lock is held, and only the caller's own node is not there",
		old:  "case at >= len(nodes):\n\t\t\treturn replies[len(nodes):], named(at-len(nodes), guarded[at], zkclient.DescribeCode(err))",
		new:  "case at >= len(nodes):\n\t\t\tall[0].state.Lose(errDeleted)\n\t\t\treturn nil, alive()",
		test: scenario(inReentrant, "TestMutex", "an operation of the caller that is refused is no loss"),
	},
	{
		name: "multi-overtaken-by-a-downgrade-taken-for-a-loss",
		pkg:  "internal/queue",
		why:  "the node that it checks has become another one, and the lock is held",
		old:  "case !replaced:\n\t\t\treturn nil, alive()",
		new:  "case !replaced || all != nil:\n\t\t\tall[0].state.Lose(errDeleted)\n\t\t\treturn nil, alive()",
		test: inRwlock("TestATransactionThatADowngradeOvertakes"),

		unexplored: "a transaction that is thrown away hardly ever meets a downgrade",
	},
	{
		name: "multi-repeated",
		pkg:  "internal/zkclient",
		why:  "its answer was lost, and it may have been done: what it creates exists, what it adds is added twice",
		old:  "case o != unsent:\n\t\t\treturn nil, Unanswered",
		new:  "case o != unsent && o != unknown:\n\t\t\treturn nil, Unanswered",
		test: inSession("TestTransact"),

		unexplored: "it does not count its writes",
	},
	{
		name: "multi-sent-for-a-hold-that-ended-while-it-waited",
		pkg:  "internal/zkclient",
		why:  "where holds share a node its guard passes, and the write comes after the release",
		old:  `err := may()`,
		new:  `err := error(nil)`,
		test: inSession("TestTransact"),

		unexplored: "in a crowd a hold may have been released before or after",
	},
	{
		name: "throttled-multi-fails",
		pkg:  "internal/zkclient",
		why:  "the server has thrown it away: nothing was done, and nothing is wrong with it",
		old:  "case o != unsent:\n\t\t\treturn nil, Unanswered",
		new:  "case o != done:\n\t\t\treturn nil, Unanswered",
		test: inSession("TestTransact"),
	},
	{
		name: "err-is-nil-after-a-loss",
		pkg:  ".",
		why:  "the caller works on, and writes what is not its own any more",
		in:   "Hold.Err",
		old:  `return g.State().Look()`,
		new:  "if end := g.State().Look(); end == ErrReleased {\n\t\t\treturn end\n\t\t}\n\t\treturn nil",
		test: scenario(inReentrant, "TestMutex", "a hold whose node is deleted is lost"),
	},
	{
		name: "zero-hold-is-held",
		pkg:  ".",
		why:  "nothing was granted",
		in:   "Hold.Err",
		old:  `return errNoGrant`,
		new:  `return nil`,
		test: inRoot("TestTheZeroHoldIsLost"),

		unexplored: "it has no zero hold",
	},
	{
		name: "guard-of-the-zero-hold-passes",
		pkg:  ".",
		why:  "nothing was granted, and the write is done",
		old:  `Path: "/zookeeper/no hold",`,
		new:  `Path: "/zookeeper",`,
		test: inRoot("TestTheGuardOfTheZeroHoldFails"),

		unexplored: "it has no zero hold",
	},
	{
		name: "downgrade-of-a-hold-of-another-lock",
		pkg:  "rwlock",
		why:  "the caller means another lock: the one that it has downgraded is open to readers",
		old:  "if grant.mutex == m {",
		new:  "if grant.mutex != nil {",
		test: inRwlock("TestDowngradeOfAHoldOfAnotherLock"),

		unexplored: "it gives a lock its own holds only",
	},
	{
		name: "options-of-connect-ignored",
		pkg:  ".",
		why:  "the locks have the defaults in place of what the program has said for all of them",
		old:  `defaults = append(defaults, o)`,
		new:  `_ = o`,
		test: inRoot("TestOptionsOfConnectAreDefaults"),

		unexplored: "it gives Connect no options of locks",
	},
	{
		name: "stored-permits-do-not-win",
		pkg:  "semaphore",
		why:  "a program that starts after a Resize is refused, although it has asked for the stored number",
		old:  `agreed: cfg.stored`,
		new:  `agreed: cfg.stored && cfg.Wrong != nil`,
		test: inSemaphore("TestTheStoredNumberWins"),

		unexplored: "it does not ask for the stored number",
	},
	{
		name: "chroot-ignored",
		pkg:  "internal/slot",
		why:  "programs that share an ensemble meet at one path",
		in:   "Path",
		old:  `return chroot + path`,
		new:  `return chroot[:0] + path`,
		test: inRoot("TestWithChroot"),

		unexplored: "it has no chroot",
	},
	{
		name: "close-reports-success-unheard",
		pkg:  "internal/wire",
		why:  "the nodes stay until the session times out, and the program is told that they are gone",
		old:  `return errUnconfirmed`,
		new:  `return nil`,
		test: inRoot("TestClose"),

		unexplored: "it does not look at what Close says",
	},
	{
		name: "close-heard-reported-as-unheard",
		pkg:  "internal/wire",
		why:  "the server has ended the session",
		old:  "\t\t\tw.client.closeConfirmed.Store(true)\n",
		new:  "",
		test: inRoot("TestClose"),

		unexplored: "it does not look at what Close says",
	},
	{
		name: "session-events-out-of-order",
		pkg:  "internal/wire",
		why:  "two goroutines tell the program, and the last it hears need not be how things are",
		old:  "t.waiting = append(t.waiting, e)\n\tif len(t.waiting) == 1 {\n\t\tt.begin()\n\t}",
		new:  "go t.f(e)",
		test: inRoot("TestWithSessionEvents"),

		unexplored: "it listens to no session events",
	},
	{
		name: "do-says-nothing-of-the-loss",
		pkg:  ".",
		why:  "another process held the lock before the work was over, and the program is told that all was well",
		old:  "case err == nil:\n\t\t\terr = released",
		new:  "case err == nil:\n\t\t\t_ = released",
		test: inRoot("TestDo"),

		unexplored: "it does not call Do",
	},
	{
		name: "do-leaves-the-lock",
		pkg:  ".",
		why:  "the work is over, and nothing gives the lock back",
		old:  `released = slot.End(ctx, g)`,
		new:  "_ = slot.End\n\t\t\treleased = h.Err()",
		test: inRoot("TestDo"),

		unexplored: "it does not call Do",
	},
	{
		name: "do-works-on-after-the-loss",
		pkg:  ".",
		why:  "the context of the work is to end with the hold",
		old:  `return work(h.Context(ctx), h)`,
		new:  `return work(ctx, h)`,
		test: inRoot("TestWorkOfDoEndsWithTheHold"),

		unexplored: "it does not call Do",
	},
	{
		name:       "nil-operation-sent",
		pkg:        "internal/queue",
		why:        "the client library panics, or the caller is told that it may have taken place",
		old:        `v.Kind() == reflect.Pointer && v.IsNil()`,
		new:        `v.Kind() == reflect.Pointer && v.IsNil() && op == nil`,
		test:       inRoot("TestMultiRefusesWhatItCouldNotJudge"),
		unexplored: "all input of a world is good",
	},
}
