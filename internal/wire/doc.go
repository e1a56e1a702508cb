// Package wire connects to ZooKeeper. It sends the locks' requests itself. For the rest it works
// around the defects of github.com/go-zookeeper/zk, here called go-zookeeper, without a fork of it.
// go-zookeeper dials through this package, so every packet passes a packetConn, which inspects it,
// changes some, sends its own requests between them, and keeps the answers to those from
// go-zookeeper. go-zookeeper shakes hands, sends credentials and pings, closes, and serves the
// program's own requests.
//
// For the locks it
//   - sends their requests, each on one connection and in one session, and returns the server's
//     code and zxid;
//   - knows the session, the number of reconnects, and until when the session is known to live, by
//     the times of packets;
//   - sends the heartbeats that prove that the session lives;
//   - keeps their watches, which all waiters share, and sets them, on many nodes by one request,
//     and on release markers.
//
// For any program it
//   - chooses servers, looks up their names and bounds each attempt;
//   - refuses frames that would end the process, and hides a failed Write, after which go-zookeeper
//     would answer a request twice (packetConn.Write);
//   - fires each of go-zookeeper's watches after a reconnect, so that none misses a change
//     (packetConn.takeZxid);
//   - ends the session of a process that has died without Close, see package sessionfile;
//   - bounds Close to a second as a rule, and reports whether a server has confirmed it;
//   - asks for the program's session timeout in each new session (packetConn.note).
//
// # Files
//
// Each calls those below it (internal/test/arch has the exceptions):
//
//	takeover.go    ends the session of a dead process
//	connect.go     Connect: input, the first session, credentials
//	servers.go     SetServers, Rebalance, and the ensemble's configuration
//	conn.go        what go-zookeeper calls: dialer, callback, logger; Close
//	options.go     options
//	call.go        the locks' requests
//	watches.go     requests that set watches
//	packetconn.go  each packet
//	sasl.go        SASL, between the handshake and the first request
//	sessionfile.go the session, and the file for the case that the process dies
//	heartbeat.go   when heartbeats are sent
//	hosts.go       which server comes next
//	watch.go       a watch and those that wait for it
//	state.go       the session as the locks see it
//	deadline.go    until when the session is known to live
//	request.go     requests and replies, encoded
//	frame.go       the protocol
package wire
