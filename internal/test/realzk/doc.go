// Package realzk runs real ZooKeeper servers, for tests and for the examples' demo, and injects
// faults into the connections to them.
//
// The core (Start, StartEnsemble, EndSession) returns errors. The helpers that take a testing.TB
// wrap it.
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
// A test that kills or pauses needs its own server: Standalone, Cluster. A test of single packets
// uses package proxy.
//
// ZK_SERVERS (comma separated) names an ensemble to use instead of the shared server. ZK_HOME or
// ZOOKEEPER_HOME is the directory of an unpacked ZooKeeper. If ZooKeeper or Java is not installed,
// tests that need them are skipped; with ZKLOCKS_REAL=1 they fail.
package realzk
