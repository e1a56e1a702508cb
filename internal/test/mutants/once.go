package main

// ofTheJob: package once.
var ofTheJob = []mutant{
	{
		name: "lock-without-a-record",
		pkg:  "once",
		why:  "a short job is run again in each process whose clock is late",
		in:   "Job.RunEvery",
		old:  `return called.Sub(last.Called) < period/2 && last.Called.Sub(now) < period/2`,
		new:  `return false`,
		test: inOnce("TestTwelveProcessesWhoseClocksDiffer"),

		unexplored: "no world has jobs of package once",
	},
	{
		name: "waiter-belongs-to-the-period-in-which-it-is-granted",
		pkg:  "once",
		why:  "a process that has waited for a run of more than half the period repeats it",
		in:   "Job.run",
		old:  `Called: now.Add(-waited.Round(time.Millisecond))`,
		new:  `Called: now.Add(-0 * waited)`,
		test: inOnce("TestTheRunnerIsKilled"),

		unexplored: "no world has jobs of package once",
	},
	{
		name: "lost-reply-of-the-record-taken-for-a-failure",
		pkg:  "once",
		why:  "the run is recorded, and the caller is told that it is not",
		in:   "Job.write",
		old:  `case stat.Version > version && bytes.Equal(found, data):`,
		new:  `case stat.Version > version+1 && bytes.Equal(found, data):`,
		test: inOnce("TestLostReplies"),

		unexplored: "no world has jobs of package once",
	},
}
