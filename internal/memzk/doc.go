// Package memzk is an in-memory ZooKeeper server. It serves ZooKeeper's wire protocol on any
// net.Conn, standalone or as an ensemble, in real time or in the virtual time of testing/synctest.
//
// # Model
//
// Every change of state is a transaction with a transaction id (zxid): creates, deletes, writes of
// data and ACLs, multis, starts and ends of sessions, and also refused requests. The leader
// validates a request against the state after all transactions so far, and appends the resulting
// transaction to one log. Each member applies a prefix of this log, in order, by one function
// (tree.apply). The answers of a member depend on its prefix only: a member that lags returns old
// data, as a real server does.
//
// There is no consensus protocol. A leader that reaches a majority of the members commits at once.
// A leader without a majority queues requests. After Config.SyncLimit ticks without a majority it
// stops serving. Members without a leader elect one of the members with the longest prefix. No
// committed transaction is lost, because a majority has received it and a majority elects.
//
// The leader times the sessions. Twice a tick, in its answer to the leader's ping, each follower
// reports the sessions that its clients have used.
//
// # Limits
//
// It writes nothing to disk: the data survives Member.Kill and Member.Restart only. It has no
// quotas, no observers and no TLS (wrap the connections). It refuses nodes with a time to live and
// reconfigurations, as ZooKeeper does by default. Two requests that servers make for themselves (20
// deletes a container, -10 begins a session) are answered like unknown requests, and so are the
// requests that no lock library sends: multiRead, getEphemerals, getAllChildrenNumber and whoAmI.
// SASL is a function of the Config, with DIGEST-MD5 as in ZooKeeper; the option
// zookeeper.allowSaslFailedClients is not there.
//
// # Fidelity
//
// version.go lists the differences between versions of ZooKeeper that a client can detect. This
// package differs on purpose in these points:
//   - Where an order is random in ZooKeeper, it may be another order here: of ephemeral nodes
//     deleted with their session, of a client's identities, of a listing.
//   - Packets that no client sends have other results: without a path, cut short, or a multi with
//     flags of another kind of node.
//   - /zookeeper/config is empty without Config.Describe. Members are added and removed by
//     Ensemble.Add and Ensemble.Remove, not by requests.
//   - A client may have any number of connections.
//   - At the end of the sequence numbers, names repeat as in ZooKeeper. But ZooKeeper gives
//     negative numbers to creates that are in flight at that moment.
//
// Two more points concern ensembles. ZooKeeper's leader logs writes that it cannot commit for lack
// of a majority, and commits them if it leads again before another member has led; here they are
// lost. And in ZooKeeper the requests of a session wait for the writes of its former connection to
// the same member; here they do not.
//
// # Locks
//
// Ensemble.mu guards everything but the I/O of connections. No goroutine does I/O or waits for a
// channel while it holds mu: goroutines that wait for a mutex are not durably blocked, so the clock
// of a synctest bubble would stop.
package memzk
