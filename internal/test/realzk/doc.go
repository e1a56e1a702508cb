// Package realzk runs real ZooKeeper servers for tests and for the examples' demo runner, and
// injects faults into the connections to them.
//
// The core (Start, StartEnsemble, NewProxy, ExpireSession) returns errors and does not use package
// testing's T; the helpers that take a testing.TB wrap it.
//
//	func TestMain(m *testing.M) { leaks.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		conn := realzk.Connect(t, 4*time.Second) // to the package's shared server
//		path := test.Path(t)
//		...
//		test.AssertEmpty(t, conn, path)
//	}
//
// A test that kills or pauses takes a server of its own: Standalone, Cluster. A test about one
// packet puts a Proxy in between: ProxyFor.
//
// ZK_SERVERS (comma separated) names an ensemble to use in place of the shared server; ZK_HOME or
// ZOOKEEPER_HOME is the directory of an unpacked ZooKeeper. Where no ZooKeeper or no Java is
// installed, tests that need them are skipped; with ZKLOCKS_REAL=1 they fail.
package realzk
