package zkclient

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// Claim describes ephemeral sequential nodes to create next to each other in a directory.
type Claim struct {
	Dir   string
	Kind  znode.Kind
	Nodes int
	Data  []byte
	ACL   []zk.ACL
	// Make are the directories to create before the nodes, in the same transaction: those above Dir
	// that are missing, the highest first, and Dir.
	Make []*zk.CreateRequest
	// Touch writes the directory's data in the same transaction: it has none after that. The reply
	// then has the number of children and the zxid of the transaction, and data watches on the
	// directory fire.
	Touch bool
	// Check, if not nil, must hold, or the transaction fails.
	Check *zk.CheckVersionRequest
}

// Claimed is the result of a Claim.
type Claimed struct {
	Nodes []znode.Node // in the order of their sequence numbers
	// Dir is the directory right after the transaction. It is nil if the claim did not touch it or
	// the reply was lost.
	Dir *zk.Stat
	// Zxid is the zxid of the transaction, which is the czxid of the nodes. It is 0 if the reply
	// was lost.
	Zxid int64
}

// A Step is an operation of a transaction that creates the nodes of several claims.
type Step struct {
	Claim int // the index of the claim
	Does  Act
}

// An Act is the kind of a step: it creates a node, or it is the check or the touch of its claim, or
// makes a directory.
type Act int

const (
	Creates Act = iota
	Checks
	Touches
	Makes
)

var errLocal = errors.New("the server takes the session for expired where it is to own a node, and for alive where not: " +
	"it seems to have localSessionsEnabled without localSessionsUpgradingEnabled")

// Claim creates the nodes of all claims, in different directories, in one transaction of the given
// session: all of them or none. Their names have an id that is chosen before the create. So Claim
// can search for the nodes if the reply is lost (Curator's withProtection). Before the search it
// sends a barrier, because the server of the current connection may not have applied the create
// yet.
//
// Claim returns the server's refusal and the step that it refused (zk.ErrNoNode: the directory, or
// the parent of one that is made, does not exist; zk.ErrNodeExists: a directory of Make exists;
// zk.ErrBadVersion: Check failed), an *Unfound with the claim, ErrOver, ErrClosed, or
// ctx's error. It returns at once when ctx is canceled. Then a background goroutine deletes the nodes that an unanswered create has created.
func (c *Client) Claim(ctx context.Context, session int64, claims ...Claim) (made []Claimed, refusedAt Step, err error) {
	for a := c.attempt(ctx, session, "create"); ; {
		if err := a.next(); err != nil {
			return nil, Step{}, err
		}
		try := newClaimTry(c, session, claims)
		call := c.conn.Send(session, try.request())
		reply, err := call.Wait(ctx)
		switch a.outcome(err) {
		case done:
			return try.read(reply), Step{}, nil
		case refused:
			if try.makes {
				err = asContainer(err)
			}
			if reply.Failed == NotDone { // the server has refused all
				return nil, Step{}, err
			}
			return nil, try.steps[reply.Failed], err
		case unsent:
			if err == zk.ErrSessionExpired && c.Barrier(ctx, session) == nil {
				return nil, Step{}, errLocal
			}
		case unknown:
			if err := Ended(ctx); err != nil {
				go try.cleanUp(call)
				return nil, Step{}, a.explain(err)
			}
			found, complete, err := try.search(ctx)
			var unfound *Unfound
			switch {
			case errors.As(err, &unfound):
				try.removeOrphans(found)
				c.ifRefused(session, "list", "", err, firstWait, try.cleanUpFound)
				return nil, Step{Claim: unfound.claim}, err
			case err != nil:
				go try.cleanUpFound(firstWait)
				return nil, Step{}, err
			case complete:
				// Dir and Zxid are unknown: the waiter lists the queue and reads its token.
				return found, Step{}, nil
			}
			// Another client has deleted some of the nodes. A claim is all or nothing.
			try.removeOrphans(found)
		}
	}
}

