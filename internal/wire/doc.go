// Package wire is the connection to ZooKeeper. A Conn has one session at a time, and one goroutine,
// run: it dials the next server, shakes hands, serves (reads until the connection ends), and begins
// again. Each network connection is a packetConn: it sends the requests of all callers in one order,
// and takes the answers and events. Between the handshake and the first request it authenticates.
// Timers send pings, which show that the server lives, and while there are holds or waiters
// heartbeats, which prove that the session lives: state and deadline know until when. All waiters of
// the process share the watches. A move ends one connection for another. Close ends the session, and
// answers within a second. The program's own requests come from a zk.Conn of
// github.com/go-zookeeper/zk, here called go-zookeeper, if the program asks for one: Client makes it,
// and plays its server.
//
// # Files
//
// Each calls those below it (internal/test/arch has the exceptions):
//
//	takeover.go    ends the session of a dead process
//	connect.go     Connect: input, the first session
//	clientproxy.go go-zookeeper, for the program's requests
//	servers.go     addresses, and the ensemble's configuration
//	move.go        SetServers, Rebalance
//	addresses.go   which addresses are valid, and which are another machine elsewhere
//	conn.go        the Conn; Close
//	run.go         the life of a connection: run, dial, shakeHands, serve, fail
//	options.go     options
//	auth.go        SASL and other credentials, between the handshake and the first request
//	call.go        the locks' requests
//	watches.go     requests that set watches
//	packetconn.go  a network connection: requests, answers, events
//	sessionfile.go the session, and the file for the case that the process dies
//	heartbeat.go   when heartbeats and pings are sent
//	hosts.go       which server comes next
//	watch.go       a watch and those that wait for it
//	state.go       the session as the locks see it
//	deadline.go    until when the session is known to live
//	request.go     requests and replies, encoded
//	frame.go       the protocol
package wire
