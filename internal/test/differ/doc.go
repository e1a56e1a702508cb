// Package differ compares two ZooKeeper servers, one in memory and a real one, or real ones of two
// versions, by random sequences of requests: several sessions and connections, watches, ACLs,
// multis, reconnects, expiries. What is compared is all that a client can see, decoded: replies,
// events, their order on each connection, when the server closes a connection. A difference is
// shrunk to the shortest sequence that still shows it.
//
// A sequence must mean the same on both servers, and on one that has played thousands before. So
// paths are below a root of the sequence's own, zxids are counted from the creation of that root,
// and sessions are named in the order in which they were granted. Times are not compared, but they
// must make sense. What ZooKeeper leaves to chance is sorted: children, a session's ephemeral
// nodes, the events of its end. Each such place says so.
//
// With several connections one request is sent at a time: its reply is read, and then what each
// other connection has been sent, up to the answer to a ping. Bursts on one connection are sent in
// one piece.
//
// Some requests cannot be compared and are not generated. One ends the Java server
// (generator.create). A watch on a path that is null fails in Java's own code, now or with a later
// request. What a server handles or ends out of turn (authentication, packets that are too long) is
// never in the midst of a burst.
package differ
