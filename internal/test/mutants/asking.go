package main

// ofTheAsking: requests to release.
var ofTheAsking = []mutant{
	{
		name: "member-asked-through-a-server-that-is-behind",
		pkg:  "internal/queue",
		why:  "a leader that was elected just now is said to have gone, and one that has gone to be asked",
		in:   "RequestRelease",
		old:  `if !asks && !client.In(caughtUp)`,
		new:  `if !asks && !client.In(caughtUp) && client == nil`,
		test: inRwlock("TestAMemberIsAskedThroughAServerThatIsBehind"),

		unexplored: "a request to release may be refused because the member has gone",
	},
	{
		name: "another-member-asked",
		pkg:  "internal/queue",
		why:  "the member has gone, and the node that has its name now is asked in its place",
		old:  `case stat.Czxid != token:`,
		new:  `case stat.Czxid == 0:`,
		test: scenario(inReentrant, "TestMutex", "a member that has gone cannot be asked"),

		kind: "asked and calm",
	},
	{
		name: "request-repeated-is-written-again",
		pkg:  "internal/queue",
		why:  "each request wakes all that watch the node, also one that is there already",
		in:   "RequestRelease",
		old:  `case isReleaseRequest(data):`,
		new:  `case isReleaseRequest(data) && token == 0:`,
		test: scenario(inReentrant, "TestMutex", "a holder hears that it is asked to release, and goes on"),

		kind: "asked and calm",
	},
	{
		name: "request-written-over-any-version",
		pkg:  "internal/queue",
		why:  "of two clients that ask at once both write",
		in:   "RequestRelease",
		old:  `stat.Version)`,
		new:  `-1)`,
		test: scenario(inReentrant, "TestMutex", "requests of two clients at once are one"),

		kind: "asked and calm",
	},
	{
		name: "request-in-another-version-given-up",
		pkg:  "internal/queue",
		why:  "another client has written into the node, and the caller is refused although the member is there",
		in:   "RequestRelease",
		old:  `err != zk.ErrBadVersion`,
		new:  `err != zk.ErrAPIError`,
		test: scenario(inReentrant, "TestMutex", "a request is made once through a cut at any step"),

		kind: "asked and calm",
	},
	{
		name: "any-write-is-a-request",
		pkg:  "internal/queue",
		why:  "a program that writes into the node does not ask for anything",
		in:   "Grant.watchRequest",
		old:  `isReleaseRequest(w.Data)`,
		new:  `w.Stat.Version > 0`,
		test: scenario(inReentrant, "TestMutex", "other writes into the node ask for nothing"),

		kind: "asked and calm",
	},
	{
		name: "any-write-shown-as-a-request",
		pkg:  "internal/queue",
		why:  "the queue shows members as asked that are not",
		in:   "Member.read",
		old:  `isReleaseRequest(data)`,
		new:  `stat.Version > 0`,
		test: scenario(inReentrant, "TestMutex", "other writes into the node ask for nothing"),

		kind: "asked and calm",
	},
	{
		name: "requests-not-shown",
		pkg:  "internal/queue",
		why:  "the queue does not say who was asked",
		in:   "Member.read",
		old:  `isReleaseRequest(data)`,
		new:  `data == nil`,
		test: scenario(inReentrant, "TestMutex", "a holder hears that it is asked to release, and goes on"),

		kind: "asked and calm",
	},
	{
		name: "only-the-first-write-read",
		pkg:  "internal/queue",
		why:  "after a write that is no request the holder hears of none",
		in:   "Grant.watchRequest",
		old:  "wire.Wait(ctx, nil, w)\n",
		new:  "wire.Wait(ctx, nil, w)\n\t\treturn\n",
		test: scenario(inReentrant, "TestMutex", "other writes into the node ask for nothing"),

		kind: "asked and calm",
	},
	{
		name: "requests-after-a-downgrade-not-heard",
		pkg:  "internal/queue",
		why:  "the hold has another node, and its holder listens at the former",
		in:   "Hold.Downgrade",
		old:  `if h.requests.Load() != nil {`,
		new:  `if h.requests.Load() != nil && now.node.Seq < 0 {`,
		test: inRwlock("TestADowngradeIsNoRequest"),

		kind: "asked and calm",
	},
	{
		name: "requests-before-and-after-a-downgrade",
		pkg:  "internal/queue",
		why:  "the second closes a channel that is closed: the program ends",
		in:   "request.tell",
		old:  `if !r.told.Swap(true) {`,
		new:  `if r != nil {`,
		test: inRwlock("TestADowngradeIsNoRequest"),

		kind: "asked and calm",
	},
	{
		name: "asked-at-the-first-of-several-locks-only",
		pkg:  "internal/queue",
		why:  "the client that asks for the other lock is not heard",
		in:   "Hold.ReleaseRequested",
		old:  `range nodes {`,
		new:  `range nodes[:1] {`,
		test: inRoot("TestAHoldOfSeveralIsAskedAtAnyOfThem"),

		kind: "asked and calm",
	},
	{
		name: "every-hold-listens",
		pkg:  "internal/queue",
		why:  "a hold that does not ask for requests makes one for each lock",
		in:   "Hold.Begin",
		old:  `h.state.Begin(&g.state)`,
		new:  "h.state.Begin(&g.state)\n\th.ReleaseRequested()",
		test: scenario(inReentrant, "TestMutex", "an uncontended cycle takes as few requests as promised"),

		unexplored: "it costs requests, and grants nothing",
	},
	{
		name: "data-that-ask",
		pkg:  "internal/queue",
		why:  "each holder of the lock is asked to release as soon as it holds",
		in:   "Config.wrong",
		old:  `case isReleaseRequest(cfg.Data):`,
		new:  `case isReleaseRequest(cfg.Data) && cfg.Conn == nil:`,
		test: scenario(inReentrant, "TestMutex", "bad input is an error at once and nothing is asked"),

		unexplored: "all input of a world is good",
	},
	{
		name: "zero-hold-is-asked",
		pkg:  ".",
		why:  "a program that waits for requests takes a hold that was never granted for one that is wanted",
		in:   "Hold.ReleaseRequested",
		old:  `return nil`,
		new:  `return closed`,
		test: inRoot("TestTheZeroHoldIsLost"),

		unexplored: "it has no zero hold",
	},
}
