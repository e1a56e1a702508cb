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
	// Touch writes the directory's data in the same transaction: it has none after that. The reply
	// then has the number of children and the zxid of the transaction, and data watches on the
	// directory fire. Keep checks instead that nobody has written them. Both require that the data
	// have this Version; -1: any.
	Touch, Keep bool
	Version     int32
	// Check, if not nil, must hold, or the transaction fails.
	Check *zk.CheckVersionRequest
}

// Claimed is the result of a Claim.
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

// An Act is the kind of a step: it creates a node, or it is the check or the touch of its claim, or
// keeps the data of its directory.
type Act int

const (
	Creates Act = iota
	Checks
	Touches
	Keeps
)

var errLocal = errors.New("the server takes the session for expired where it is to own a node, and for alive where not: " +
	"it seems to have localSessionsEnabled without localSessionsUpgradingEnabled")

// Claim creates the nodes of all claims, in different directories, in one transaction of the given
// session: all of them or none. Their names have an id that is chosen before the create. So Claim
// can search for the nodes if the reply is lost (Curator's withProtection). Before the search it
// sends a barrier, because the server of the current connection may not have applied the create
// yet.
//
// Claim returns the server's refusal and the step that it refused (zk.ErrNoNode: the directory does
// not exist; zk.ErrBadVersion: Check failed, or the directory's data have another Version), an
// *Unfound with the claim, ErrOver, ErrClosed, or ctx's error. Unless ctx is Uninterruptible, Claim
// returns at once when ctx is canceled. Then a background goroutine deletes the nodes that an
// unanswered create has created.
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
				// Dir and Zxid are unknown: the waiter lists the queue and reads its token.
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

// A claimTry is one transaction that creates the nodes of all claims. Each try has its own id, so a
// search finds the nodes of one try only.
type claimTry struct {
	client *Client
	claims []Claim
	id     string
	ops    []any
	steps  []Step    // what each of ops is
	lost   time.Time // when a search first found none of its nodes
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
			add(Touches, &zk.SetDataRequest{Path: claim.Dir, Version: claim.Version})
		}
		if claim.Keep {
			add(Keeps, &zk.CheckVersionRequest{Path: claim.Dir, Version: claim.Version})
		}
	}
	return t
}

// multi reports whether the try has several operations.
func (t *claimTry) multi() bool { return len(t.ops) > 1 }

// ours returns made if the nodes belong to the given session. The zk client may send a request that
// was queued in one session in the next session, without an error.
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

// expect has the connection record the zxid of the try. The caller calls zxid after the reply. If a
// claim touches its directory, the reply has a Stat with the same zxid. Then the connection records
// zxids only until VerifyHeaderZxid has compared the two.
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

// MaxRequest is below the server's limit of 1 MiB (jute.maxbuffer). On a larger request the server
// closes the connection, which the client cannot tell from a lost connection.
const MaxRequest = 1_000_000

// opSize is at least the size of an operation in a transaction, without its path, data and ACL.
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
	if claim.Touch || claim.Keep {
		size += opSize + len(claim.Dir)
	}
	return size
}

// Size returns the approximate number of bytes of a transaction.
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

// cleanUp waits for the answer to a try whose caller has returned, and deletes the nodes that the
// try has created.
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

// search returns the nodes with the try's id. The create must have returned before. One server must
// answer both the barrier and the listings, because the barrier brings only that server up to date.
// complete means that all nodes were found. With an *Unfound, found has the nodes in the
// directories that the server has listed.
//
// A node that search does not find is not created later, as long as the connection lasts. With its
// handshake the session has moved to this server, and since then the leader refuses requests that
// another server forwards for the session. If the server is the same, it closed the previous
// connection before it answered the handshake, and it executes requests in the order in which it
// reads them. Later the try is a stray.
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
			if err == nil && !slices.ContainsFunc(found, func(made Claimed) bool { return len(made.Nodes) > 0 }) {
				if t.lost.IsZero() {
					t.lost = time.Now()
				}
				c.keepStray(&stray{session: c.conn.Session(), epoch: before, since: t.lost, search: t.cleanUpFound})
			}
			return found, complete, err
		}
		if err := retry.wait(ctx); err != nil {
			return nil, false, err
		}
	}
}

// Unfound is the server's refusal to list a directory in which Claim searches for nodes after a
// lost reply. If there are nodes in such a directory, they remain until their session is over. If
// the server refuses several directories, Unfound has the first.
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
