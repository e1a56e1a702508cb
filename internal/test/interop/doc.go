// Package interop runs our locks and the locks of other libraries in one queue: Apache Curator in a
// JVM, kazoo in Python, and go-zookeeper's zk.Lock. Each pair must exclude each other in both
// directions: step by step (a story), and under load (a fight), while changing a number that two
// concurrent holders would corrupt. Each test runs on the installed server and on the server in
// memory, which must also serve the others' semaphores: a request that it does not answer would cost
// them seconds, so a fight has a pace.
//
// It belongs to the layer peers, which judges the library and its in-memory server by programs that
// others have written:
//
//	differ               the server in memory answers random requests as a real server does
//	interop              our locks and the locks of other libraries exclude each other
//	scripts/versions.sh  both, and the scenarios of all recipes, on each version that Debian has
//
// The layer shows that our reading of the protocol and of the others' nodes is right, which no test
// of ours against ourselves can show. It cannot show that a lock survives faults: here nothing
// breaks, so a lost reply, a lost session and a slow server are left to the contract, the explorer
// and soak. Nor does it show a rare order of steps, because a fight has a few hundred holds. It
// speaks only for the versions that it ran with.
//
// The tests with Curator and kazoo run only with INTEROP=1, as in make interop, which installs
// them. So a run of all tests does the same on every machine.
// docs/reference/wire-format.md describes the nodes of both sides.
package interop
