// Package queue is the core of every recipe: a directory in ZooKeeper is a queue of ephemeral
// sequential nodes, and this package waits in it, holds, and leaves. It follows the ZooKeeper
// recipes ("Locks", "Shared Locks"), Curator's LockInternals and InterProcessSemaphoreV2.
//
// # The recipe
//
// A request has one node, or several with numbers in a row. It is granted when at most as many
// nodes are ahead of the first one, of those that its mode waits for (conflict.go), as the recipe
// allows. acquire.go has these steps on one page:
//
//  1. Create the nodes, exactly once, also if replies are lost (zkclient.Claim).
//  2. List the queue.
//  3. Compare: how many blockers are ahead? If few enough, go to step 5.
//  4. Watch the nearest blockers and, if their deletion may grant the nodes, the own nodes. Wait
//     for an event. A deletion removes the blocker: go to step 3. If that tells too little, or
//     anything else happens, go to step 2.
//  5. Recheck, then hold.
//
// Several requests that are granted together, each in another directory, are created by one
// transaction and wait side by side (together.go).
//
// A waiter whose nodes are gone starts over with step 1, at the tail. No other way out leaves a
// node behind.
//
// # States
//
// A waiter, and the grant that it becomes:
//
//	       create                 clear, recheck              last hold released
//	(none) ------> waiting ------------------------> granted -------------------> released
//	   ^            |   |                               |
//	   |  nodes gone|   | ctx ends, an error            | deadline passed, node deleted,
//	   +------------+   +------> left                   +-- session or connection over --> lost
//
// In released, lost and left the nodes are deleted until they are gone, their session is over or
// the connection is closed.
//
// # Invariants
//
// The code refers to them by number. Each has a test, and a bug of internal/test/mutants that
// breaks it.
//
//  1. Before every grant there is evidence that the own nodes exist, no older than the event that
//     grants: the listing, the reply to the create, or a watch that has not fired.
//  2. A watch belongs to one session and to one connection. An event of another grants nothing.
//  3. zk.EventNotWatching is no deletion.
//  4. A grant that is declared lost while its node exists deletes the node: after its holders are
//     told, in the same session, by its exact path.
//  5. A writer removes a blocker that was a write node only if a watch has reported the deletion. A
//     write node that is missing may have been downgraded: a read node stands in its place.
//  6. Readers share a node only if a watch on the directory and a listing have seen the same
//     version of its data, no writer is behind the node, and the connection is up. No reader joins
//     a grant that is lost, deleted or over.
//  7. A handoff passes on no lost grant and counts each pass; a canceled receiver passes it on.
//  8. The permit count's watch is looked at before every grant, and is one of those waited for. A
//     waiter that no longer fits leaves with an error.
//  9. The permit count and the queue's directory belong together (Limit.Dir, a czxid).
//  10. After a create whose outcome is unknown come a quorum request, then a search on the same
//     connection, then a create under another id.
//  11. After a reconnect a waiter lists, and reads the permit count.
//  12. The heartbeat is a Multi of checks, never a Sync; for the deadline see package liveness.
//
// # Fairness and wake-ups
//
// A waiter watches the nearest allowed+1 blockers and no others (rule), so a release wakes the
// waiters that may go, and no herd. No waiter is overtaken by a later one that it conflicts with,
// except where the program asks for it: readers that share a node, and rwlock.WithHandoff.
//
// # Shortcuts
//
// Most grants need no listing. shortcut.go has all of these, dirview.go what readers know. They
// save requests and end in the same recheck: without them the recipe above is complete.
//
// # The watch on the own nodes
//
// A waiter watches its own nodes if an event may grant them without a listing (invariant 1); the
// waiter behind, if it is of this process, uses the same watch. A holder that asks for its State
// has them watched, to be told of a deletion before the deadline; one that asks for requests to
// release has the first of them read and watched (request.go). Holders that share a node, or hand
// it on, look at a watch before each join or pass (Grant.Exists): none of them deletes the node,
// and so would find out that it is gone.
//
// # Locks
//
// Lock order, over all packages:
//
//	rwlock handoff.mu, readSharer.mu; reentrant Mutex.mu; leader Election.mu
//	hold.State.telling: of a grant; of the holds on it; of a Joint's other grants, which it ends
//	Grant.mu
//	hold.State.mu
//	localNodes.mu, localNode.mu, HoldEvents.mu, zkclient's monitor and watches: nothing below them
//	wire: packetConn.sending, packetConn.mu, client.mu, liveness Link.mu
//
// Asking a hold or a grant whether it lives (Err, State.Look) may end it, and so runs its hooks,
// also under a recipe's mutex. So a hook of the phases CleanUp and Observers that wants such a
// mutex runs on a goroutine of its own. No mutex is held while a request is waited for.
package queue
