// Package zkconn connects to ZooKeeper with a *zk.Conn whose weak spots are cured, without a fork of the client.
//
//	conn, err := zkconn.Connect(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"}, 10*time.Second)
//	if err != nil {
//		return err
//	}
//	defer conn.Close()
//
//	hold, err := rwlock.New(conn, "/jobs/nightly").Lock(ctx)
//
// Compared with zk.Connect, a connection made here
//   - reconnects within milliseconds instead of sleeping a second in front of every round over the servers;
//   - gives up on a server that accepts but does not answer after a sixth of the session timeout (1 s at most) instead
//     of 6.7 session timeouts, and tries the others first for a while;
//   - looks host names up anew on every attempt, and checks a certificate against the host name, not the address;
//   - drops the connection on a malformed frame instead of panicking;
//   - sees to it that watches are set again after a reconnect, also when the server refuses that or the connection is lost
//     again, and that they miss no change in between;
//   - closes within milliseconds also while no server can be reached;
//   - knows the session timeout that the server granted and the instant until which its session is sure to live, which
//     the locks of this module build on.
//
// Calls wait while no server can be reached: they never fail with zk.ErrNoServer, as with zk.Connect after each vain
// round. Those who need a limit put one around the call; the locks do so by their contexts.
package zkconn
