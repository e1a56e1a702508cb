package zkclient

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// Claim describes ephemeral sequential nodes to create next to each other in a directory.
type Claim struct {
	Dir   string
	Kind  znode.Kind
	Nodes int
	Data  []byte
	ACL   []zk.ACL
	// Touch writes the directory's (empty) data in the same transaction. The reply then has the
	// number of children and the zxid of the transaction, and data watches on the directory fire.
	Touch bool
	// Check, if not nil, must hold, or the transaction fails.
	Check *zk.CheckVersionRequest
}

// Claimed is what has become of a Claim.
type Claimed struct {
	Nodes []znode.Node // in the order of their sequence numbers
	// Dir is the directory right after the transaction. It is nil if the claim did not touch it or
	// the reply was lost.
	Dir *zk.Stat
	// Zxid is the zxid of the transaction, from the header of the reply. It is 0 if that is not
	// available.
	Zxid int64
}

// A Step is an operation of a transaction that creates the nodes of several claims.
type Step struct {
	Claim int // the index of the claim
	Does  Act
}

// Act is what a step does: it is the claim's check, or its touch, or it creates a node.
type Act int

const (
	Creates Act = iota
	Checks
	Touches
)

var errLocal = errors.New("the server takes the session for expired where it is to own a node, and for alive where not: " +
	"it seems to have localSessionsEnabled without localSessionsUpgradingEnabled")

// Claim creates the nodes of all claims, in different directories, in one transaction of the given
// session: all of them or none. Their names have an id that is chosen before the create, so that
// Claim can find nodes whose reply was lost (Curator's withProtection). Before it searches, it
// sends a barrier: the server that it is connected to now may not have applied the create yet.
//
// It returns the server's refusal and what it refused (zk.ErrNoNode: there is no such directory;
// zk.ErrBadVersion: Check failed), an *Unfound with the claim, ErrOver, ErrClosed, or ctx's error.
// It returns ctx's error at once unless ctx is Uninterruptible; a background goroutine then deletes
// the nodes that an unanswered create has created.
func (c *Client) Claim(ctx context.Context, session int64, claims ...Claim) (made []Claimed, refusedAt Step, err error) {
	for retry := c.retry(); ; {
		if err := retry.ready(ctx, session); err != nil {
			return nil, Step{}, err
		}
		try := newClaimTry(c, claims)
		zxid := try.expect()
		sent := time.Now()
		a, late := callCtx(ctx, try.send)
		if late != nil {
			zxid()
			go try.cleanUp(late)
			return nil, Step{}, c.Unreached(ctx, Ended(ctx), sent)
		}
		header := zxid()
		switch outcomeOf(a.err) {
		case done:
			made := try.read(a.value.replies)
			for i := range made {
				made[i].Zxid = header
				if made[i].Dir != nil {
					c.VerifyHeaderZxid(header, made[i].Dir.Mzxid)
				}
			}
			return try.ours(session, made)
		case refused:
			if a.value.failed == NotDone { // the server has refused all
				return nil, Step{}, a.err
			}
			return nil, try.steps[a.value.failed], a.err
		case unsent:
			if errors.Is(a.err, zk.ErrSessionExpired) && c.Barrier(ctx, session) == nil {
				return nil, Step{}, errLocal
			}
		case unknown:
			found, complete, err := try.search(ctx)
			var unfound *Unfound
			switch {
			case errors.As(err, &unfound):
				try.removeOrphans(found)
				return nil, Step{Claim: unfound.claim}, err // a second search would be refused, too
			case err != nil:
				go try.cleanUpFound()
				return nil, Step{}, err
			}
			if complete {
				// Without Dir and Zxid: the waiter lists, and reads its token.
				return try.ours(session, found)
			}
			// Another client has deleted some of the nodes. A claim is all or nothing.
			try.removeOrphans(found)
		}
		if err := retry.again(ctx, "create", a.err); err != nil {
			return nil, Step{}, err
		}
	}
}

// A claimTry is one transaction that creates the nodes of all claims. Each try has its own id:
// whatever becomes of an earlier try is found by that alone.
type claimTry struct {
	client *Client
	claims []Claim
	id     string
	ops    []any
	steps  []Step // what each of ops is
}

