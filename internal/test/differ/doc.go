// Package differ compares the in-memory server with a real one, by random sequences of requests:
// several sessions and connections, watches, ACLs, multis, reconnects. It compares everything that
// a client receives, decoded: replies, events, their order on each connection, and when the server
// closes a connection. A difference is shrunk to a short sequence that still shows it.
//
// In testdata are sequences that once differed, and some that fix what must be exact, next to the
// answers of two versions of ZooKeeper: so the in-memory server is also compared without Java.
//
// A sequence must mean the same on both servers, also on a server that has played thousands before.
// So paths are below a root for the sequence, zxids are counted from the creation of that root, and
// sessions are named in the order in which they were granted. Times are not compared, but they must
// be plausible. Results in random order are sorted: children, a session's ephemeral nodes, the
// events at its end. A comment marks each such place.
//
// With several connections one request is sent at a time. The test reads its reply, and then
// everything that the other connections receive up to the answer to a ping. A burst on one
// connection is sent in one write.
//
// SASL needs servers of its own, so TestSASL plays scripts of packets on each of its
// configurations, with the client's side of the library.
//
// Some requests cannot be compared and are not generated: packets that no client sends, such as
// those without a path or with flags of another kind of node, and the requests that the in-memory
// server does not know. Requests that a server handles out of order, or that end the connection
// (authentication, packets that are too long), are never in the middle of a burst.
package differ
