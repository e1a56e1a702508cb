// Package memzk is a ZooKeeper server in memory. It speaks ZooKeeper's wire protocol over any
// net.Conn, standalone or as an ensemble, in real time or in the fake time of testing/synctest.
//
// # Model
//
// Every change of state is a transaction: creates, deletes, writes of data and ACLs, multis, starts
// and ends of sessions, and refused requests, which take a transaction id (zxid), too. The leader
// validates a request against the state after all transactions so far and appends the transaction
// that results to one log. Each member applies a prefix of this log, in order, by one function
// (tree.apply). What a member answers depends on its prefix only: a member that lags answers with
// old data, as a real one does.
//
// There is no consensus protocol. A leader that reaches a majority of the members commits at once.
// A leader that does not keeps requests waiting, until it reaches a majority again or has been
// without one for Config.SyncLimit ticks; then it stops serving. Members that have no leader elect
// one of those that have the longest prefix. No transaction that was committed is lost, because a
// majority has received it and a majority elects.
//
// Sessions are timed by the leader. A member reports the sessions that its clients have used with
// its answer to the leader's ping, twice a tick.
//
// # What it is not
//
// It writes nothing to disk: Member.Kill and Member.Restart keep the data, the end of the process
// loses it. It has no quotas, no reconfiguration, no observers, no SASL and no TLS (wrap the
// connections). It is for tests and for trying things out.
//
// # Fidelity
//
// The differences between versions of ZooKeeper that a client can see are listed in version.go.
// What differs on purpose: order that ZooKeeper leaves to chance (of ephemeral nodes deleted with
// their session, of a client's identities, of a listing after a real server has read a snapshot); a
// client's request of the type that servers use among themselves to open a session (-10), which is
// refused here; /zookeeper/config, which is empty here in an ensemble, too; the number of
// connections of a client, which has no limit here; and names at the end of the sequence: there
// numbers repeat, as in ZooKeeper, but for creates in flight at once, which get negative numbers
// there.
//
// Two more concern ensembles. ZooKeeper's leader logs what it cannot commit for want of a majority,
// and commits it if it leads again before another one has; here that is gone. And in ZooKeeper the
// requests of a session wait for the writes of its former connection to the same member, which here
// are forgotten.
//
// # Locks
//
// Ensemble.mu guards everything but the I/O of connections. No goroutine does I/O or waits for a
// channel while it holds mu: a goroutine that waits for a mutex is not durably blocked, which would
// stop the clock of a synctest bubble.
package memzk
