package main

// ofTheJudges: what only tests use. A judge that lets everybody go is worse than none.
var ofTheJudges = []mutant{
	{
		name: "checker-ends-late",
		file: "internal/zktest/history/sweep.go",
		why:  "one may begin at the instant at which another ends",
		old:  `until() <= h.Acquired {`,
		new:  `until() < h.Acquired {`,
		test: inHistory("TestGoodHistories"),
	},
	{
		name: "checker-lets-readers-in",
		file: "internal/zktest/history/check.go",
		why:  "a reader beside a writer is an overlap",
		old:  `return a == Exclusive || b == Exclusive || a != b }`,
		new:  `return a == Exclusive && b == Exclusive || a != b && a != Exclusive && b != Exclusive }`,
		test: inHistory("TestBadHistories"),
	},
	{
		name: "checker-accepts-equal-tokens",
		file: "internal/zktest/history/check.go",
		why:  "two holders with one token are not fenced from each other",
		old:  `earlier.Token < later.Token {`,
		new:  `earlier.Token <= later.Token {`,
		test: inHistory("TestBadHistories"),
	},
	{
		name: "checker-counts-holders-not-permits",
		file: "internal/zktest/history/sweep.go",
		why:  "two holders of two permits are four",
		old:  `s.permits += h.permits()`,
		new:  `s.permits++`,
		test: inHistory("TestBadHistories"),
	},
	{
		name: "checker-takes-any-limit",
		file: "internal/zktest/history/check.go",
		why:  "a limit that was over before the hold was asked for does not bind it",
		old:  `l.Since > h.Acquired || l.Until != 0 && l.Until < h.Called {`,
		new:  `l.Since > h.Acquired {`,
		test: inHistory("TestBadHistories"),
	},
	{
		name: "proxy-cuts-before-in-place-of-after",
		file: "internal/zktest/proxyconn.go",
		why:  "no test would see a create that was done and not answered",
		old:  "case CutOnSend, CutAfterCommit, HoldReply: // the server may be faster than the cut\n",
		new:  "case CutAfterCommit:\n\t\t\tc.cut()\n\t\t\tf.fire()\n\t\t\treturn false\n\t\tcase CutOnSend, HoldReply:\n",
		test: inProxy("TestCutAfterCommitHidesWhatTheServerHasDone"),
	},
	{
		name: "proxy-lets-the-reply-through",
		file: "internal/zktest/proxyconn.go",
		why:  "a reply that is held back is to be held until Release",
		old:  "if !f.hold(c.gone) {\n\t\t\t\tcontinue\n\t\t\t}",
		new:  "go f.hold(c.gone)",
		test: inProxy("TestHoldReplyKeepsItUntilRelease"),
	},
	{
		name: "proxy-mutes-nothing",
		file: "internal/zktest/proxyconn.go",
		why:  "no test would see a server that is silent",
		old:  "if c.proxy.swallows(c, toClient) {\n\t\t\tcontinue",
		new:  "if c == nil {\n\t\t\tcontinue",
		test: inProxy("TestMuteRepliesLetsRequestsThrough"),
	},
}
