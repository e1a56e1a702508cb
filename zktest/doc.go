// Package zktest is an in-memory ZooKeeper for tests, with a network of its own and faults that a
// test causes by name. It needs no Java, no ports and no files.
//
// In a bubble of testing/synctest time is virtual: a session timeout of ten seconds passes in
// microseconds, and a busy machine changes nothing. This test cuts off the holder of a lock, and
// checks that its hold is lost by the time the next holder has the lock:
//
//	func TestTheOldHolderKnows(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			s := zktest.NewServer(t)
//			a, b := s.Host("a"), s.Host("b")
//			here := rwlock.New(a.Connect(t, 10*time.Second), "/jobs/nightly")
//			old, err := here.Lock(t.Context())
//			if err != nil {
//				t.Fatal(err)
//			}
//			a.Partition()
//			// Virtual seconds later, when the server has expired the session of a.
//			there := rwlock.New(b.Connect(t, 10*time.Second), "/jobs/nightly")
//			next, err := there.Lock(t.Context())
//			if err != nil {
//				t.Fatal(err)
//			}
//			if old.Held() {
//				t.Error("two hold at a time, and the old holder does not know")
//			}
//			if err := next.Release(t.Context()); err != nil {
//				t.Error(err)
//			}
//		})
//	}
//
// Outside of a bubble the same test runs in real time.
//
// # Servers, members, hosts
//
// A Server is one ZooKeeper, or an ensemble (WithMembers). Its Members can be killed, paused, cut
// off from each other, and made to lag. A Host is where a program under test runs: its methods
// break the network between the host and the members (Partition, Cut, Delay, Freeze, Refuse). They
// can break one direction only (Requests, Replies), or strike at a single packet (Next, Nth,
// Where). With a.Next(zktest.Create, zktest.CutAfterCommit) the server creates the lock's node, and
// the client receives no reply.
//
// Programs that connect by themselves use Server.Addrs and Host.Dial. Programs in other processes
// use ListenTCP, in real time.
//
// # Differences to ZooKeeper
//
// The server is not for production: it keeps everything in memory. The members of an ensemble share
// one log and elect a leader in an instant, without a quorum protocol:
//   - A write that a leader without a majority could not commit is lost when that leader stops
//     leading. In ZooKeeper it may be committed later, if that leader leads again. (LoseReply lets
//     the server execute a write whose reply is lost.)
//   - A client that reconnects to such a leader, or to a member that lags, receives answers to
//     reads and pings. In ZooKeeper they wait behind the session's earlier writes.
//
// All members have a write at the instant of its commit. So a program that writes through one
// member and reads from another without a sync always reads its write; in ZooKeeper it may not.
// Member.Lag makes a member's reads old. CutOnSend makes the server execute a request after the
// client has reconnected.
//
// Tests compare this server with ZooKeeper request by request, for all that clients of one server
// send and receive. It has no Kerberos, does not know the requests multiRead, getEphemerals,
// getAllChildrenNumber and whoAmI, and refuses nodes with a time to live, as ZooKeeper does by
// default. Server.AddMember and Member.Remove reconfigure it, requests do not. Still, run what a
// program promises to its users once on a real server.
//
// # In a bubble
//
// Make everything inside: the server, hosts, connections and locks. A connection must belong to t
// or be closed before the test ends; otherwise t fails and names its host. Connections to real
// servers do not work in a bubble. A goroutine must not wait for a mutex while the mutex's holder
// waits for the server: the clock of the bubble would stop. So close a connection only once: of two
// goroutines that close it at the same time, the second waits for a mutex.
package zktest
