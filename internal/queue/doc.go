// Package queue is the core of every recipe: a directory in ZooKeeper is a queue of ephemeral
// sequential nodes, and this package waits in it, holds, and leaves. It follows the ZooKeeper
// recipes ("Locks", "Shared Locks"), Curator's LockInternals and InterProcessSemaphoreV2.
//
// # The recipe
//
// A request has one node, or several with consecutive numbers. Its blockers are the nodes that its
// mode waits for (conflict.go), ahead of its first node. It is granted when there are at most as
// many blockers as the recipe allows: none for a lock; for a semaphore, the number of permits less
// the permits that it wants. acquire.go has these steps on one page:
//
//  1. Create the nodes, exactly once, also if replies are lost (zkclient.Claim). The transaction
//     makes the directory, too, and those above it, if they are missing.
//  2. List the queue.
//  3. Compare: how many blockers are ahead? If few enough, go to step 5.
//  4. Watch all blockers, or only the nearest if there are many (rule). If deletions of blockers
//     may grant the nodes, watch these, too. Wait for events, and strike out the blockers that are
//     deleted. If few enough are left, go to step 5. If the watched blockers do not tell when that
//     will be, or anything else happens, go to step 2.
//  5. Recheck, then hold.
//
// One transaction creates the nodes of several requests, each in another directory, that are
// granted together (together.go). A waiter whose nodes are gone starts over with step 1, at the
// tail. If ctx ends, the waiter deletes its nodes.
//
// A Grant is what is granted: nodes in one queue or in several. Each caller has a Hold on it. The
// callers of one lock value may hold one Grant together, or one after the other: a Tenure is a
// Grant that they share so (tenure.go has its states). A connection, below, is one TCP connection,
// and its number the epoch; Conn is what Connect returns, and outlives it.
//
// # States
//
// A waiter, and the grant that it becomes:
//
//	       create                 clear, recheck              last hold released
//	(none) ------> waiting ------------------------> granted -------------------> released
//	   ^            |   |                               |
//	   |  nodes gone|   | ctx ends, an error            | deadline passed, node deleted,
//	   +------------+   +------> left                   +-- session over, Conn closed --> lost
//
// The process that created the nodes deletes them: waiters.leave does it for a waiter,
// Grant.GiveUp for a released grant, and a goroutine of Grant.CleanUp for a lost grant. For a
// grant they first wait until a downgrade under way has ended (Grant.stable). Each repeats the
// request until the nodes are gone, the Conn is closed, or the session is over. A caller that waits
// for that returns when the session must be considered lost (zkclient.Lease.Finish). The server
// deletes the nodes of a session that is over. If it refuses a request, for lack of a right, the
// request is repeated until then, after pauses (zkclient/stray.go).
//
// # Invariants
//
// In brackets is a bug of internal/test/mutants that breaks the invariant, with the test that finds
// it. The library checks some of the invariants itself, see bug: a grant that rests on a broken one
// ends as lost. A comment "//invariant N:" states a condition, which the copy of the library that
// `make sim` runs checks there.
//
//  1. Before every grant there is evidence that the own nodes exist, no older than the event that
//     grants: the listing, the reply to the create, or a watch that has not fired.
//     [own-node-not-looked-at]
//  2. A watch belongs to one session and to one connection. An event of another grants nothing.
//     [session-not-looked-at]
//  3. zk.EventNotWatching is not a deletion. [not-watching-taken-for-a-deletion]
//  4. A process that declares a grant lost deletes its nodes: after the holders were notified, in
//     the same session, by their exact paths. If the session is over or the Conn is closed, the
//     server deletes them. [node-of-a-lost-hold-left]
//  5. A writer removes a blocker that was a write node only if a watch has reported the deletion. A
//     missing write node may have been downgraded: a read node stands in its place.
//     [downgraded-writer-struck-out]
//  6. Readers rely on a view: a listing, and a watch on the directory that has seen the same version
//     of its data, on the present connection (dirview.go). A reader joins a node, queued or granted,
//     only if the view shows no writer behind the node. When readers have joined by one view for
//     FirstRecheck, one asks the server, which may have withheld a writer's event. Readers that come
//     before the first listing share the wait for it. To join a granted node, the grant must not
//     have ended, and the node must be known to exist, which may take a request (Tenure.may and
//     ask). A reader is granted without a listing only if its create has checked the
//     version of the view, in the same directory (view.sameDir). [joined-although-a-writer-waits]
//  7. A holder passes on no lost grant, and counts each pass without evidence that no other client
//     waits; a canceled receiver passes the grant on (Callers.pass). [lost-lock-handed-on]
//  8. The watch on the permit count is checked before every grant, and wakes the waiter. A waiter
//     that no longer fits leaves with an error. [count-not-looked-at]
//  9. The permit count and the queue's directory belong together (Limit.Dir, a czxid).
//     [count-and-directory-do-not-match]
//  10. After a create whose outcome is unknown come a quorum request, then a search on the same
//     connection (zkclient/claim.go). Unless the search finds all the nodes, the nodes that it
//     finds are deleted, and others are created under another id. If it finds none, each new
//     connection of the session searches again, for a minute (zkclient/stray.go). If the server
//     refuses the search, for lack of READ, the acquire fails with zk.ErrNoAuth, and the search is
//     repeated as long as the session lives (zkclient.Unfound). [no-search-for-a-lost-create]
//  11. After a reconnect a waiter lists, and reads the permit count.
//     [event-from-before-a-reconnect-grants]
//  12. The heartbeat is a Multi of checks, never a Sync; for the deadline see wire/deadline.go.
//     [heartbeat-by-a-sync]
//  13. A caller enters an idle grant only if the grant has not ended, and if a watch on the present
//     connection, which has not fired, shows that its node exists and that no other client waits:
//     for readers as in invariant 6; for others a watch on the children of the directory, which was
//     set while the node was the only child (Tenure.may). [node-of-another-taken-for-the-own]
//  14. A writer of an rwlock with its own names announces itself: the transaction that creates its
//     node writes the directory's data (announced, Claim.Touch). Always, whatever the data are.
//     [writer-not-announced]
//
// # A lost connection
//
// The watches of waiters end with an event that says nothing about their nodes (invariant 3). So
// each waiter goes to step 2, and its listing waits for a connection. In the same session it keeps
// its nodes and its place. In a new session its nodes are gone with the old one (zkclient.ErrOver),
// and it starts over. A grant remains, and may be handed on, until its deadline passes, or the
// server says that the session is over.
//
// # Idle grants
//
// With MaxIdle a Tenure may keep its grant when its last hold ends (Callers.keep), and Tenure.guard
// then runs. Tenure.endIdle gives up a grant without a hold. It is called:
//
//   - by Callers.want, when guard has returned: another client waits, or has asked for the lock, no
//     caller has entered for MaxIdle, or the grant is lost;
//   - by Callers.EndIdle, for a caller of the process that would queue behind the grant;
//   - by Callers.beginLocked, when another grant takes its place.
//
// If the grant is held then, nobody enters any more, and the last holder gives it up (Tenure.Leave).
//
// # Fairness and wake-ups
//
// The release of a writer wakes the writer behind it, or all the readers behind it, whose turn it
// is. The release of a reader wakes the writer right behind it. The release of a permit wakes at
// most twice as many waiters as there are permits; each counts, without a request, and lists again
// once, when its turn is near (rule).
//
// No waiter is overtaken by a later waiter with which it conflicts, except in two cases. Readers of
// one value join its node, queued or granted, until the announcement of a queued writer reaches
// their process, or their listing is too old (invariant 6). With rwlock.WithHandoff writers of one
// value pass the lock on a limited number of times, and with WithMaxIdle any number of times until
// the event of another waiter reaches their process (invariant 13).
//
// # Files
//
// Each calls only those below it (internal/test/arch):
//
//	callers.go    the callers of one lock value, which share grants
//	tenure.go     a grant that may outlive a hold: who may enter, and what happens at a release
//	keeper.go     whether an idle grant is worth a keep
//	together.go   an acquire of several locks
//	acquire.go    the recipe
//	watch.go      step 4, and the timer of a wait
//	downgrade.go  a write node becomes a read node
//	request.go    requests to release
//	front.go      who leads, for processes that are not candidates
//	fence.go      Guard, Multi and Verify
//	hold.go       what a caller has
//	members.go    the queue as others see it
//	events.go     what observers are notified of
//	grant.go      what is held
//	waiter.go     the nodes of a request, steps 1 and 2, and how a waiter leaves
//	shortcut.go   grants without a listing
//	dirview.go    what readers know of the queue, and whether they may share a node
//	doubt.go      how long a watch is trusted
//	queue.go      the directory, and the configuration
//	identity.go   the data of a node
//	conflict.go   step 3: which nodes wait for which
//
// # The watch on the own nodes
//
// A waiter watches its own nodes if an event may grant them without a listing (invariant 1); an
// acquire of several locks always watches them (waiters.confirm). Grant.WatchNodes has the nodes of
// a grant watched, so that its holders are notified of a deletion before the deadline. The first
// call of Held, Err, Lost or Context on a hold calls it, and a handoff does as soon as a pass is
// due. ReleaseRequested has the first node read and watched (request.go). A holder that is alone
// detects a deletion at the latest by its own delete. Holders that share a node, or hand it on, do
// not delete it. So before each join or pass they check a watch (Grant.KnownToExist), and set it if
// there is none (Grant.Exists).
//
// # Locks
//
// A mutex has a tier, which the comment of its field states: 1 for the recipes, 2 and 3 for holds,
// connections and counts, 4 for the state of a connection. A goroutine that holds a mutex takes
// only mutexes of higher tiers, and waits for no request or event while it holds any. The copy of
// the library that `make sim` runs panics otherwise (internal/test/yields/checks).
//
// To ask a hold or a grant whether it lives (Err, State.Settle) may end it, and so run its hooks:
// always under a mutex of the listeners, and perhaps also under a recipe's. So a hook that needs a
// recipe's mutex runs on a goroutine of its own.
package queue
