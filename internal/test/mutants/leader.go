package main

// ofTheElection: package leader, and how the core shows the first of a queue.
var ofTheElection = []mutant{
	{
		name: "leader-read-from-any-server",
		pkg:  "internal/queue",
		why:  "a server that is behind answers with the leader of before",
		in:   "Queue.firstIn",
		old:  `q.client.Barrier(ctx, sess)`,
		new:  `error(nil)`,
		test: inLeader("TestNoStaleLeaderFromAServerThatIsBehind"),

		unexplored: notElected,
	},
	{
		name: "leader-read-across-a-reconnect",
		pkg:  "internal/queue",
		why:  "the barrier brought another server up to date than the one that has answered the read",
		in:   "Queue.First",
		old:  `case q.client.Epoch() == epoch:`,
		new:  `case epoch != 0:`,
		test: inLeader("TestAReconnectMeanwhileAsksTheQuorumAgain"),

		unexplored: notElected,
	},
	{
		name: "view-from-any-server",
		pkg:  "internal/queue",
		why:  "a server that is behind shows the leader of before as current",
		in:   "follower.follow",
		old:  `client.Refresh(ctx, sess)`,
		new:  `error(nil)`,
		test: inLeader("TestNoStaleLeaderFromAServerThatIsBehind"),

		unexplored: notElected,
	},
	{
		name: "view-current-past-the-deadline",
		pkg:  "internal/queue",
		why:  "the server may be cut off from the quorum, and another leads",
		in:   "follower.follow",
		old:  `lease.OnLoss(end)`,
		new:  `_ = lease`,
		test: inLeader("TestAViewIsNotCurrentWithoutTheQuorum"),

		unexplored: notElected,
	},
	{
		name: "view-current-without-a-connection",
		pkg:  "internal/queue",
		why:  "no event comes, and another may lead",
		in:   "follower.follow",
		old:  "case <-changed:\n\t\t\tend(nil)",
		new:  `case <-changed:`,
		test: inLeader("TestAViewIsNotCurrentWithoutAConnection"),

		unexplored: notElected,
	},
	{
		name: "view-current-while-a-dead-connection-is-asked",
		pkg:  "internal/queue",
		why:  "the leader that is shown is known to be gone",
		in:   "follower.follow",
		old:  `f.queue.watchFirst(known, sess)`,
		new:  `f.queue.watchFirst(ctx, sess)`,
		test: inLeader("TestAViewIsNotCurrentWhileTheNextIsReadOnADeadConnection"),

		unexplored: notElected,
	},
	{
		name: "view-not-taken-back",
		pkg:  "internal/queue",
		why:  "the last view stays current while there is no connection",
		in:   "Queue.Follow",
		old:  `f.tell(Front{Member: f.last.Member})`,
		new:  `_ = f.last`,
		test: inLeader("TestAViewIsNotCurrentWithoutAConnection"),

		unexplored: notElected,
	},
	{
		name: "view-of-an-empty-queue-without-a-look",
		pkg:  "internal/queue",
		why:  "a leader that has come before the watch was set is not seen",
		in:   "Queue.watchFirst",
		old:  `nodes, _, err = q.list(ctx, sess) // a member may have come before the watch was set`,
		new:  ``,
		test: inLeader("TestALeaderThatComesBeforeTheWatchIsSeen"),

		unexplored: notElected,
	},
	{
		name: "view-without-the-data",
		pkg:  "internal/queue",
		why:  "what the leader proclaims is not seen",
		in:   "Front.equal",
		old:  `bytes.Equal(f.Member.Data, other.Member.Data)`,
		new:  `true`,
		test: inLeader("TestObserveYieldsEachChange"),

		unexplored: notElected,
	},
	{
		name: "view-shares-its-data",
		pkg:  "internal/queue",
		why:  "a caller that changes them changes those of the others",
		in:   "Queue.watchFirst",
		old:  `bytes.Clone(watch.Data)`,
		new:  `watch.Data`,
		test: inLeader("TestTheDataOfAViewAreTheCallersOwn"),

		unexplored: notElected,
	},
	{
		name: "follower-keeps-its-lease",
		pkg:  "internal/queue",
		why:  "heartbeats go on although no hold and no loop needs them",
		in:   "follower.follow",
		old:  `defer lease.End()`,
		new:  ``,
		test: inLeader("TestObserveLeavesNothingBehind"),

		unexplored: notElected,
	},
	{
		name: "directory-made-meanwhile-not-watched",
		pkg:  "internal/zkclient",
		why:  "the watch is on the data of the directory, and tells of no child",
		in:   "Client.childrenW",
		old:  `if err != nil || !exists {`,
		new:  `if err != nil || !exists || true {`,
		test: inSession("TestWatchChildrenOfADirectoryThatIsMadeMeanwhile"),

		unexplored: notElected,
	},
	{
		name: "function-not-told-of-the-loss",
		pkg:  "leader",
		why:  "it goes on while another process leads",
		in:   "held.serve",
		old:  `term := h.Context(ctx)`,
		new:  `term := ctx`,
		test: inLeader("TestTheContextEndsBeforeTheNextLeads"),

		unexplored: notElected,
	},
	{
		name: "resigns-while-the-function-runs",
		pkg:  "leader",
		why:  "the next leader's function runs beside it",
		in:   "held.serve",
		old:  `err = lead(term`,
		new:  "context.AfterFunc(ctx, func() { _ = h.Release(ctx) })\n\terr = lead(term",
		test: inLeader("TestRunResignsWhenTheFunctionHasReturnedAndNotBefore"),

		unexplored: notElected,
	},
	{
		name: "panic-without-a-resignation",
		pkg:  "leader",
		why:  "the node stays until the session ends, and no process leads",
		in:   "held.serve",
		old:  `err = h.resign(ctx)`,
		new:  "if p := recover(); p != nil {\n\t\t\tpanic(p)\n\t\t}\n\t\terr = h.resign(ctx)",
		test: inLeader("TestRunResignsWhenTheFunctionPanics"),

		unexplored: notElected,
	},
	{
		name: "resigns-with-a-dead-context",
		pkg:  "leader",
		why:  "Run returns before the node is gone, and the program may end first",
		in:   "held.resign",
		old:  `context.WithoutCancel(ctx)`,
		new:  `ctx`,
		test: inLeader("TestRunResignsThoughItsContextHasEnded"),

		unexplored: notElected,
	},
	{
		name: "resigns-for-ever",
		pkg:  "leader",
		why:  "Run does not return while there is no connection",
		in:   "held.resign",
		old:  `h.Deadline())`,
		new:  `time.Now().Add(time.Hour))`,
		test: inLeader("TestResigningWaitsNoLongerThanTheSessionLives"),

		unexplored: notElected,
	},
	{
		name: "refused-resignation-not-reported",
		pkg:  "leader",
		why:  "Run queues behind its own node, which no process may delete",
		in:   "held.resign",
		old:  "return err\n",
		new:  "_ = err\n\treturn nil\n",
		test: inLeader("TestWhatEndsRun/no right to delete"),

		unexplored: notElected,
	},
	{
		name: "no-pause-after-a-failure",
		pkg:  "leader",
		why:  "a function that fails at once is called thousands of times a second",
		in:   "Election.Run",
		old:  "if !failed {\n\t\t\tcontinue",
		new:  "if true {\n\t\t\tcontinue",
		test: inLeader("TestRunPausesAfterAFailure"),

		unexplored: notElected,
	},
	{
		name: "pause-after-a-loss",
		pkg:  "leader",
		why:  "a function that was told to stop has not failed",
		in:   "held.serve",
		old:  `err != nil && !told`,
		new:  `err != nil && (true || told)`,
		test: inLeader("TestRunDoesNotPauseAfterALoss"),

		unexplored: notElected,
	},
	{
		name: "pauses-stay-long",
		pkg:  "leader",
		why:  "a failure after weeks costs the longest pause",
		in:   "Election.Run",
		old:  `pauses.last = 0`,
		new:  `_ = lasted`,
		test: inLeader("TestRunPausesAfterAFailure"),

		unexplored: notElected,
	},
	{
		name: "pauses-without-chance",
		pkg:  "leader",
		why:  "all candidates come back at once",
		in:   "backoff.next",
		old:  `time.Duration(rand.Int64N(int64(most-b.min)+1))`,
		new:  `time.Duration(rand.Int64N(1)) + most - b.min`,
		test: inLeader("TestRunPausesAfterAFailure"),

		unexplored: notElected,
	},
	{
		name: "overdue-not-told",
		pkg:  "leader",
		why:  "a function that acts as the leader beside another is known to no observer",
		in:   "held.watchOverdue",
		old:  `h.events.Overdue(lost)`,
		new:  `_ = lost`,
		test: inLeader("TestAFunctionThatGoesOnAfterTheLossIsOverdue"),

		unexplored: notElected,
	},
	{
		name: "overdue-shown-as-leading",
		pkg:  "leader",
		why:  "a health check finds a leader that is none",
		in:   "held.status",
		old:  `case h.Grant.Err() == nil:`,
		new:  `case true:`,
		test: inLeader("TestAFunctionThatGoesOnAfterTheLossIsOverdue"),

		unexplored: notElected,
	},
	{
		name: "candidate-that-gave-up-stays",
		pkg:  "leader",
		why:  "the status is that of a call that has returned",
		in:   "Election.campaign",
		old:  "if h.Grant == nil {\n\t\t\te.end(h)",
		new:  "if false {\n\t\t\te.end(h)",
		test: inLeader("TestACandidateThatNeverLedIsToldNothing"),

		unexplored: notElected,
	},
	{
		name: "proclaimed-by-another-election",
		pkg:  "leader",
		why:  "the data of another path change",
		in:   "Election.Proclaim",
		old:  `case !ok || h.election != e:`,
		new:  `case !ok:`,
		test: inLeader("TestProclaim"),

		unexplored: notElected,
	},
	{
		name: "proclaimed-without-a-limit",
		pkg:  "leader",
		why:  "a request that is too large costs the connection",
		in:   "Election.Proclaim",
		old:  `case len(data) > queue.MaxData:`,
		new:  `case false:`,
		test: inLeader("TestProclaim"),

		unexplored: notElected,
	},
	{
		name: "kazoo-election-in-a-container",
		pkg:  "leader",
		why:  "a kazoo client that has made the directory once fails when it has gone",
		in:   "New",
		old:  `cfg.kind == znode.KazooLock`,
		new:  `false`,
		test: inLeader("TestKazooNames"),

		unexplored: notElected,
	},
}

const notElected = "no world elects"