func newClaimTry(c *Client, claims []Claim) *claimTry {
	t := &claimTry{client: c, claims: claims, id: znode.NewID()}
	for i, claim := range claims {
		add := func(does Act, op any) { t.ops, t.steps = append(t.ops, op), append(t.steps, Step{i, does}) }
		if claim.Check != nil {
			add(Checks, claim.Check)
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

// multi reports whether it takes a transaction of several operations.
func (t *claimTry) multi() bool { return len(t.ops) > 1 }

// ours returns made if it was created in the given session. A request that is queued in one session
// may be sent in the next without an error.
func (t *claimTry) ours(session int64, made []Claimed) ([]Claimed, Step, error) {
	if t.client.In(session) {
		return made, Step{}, nil
	}
	t.removeOrphans(made)
	return nil, Step{}, ErrOver
}

// removeOrphans starts to delete nodes that no caller owns.
func (t *claimTry) removeOrphans(made []Claimed) {
	for i, claim := range t.claims {
		t.client.Remove(AnySession, Removal{Dir: claim.Dir, Nodes: made[i].Nodes})
	}
}

// send sends the try. A single create is cheaper for a server than a Multi with one create.
func (t *claimTry) send() (results, error) {
	if t.multi() {
		return t.client.multi(t.ops...)
	}
	claim := t.claims[0]
	path, err := t.client.conn.Create(claim.path(t.id), claim.Data, zk.FlagEphemeral|zk.FlagSequence, claim.ACL)
	return results{replies: []zk.MultiResponse{{String: path}}}, err
}

// path returns the path of a node without the sequence number, which the server appends.
func (claim Claim) path(id string) string { return claim.Dir + "/" + znode.Prefix(id, claim.Kind) }

// expect asks the connection for the zxid of the try. The caller calls zxid after the reply. If a
// claim touches its directory, the reply has a Stat with the same zxid; then expect is needed only
// until VerifyHeaderZxid has compared the two.
func (t *claimTry) expect() (zxid func() int64) {
	touches := slices.ContainsFunc(t.claims, func(claim Claim) bool { return claim.Touch })
	if touches && t.client.headers.Load() != 0 {
		return func() int64 { return 0 }
	}
	header, forget := t.client.conn.Track(t.claims[0].path(t.id))
	return func() int64 {
		forget()
		return header.Load()
	}
}

// MaxRequest is below the server's limit of 1 MiB (jute.maxbuffer). The server answers a larger
// request by closing the connection, which looks like any other lost one.
const MaxRequest = 1_000_000

// opSize is at least what an operation has in a transaction beside its path, its data and its ACL.
const opSize = 32

// Size returns the approximate number of bytes of the request.
func (claim Claim) Size() int {
	const name = 64 // id and kind
	node := opSize + len(claim.Dir) + name + len(claim.Data) + aclSize(claim.ACL)
	if claim.Nodes > MaxRequest/node {
		return MaxRequest + 1 // the product may be more than an int
	}
	size := claim.Nodes * node
	if claim.Check != nil {
		size += opSize + len(claim.Check.Path)
	}
	if claim.Touch {
		size += opSize + len(claim.Dir)
	}
	return size
}

// Size returns about as many bytes as a transaction has.
func Size(ops []any) (size int) {
	for _, op := range ops {
		size += opSize
		switch op := op.(type) {
		case *zk.CreateRequest:
			size += len(op.Path) + len(op.Data) + aclSize(op.Acl)
		case *zk.SetDataRequest:
			size += len(op.Path) + len(op.Data)
		case *zk.DeleteRequest:
			size += len(op.Path)
		case *zk.CheckVersionRequest:
			size += len(op.Path)
		}
	}
	return size
}

func (t *claimTry) read(replies []zk.MultiResponse) []Claimed {
	made := make([]Claimed, len(t.claims))
	for i, r := range replies[:min(len(replies), len(t.steps))] {
		of := t.steps[i].Claim
		if r.String != "" {
			made[of].Nodes = append(made[of].Nodes, t.claims[of].node(r.String[strings.LastIndexByte(r.String, '/')+1:]))
		}
		if r.Stat != nil {
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

// cleanUp waits for the answer to a try whose caller has given up, and deletes the nodes that it
// has created.
func (t *claimTry) cleanUp(call <-chan answer[results]) {
	a := <-call
	switch outcomeOf(a.err) {
	case done:
		t.removeOrphans(t.read(a.value.replies))
	case unknown:
		t.cleanUpFound()
	}
}

// cleanUpFound searches until a server answers, and deletes the nodes that it finds.
func (t *claimTry) cleanUpFound() {
	if found, _, _ := t.search(context.Background()); found != nil {
		t.removeOrphans(found)
	}
}

// search lists the nodes of the try's id. It may be called only after the create has returned. One
// server must answer both the barrier and the listings, because the barrier brings only the server
// that answers it up to date. complete says that all nodes were found. With an *Unfound it returns
// those whose directories could be listed.
//
// What it does not find is not created later. The handshake of this connection came first, and with
// it the session moved: since then the leader refuses what another server forwards for the session.
// A single server ended the former connection before it answered the handshake, and does in order
// what it has read.
func (t *claimTry) search(ctx context.Context) (found []Claimed, complete bool, err error) {
	c := t.client
	retry := c.retry()
	for {
		before := c.Epoch()
		if _, err := await(ctx, c, "check", func() (results, error) { return c.multi(barrier) }); !proves(err) {
			return nil, false, err
		}
		found, complete, err := t.list(ctx)
		var unfound *Unfound
		switch {
		case err != nil && !errors.As(err, &unfound):
			return nil, false, err
		case c.Epoch() == before:
			return found, complete, err
		}
		if err := retry.wait(ctx); err != nil {
			return nil, false, err
		}
	}
}

// Unfound is the server's refusal of the listing by which Claim looks for nodes whose reply was
// lost, in the first of their directories that it refuses. If there are any in such a directory,
// they stay until their session is over.
type Unfound struct {
	Refusal error
	claim   int // the index of the claim
}

func (u *Unfound) Error() string { return u.Refusal.Error() }
func (u *Unfound) Unwrap() error { return u.Refusal }

// list lists the nodes of the try's id. The first refusal is an *Unfound, beside what the other
// directories have.
func (t *claimTry) list(ctx context.Context) (found []Claimed, complete bool, err error) {
	found, complete = make([]Claimed, len(t.claims)), true
	var unfound error
	for i, claim := range t.claims {
		children, err := await(ctx, t.client, "list", func() ([]string, error) {
			children, _, err := t.client.conn.Children(claim.Dir)
			return children, err
		})
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
