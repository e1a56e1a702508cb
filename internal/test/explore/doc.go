// Package explore drives all recipes, on the real client, against the in-memory ZooKeeper in
// virtual time, under a nemesis that breaks hosts, packets, members and sessions. A seed draws the
// world (servers, hosts, latency, locks), what the workers do and what the nemesis does. Each seed
// is one synctest bubble, which a session timeout costs microseconds.
//
// The seeds take turns with kinds of worlds: a large one under all faults at once, and small ones,
// each after one class of bug.
//
// What a run must leave: no two conflicting holds that both say Held, no call that fails for a
// reason the documentation does not name, no waiter that starves after the faults have ended, no
// node of a live session in any lock directory, and no goroutine.
//
// All code is in test files: the package is run by `make sim`, and by `go test` for a few
// seconds.
package explore