// A claimTry is one transaction that creates the nodes of all claims. Each try has its own id, so a
// search finds the nodes of one try only.
type claimTry struct {
	client  *Client
	session int64
	claims  []Claim
	id      string
	ops     []any
	steps   []Step    // what each of ops is
	makes   bool      // directories, too
	lost    time.Time // when a search first found none of its nodes
}

func newClaimTry(c *Client, session int64, claims []Claim) *claimTry {
	t := &claimTry{client: c, session: session, claims: claims, id: znode.NewID()}
	making := make(map[string]bool)
	for i, claim := range claims {
		add := func(does Act, op any) { t.ops, t.steps = append(t.ops, op), append(t.steps, Step{i, does}) }
		if claim.Check != nil {
			add(Checks, claim.Check)
		}
		for _, dir := range claim.Make {
			if !making[dir.Path] { // claims may share parents
				making[dir.Path], t.makes = true, true
				add(Makes, dir)
			}
		}
		for range claim.Nodes {
			add(Creates, &zk.CreateRequest{
				Path:  claim.path(t.id),
				Data:  claim.Data,
				Acl:   claim.ACL,
				Flags: zk.FlagEphemeral | zk.FlagSequence,
			})
		}
		if claim.Touch {
			add(Touches, &zk.SetDataRequest{Path: claim.Dir, Version: -1})
		}
	}
	return t
}

// removeOrphans starts to delete nodes that no caller owns.
func (t *claimTry) removeOrphans(made []Claimed) {
	for i, claim := range t.claims {
		t.client.Remove(t.session, Removal{Dir: claim.Dir, Nodes: made[i].Nodes})
	}
}

// request returns the try's request. A single create is cheaper for a server than a Multi with one
// create.
func (t *claimTry) request() wire.Request {
	if len(t.ops) > 1 {
		return wire.Multi(t.ops...)
	}
	claim := t.claims[0]
	return wire.Create(claim.path(t.id), claim.Data, zk.FlagEphemeral|zk.FlagSequence, claim.ACL)
}

// path returns the path of a node without the sequence number, which the server appends.
func (claim Claim) path(id string) string { return claim.Dir + "/" + znode.Prefix(id, claim.Kind) }

// Size returns the approximate number of bytes of the request.
func (claim Claim) Size() int {
	const name = 64 // id and kind
	node := opSize + len(claim.Dir) + name + len(claim.Data) + aclSize(claim.ACL)
	if claim.Nodes > MaxRequest/node {
		return MaxRequest + 1 // the product may be more than an int
	}
	// With the touch, and a directory to make.
	size := claim.Nodes*node + 2*(opSize+len(claim.Dir)) + aclSize(claim.ACL)
	if claim.Check != nil {
		size += opSize + len(claim.Check.Path)
	}
	return size
}

// read returns what the reply to the try's request says.
func (t *claimTry) read(reply wire.Reply) []Claimed {
	made := make([]Claimed, len(t.claims))
	for i := range made {
		made[i].Zxid = reply.Zxid
	}
	results := reply.Results
	if len(t.ops) == 1 {
		results = []zk.MultiResponse{{String: reply.Path}}
	}
	for i, r := range results[:min(len(results), len(t.steps))] {
		switch of := t.steps[i].Claim; t.steps[i].Does {
		case Creates:
			made[of].Nodes = append(made[of].Nodes, t.claims[of].node(r.String[strings.LastIndexByte(r.String, '/')+1:]))
		case Touches:
			made[of].Dir = r.Stat
		}
	}
	return made
}

// node parses the name of a created node.
func (claim Claim) node(name string) znode.Node {
	n, ok := znode.Parse(name, claim.Kind)
	if !ok {
		// The server has appended something other than a number of ten digits. The node is ours and
		// must be deleted; -1 makes it unusable.
		return znode.Node{Name: name, Kind: claim.Kind, Seq: -1}
	}
	return n
}

