// Package explore drives all recipes, on the real client, against the in-memory ZooKeeper in
// virtual time, while a nemesis breaks hosts, packets, members and sessions. A seed determines the
// world (servers, hosts, latency, locks), and the actions of the workers and of the nemesis. Each
// seed runs in a synctest bubble, where a session timeout takes microseconds.
//
// The seeds alternate between kinds of worlds: a large world with all faults at once, and small
// worlds, each for one class of bugs.
//
// A run must satisfy: no two conflicting holds both report Held; no call fails for a reason that
// the documentation does not name; no waiter starves after the faults have ended; no node of a live
// session remains in a lock directory; no goroutine remains.
//
// All code is in test files: the package is run by `make sim`, and by `go test` for a few
// seconds.
package explore
