// Package wire connects to ZooKeeper with go-zookeeper's client and works around that client's
// defects without a fork of it. The client dials through this package, so every packet passes a
// packetConn, which inspects it, changes some, sends requests of its own, and keeps the answers to
// those from the client.
//
// For the locks it
//   - knows the session, the number of reconnects, and until when the session is known to live, by
//     the times of packets;
//   - sends the heartbeats that prove that the session lives;
//   - keeps their watches, which all waiters share, and sets them, on many nodes by one request,
//     and on release markers;
//   - reads the zxid of a create in the header of its reply.
//
// For any program it
//   - chooses servers, looks up their names and bounds each attempt;
//   - refuses frames that would end the process, and hides a failed Write, after which the client
//     would answer a request twice (packetConn.Write);
//   - fires each of the client's watches after a reconnect, so that none misses a change
//     (packetConn.takeZxid);
//   - ends the session of a process that has died without Close, see sessionFile;
//   - bounds Close to a second as a rule, and reports whether a server has confirmed it;
//   - asks for the program's session timeout in each new session (packetConn.note).
//
// # Files
//
// Each calls those below it (internal/test/arch has the exceptions):
//
//	takeover.go          ends the session of a dead process
//	connect.go           Connect: input, the first session, credentials
//	conn.go              what the client calls: dialer, callback, logger; Close
//	options.go           options
//	watches.go           requests that set watches
//	packetconn.go        each packet
//	sessionfile.go       the file with the session, for the case that the process dies
//	sessionfile_unix.go  its lock and its rights
//	sessionfile_linux.go its host and its processes
//	heartbeat.go         when heartbeats are sent
//	hosts.go             which server comes next
//	watch.go             a watch and those that wait for it
//	state.go             the session as the locks see it
//	deadline.go          until when the session is known to live
//	frame.go             the protocol
package wire
