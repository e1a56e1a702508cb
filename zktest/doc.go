// Package zktest is a ZooKeeper in memory for tests, with a network to reach it by and faults that
// a test calls for by name. It needs no Java, no ports and no files.
//
// In a bubble of testing/synctest time is virtual: a session timeout of ten seconds passes in
// microseconds, and a busy machine changes nothing. This test cuts the holder of a lock off, and
// asks whether it knows that it holds no more when the next one does:
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
// break the network between it and the members (Partition, Cut, Delay, Freeze, Refuse), in one
// direction if need be (Requests, Replies), and at one packet that matters (Next, Nth, Where). With
// a.Next(zktest.Create, zktest.CutAfterCommit) the server creates the lock's node, and the client
// does not know.
//
// Programs that connect by themselves do so with Server.Addrs and Host.Dial. Programs in other
// processes use ListenTCP, in real time.
//
// # What it is not
//
// The server keeps everything in memory, and nothing after the test. The members of an ensemble
// share one log and vote in an instant: there is no quorum protocol. A write that a leader without
// a majority could not commit is gone when it stops to lead; in ZooKeeper it may be committed
// later, if that leader leads again (LoseReply shows a program a write that was done without an
// answer). And a client that reconnects to such a leader, or to a member that lags, gets answers to
// reads and pings; in ZooKeeper they wait behind the session's earlier writes. It is not for
// production.
//
// All members know a write at the instant of its commit, so a program that reads from one what it
// was told of by way of another, without a sync, is never wrong; in ZooKeeper it may be. Member.Lag
// shows that, and what CutOnSend leaves to be done after the reconnect.
//
// The other differences to ZooKeeper that a client of one server can see are tested for, by
// comparing both request by request; what a program promises to its users should run on a real
// server once, too.
//
// # In a bubble
//
// Make everything inside: the server, hosts, connections and locks. A connection belongs to t, or
// is closed before the test ends; t names the ones that are not. Connections to real servers do not
// work there, and neither does a goroutine that waits for a mutex while its holder waits for the
// server. So close a connection once: of two goroutines that close it at the same time the second
// waits for a mutex.
package zktest