// cleanUp waits for the reply to a try whose caller has returned, and deletes the nodes that the
// try has created.
func (t *claimTry) cleanUp(call *wire.Call) {
	reply, err := call.Wait(context.Background())
	switch outcomeOf(err) {
	case done:
		t.removeOrphans(t.read(reply))
	case unknown:
		t.cleanUpFound(firstWait)
	}
}

// cleanUpFound searches until a server answers, and deletes the nodes that it finds. If the server
// refuses the search, it searches again after a pause.
func (t *claimTry) cleanUpFound(pause time.Duration) {
	found, _, err := t.search(context.Background())
	if found != nil {
		t.removeOrphans(found)
	}
	t.client.ifRefused(t.session, "list", "", err, pause, t.cleanUpFound)
}

// search returns the nodes with the try's id, or ErrOver if the session is over and the nodes with
// it. One server must answer both the barrier and the listings, because the barrier brings only
// that server up to date. complete means that all nodes were found. With an *Unfound, found has the
// nodes in the directories that the server has listed.
//
// A node that search does not find is not created later, as long as the connection lasts. With its
// handshake the session has moved to this server, and since then the leader refuses requests that
// another server forwards for the session. If the server is the same, it closed the previous
// connection before it answered the handshake, and it executes requests in the order in which it
// reads them.
//
// The server that has read the create may have no time to forward it until the session has moved to
// another server and has come back. Then the leader executes it, before the first request of the
// new connection. So for a while each new connection of the session searches again.
func (t *claimTry) search(ctx context.Context) (found []Claimed, complete bool, err error) {
	c := t.client
	for {
		before := c.Epoch()
		if err := c.Barrier(ctx, t.session); err != nil {
			return nil, false, err
		}
		found, complete, err := t.list(ctx)
		var unfound *Unfound
		switch {
		case err != nil && !errors.As(err, &unfound):
			return nil, false, err
		case c.Epoch() == before:
			if err == nil && !slices.ContainsFunc(found, func(made Claimed) bool { return len(made.Nodes) > 0 }) {
				if t.lost.IsZero() {
					t.lost = time.Now()
				}
				s := &stray{epoch: before, again: func() { t.cleanUpFound(firstWait) }}
				c.keepStray(s)
				time.AfterFunc(time.Until(t.lost.Add(forgotten)), func() { c.strays.Delete(s) })
			}
			return found, complete, err
		}
	}
}

// forgotten is how long a create is searched for whose nodes were not found. A member that forwards
// nothing for so long is dropped by its leader (syncLimit, by default 10 s), and drops its
// requests.
const forgotten = time.Minute

// Unfound is the server's refusal to list a directory in which Claim searches for nodes after a
// lost reply. If there are nodes in such a directory, they remain until the server lists it. If the
// server refuses several directories, Unfound has the first.
type Unfound struct {
	Refusal error
	claim   int // the index of the claim
}

func (u *Unfound) Error() string { return u.Refusal.Error() }
func (u *Unfound) Unwrap() error { return u.Refusal }

// list returns the nodes with the try's id. If the server refuses a listing, it returns an
// *Unfound, with the nodes in the other directories.
func (t *claimTry) list(ctx context.Context) (found []Claimed, complete bool, err error) {
	found, complete = make([]Claimed, len(t.claims)), true
	var unfound error
	for i, claim := range t.claims {
		children, _, err := t.client.Children(ctx, t.session, claim.Dir)
		switch {
		case err == nil, err == zk.ErrNoNode:
		case outcomeOf(err) == refused:
			if unfound == nil {
				unfound = &Unfound{err, i}
			}
		default:
			return nil, false, err
		}
		nodes := found[i].Nodes
		for _, name := range children {
			if strings.HasPrefix(name, znode.Prefix(t.id, claim.Kind)) {
				nodes = append(nodes, claim.node(name))
			}
		}
		slices.SortFunc(nodes, func(a, b znode.Node) int { return int(a.Seq - b.Seq) })
		found[i].Nodes = nodes
		complete = complete && len(nodes) == claim.Nodes
	}
	return found, complete, unfound
}
