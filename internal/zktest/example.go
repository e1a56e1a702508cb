package zktest

// ExampleServers are the addresses for an Example function, which has no
// testing.TB: those in ZK_SERVERS, or the one of the package's shared server,
// which the first call starts. It panics on a machine without ZooKeeper.
func ExampleServers() []string {
	if addrs := named(); len(addrs) > 0 {
		return addrs
	}
	s, err := startShared()
	if err != nil {
		panic(err)
	}
	return []string{s.Addr()}
}
