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

// Claim describes ephemeral sequential nodes to create next to each other in a directory, all of
// them or none.
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

// Why a node is orphaned.
var (
	errAbandoned = errors.New("the caller had stopped waiting for its create")
	errElsewhere = errors.New("it was created in another session than it was meant for")
	errPartly    = errors.New("others that were created with it are gone")
)

// Claim creates the nodes in the given session. Their names have an id that is chosen before the
// create, so that Claim can find nodes whose reply was lost (Curator's withProtection). Before it
// searches, it sends a barrier: the server that it is connected to now may not have applied the
// create yet.
//
// It returns the server's refusal (zk.ErrNoNode: there is no such directory; zk.ErrBadVersion:
// Check failed), ErrOver, ErrClosed, or ctx's error. It returns ctx's error at once unless ctx is
// Uninterruptible; a background goroutine then deletes the nodes that an unanswered create has
// created.
func (c *Client) Claim(ctx context.Context, session int64, claim Claim) (Claimed, error) {
	retry := c.retry()
	for {
		if err := Ended(ctx); err != nil {
			return Claimed{}, err
		}
		if err := c.connected(ctx); err != nil {
			return Claimed{}, err
		}
		if !c.In(session) {
			return Claimed{}, ErrOver
		}
		// Each try has its own id: whatever becomes of an earlier one is found by that alone.
		id := znode.NewID()
		zxid := c.expect(claim, id)
		sent := time.Now()
		a, late := callCtx(ctx, func() ([]zk.MultiResponse, error) { return c.claim(claim, id) })
		if late != nil {
			zxid()
			go c.cleanUpCreate(claim, id, late)
			return Claimed{}, Ended(ctx)
		}
		header := zxid()
		c.noteQuorumReply(session, sent, a.err, claim.multi())
		switch outcomeOf(a.err) {
		case done:
			made := claim.read(a.value)
			made.Zxid = header
			if made.Dir != nil {
				c.VerifyHeaderZxid(header, made.Dir.Mzxid)
			}
			return c.ours(session, claim.Dir, made)
		case refused:
			return Claimed{}, a.err
		case unknown:
			found, err := c.search(ctx, claim, id)
			if err != nil {
				go c.cleanUpFound(claim, id)
				return Claimed{}, err
			}
			if len(found) == claim.Nodes {
				// Without Dir and Zxid: the waiter lists, and reads its token.
				return c.ours(session, claim.Dir, Claimed{Nodes: found})
			}
			// Another client has deleted some of the nodes. A claim is all or nothing.
			c.removeOrphans(claim.Dir, found, errPartly)
		}
		if err := retry.again(ctx, "create", a.err); err != nil {
			return Claimed{}, err
		}
	}
}

// ours returns made if it was created in the given session. A request that is queued in one session
// may be sent in the next without an error.
func (c *Client) ours(session int64, dir string, made Claimed) (Claimed, error) {
	if c.In(session) {
		return made, nil
	}
	c.removeOrphans(dir, made.Nodes, errElsewhere)
	return Claimed{}, ErrOver
}

func (claim Claim) ops(id string) []any {
	ops := make([]any, 0, claim.Nodes+2)
	if claim.Check != nil {
		ops = append(ops, claim.Check)
	}
	for range claim.Nodes {
		ops = append(ops, &zk.CreateRequest{
			Path:  claim.path(id),
			Data:  claim.Data,
			Acl:   claim.ACL,
			Flags: zk.FlagEphemeral | zk.FlagSequence,
		})
	}
	if claim.Touch {
		ops = append(ops, &zk.SetDataRequest{Path: claim.Dir, Version: -1})
	}
	return ops
}

// multi reports whether the claim needs a transaction of several operations.
func (claim Claim) multi() bool { return claim.Nodes > 1 || claim.Check != nil || claim.Touch }

// claim sends the claim. A single create is cheaper for a server than a Multi with one create.
func (c *Client) claim(claim Claim, id string) ([]zk.MultiResponse, error) {
	if claim.multi() {
		return c.multi(claim.ops(id)...)
	}
	path, err := c.conn.Create(claim.path(id), claim.Data, zk.FlagEphemeral|zk.FlagSequence, claim.ACL)
	return []zk.MultiResponse{{String: path}}, err
}

// path returns the path of a node without the sequence number, which the server appends.
func (claim Claim) path(id string) string { return claim.Dir + "/" + znode.Prefix(id, claim.Kind) }

// expect asks the connection for the zxid of a claim. The caller calls zxid after the reply. If the
// claim touches the directory, the reply has a Stat with the same zxid; then expect is needed only
// until VerifyHeaderZxid has compared the two.
func (c *Client) expect(claim Claim, id string) (zxid func() int64) {
	if claim.Touch && c.headers.Load() != 0 {
		return func() int64 { return 0 }
	}
	pending, forget := c.link.Track(claim.path(id))
	return func() int64 {
		forget()
		return pending.Zxid()
	}
}

// Size returns the approximate number of bytes of the request.
func (claim Claim) Size() int {
	node := len(claim.Dir) + len(claim.Data) + 96 // id, kind and the fields around them
	for _, a := range claim.ACL {
		node += len(a.Scheme) + len(a.ID) + 12
	}
	return claim.Nodes * node
}

func (claim Claim) read(replies []zk.MultiResponse) Claimed {
	var made Claimed
	for _, r := range replies {
		if r.String != "" {
			made.Nodes = append(made.Nodes, claim.node(r.String[strings.LastIndexByte(r.String, '/')+1:]))
		}
		if r.Stat != nil {
			made.Dir = r.Stat
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

// cleanUpCreate waits for the answer to a claim whose caller has given up, and deletes the nodes
// that it has created.
func (c *Client) cleanUpCreate(claim Claim, id string, call <-chan answer[[]zk.MultiResponse]) {
	a := <-call
	switch outcomeOf(a.err) {
	case done:
		c.removeOrphans(claim.Dir, claim.read(a.value).Nodes, errAbandoned)
	case unknown:
		c.cleanUpFound(claim, id)
	}
}

// cleanUpFound searches until a server answers, and deletes the nodes that it finds.
func (c *Client) cleanUpFound(claim Claim, id string) {
	found, err := c.search(context.Background(), claim, id)
	if err == nil {
		c.removeOrphans(claim.Dir, found, errAbandoned)
	}
}

// search lists the nodes of an id. It may be called only after the create has returned. One server
// must answer both the barrier and the listing, because the barrier brings only the server that
// answers it up to date.
func (c *Client) search(ctx context.Context, claim Claim, id string) ([]znode.Node, error) {
	retry := c.retry()
	for {
		before := c.Epoch()
		if _, err := await(ctx, c, "check", func() (any, error) { return c.quorumCheck(c.conn.SessionID(), barrier) }); !proves(err, true) {
			return nil, err
		}
		children, err := await(ctx, c, "list", func() ([]string, error) {
			children, _, err := c.conn.Children(claim.Dir)
			return children, err
		})
		switch {
		case err != nil && outcomeOf(err) != refused:
			return nil, err
		case c.Epoch() != before:
			if err := retry.wait(ctx); err != nil {
				return nil, err
			}
			continue
		case err == zk.ErrNoNode:
			return nil, nil
		case err != nil:
			return nil, err
		}
		var found []znode.Node
		for _, name := range children {
			if strings.HasPrefix(name, znode.Prefix(id, claim.Kind)) {
				found = append(found, claim.node(name))
			}
		}
		slices.SortFunc(found, func(a, b znode.Node) int { return int(a.Seq - b.Seq) })
		return found, nil
	}
}
