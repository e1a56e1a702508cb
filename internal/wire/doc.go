// Package wire connects to ZooKeeper with go-zookeeper's client and works around that client's
// defects without a fork of it. The client dials through this package, so every packet passes a
// packetConn, which inspects it, changes some, sends requests of its own, and keeps the answers to
// those from the client.
//
// For the locks it
//   - knows the session, the number of reconnects, and until when the session is known to live, by
//     the times of packets (state.go, deadline.go);
//   - sends the heartbeats that prove that the session lives (heartbeat.go);
//   - keeps their watches, which all waiters share (watch.go), and sets them, on many nodes by one
//     request, and on release markers (watches.go, marks.go);
//   - reads the zxid of a create in the header of its reply (packetConn.reply).
//
// For any program it
//   - chooses servers, looks up their names and bounds each attempt (hosts.go, conn.go);
//   - refuses frames that would end the process (frame.go), and hides a failed Write, after which
//     the client would answer a request twice (packetConn.Write);
//   - has each of the client's watches fire after a reconnect, so that none misses a change
//     (packetConn.takeZxid);
//   - has Close end, within a second as a rule, and say whether a server has confirmed it
//     (Conn.Close);
//   - has a new session ask for the timeout that the program has asked for (packetConn.note).
package wire
