// Package contract is what every recipe promises, as one suite of scenarios that runs over all of
// them: in memory, in virtual time (Run), and on real servers, in real time (RunReal).
//
// A scenario is a function of a scene: a lock path of its own, clients that come and go, and a
// witness, which is a client that reads the directory without a lock. When the scenario ends, while
// its clients are still connected, the queue must have no node left.
//
// What it shows: each scenario, with one fault at one step (a packet that is cut, held, lost or
// refused, a session that expires, a node that is deleted, a right that is missing, a directory
// full of garbage), ends as the promise says, for each recipe, within a known number of requests.
// In memory no time passes except that which a scenario lets pass, so what happens at once takes no
// time at all. On a real server the tests allow a margin, and show that the server does what the
// one in memory does.
//
// What it cannot show: faults that meet each other and goroutines that interleave
// (internal/test/explore), every order of events (the model in internal/queue), how long a loss
// takes on real machines and that nothing grows over time (internal/test/soak).
package contract
