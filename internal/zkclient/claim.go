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

// Claim asks for ephemeral sequential nodes that stand side by side in a
// directory, all of them or none.
type Claim struct {
	Dir   string
	Kind  znode.Kind
	Nodes int
	Data  []byte
	ACL   []zk.ACL
	// Touch writes the directory's (empty) data in the same transaction. Its
	// reply tells how many children there are and the transaction's zxid, and
	// whoever watches that data hears of it.
	Touch bool
	// Check, if not nil, must hold for the transaction to happen.
	Check *zk.CheckVersionRequest
}

// Claimed is what a claim has made.
type Claimed struct {
	Nodes []znode.Node // in the order of their numbers
	// Dir is the directory as of the transaction, and nil if it was not
	// touched or the reply was lost.
	Dir *zk.Stat
	// Zxid is that of the transaction as far as the header of the reply tells,
	// and 0 if that is not to be had.
	Zxid int64
}

// How nodes come about that belong to nobody.
var (
	errNobody    = errors.New("nobody waited for its create any more")
	errElsewhere = errors.New("it was created in another session than it was meant for")
	errPartly    = errors.New("others that were created with it are gone")
)

// Claim makes the nodes in the given session. Their names carry an id chosen
// before the create, so that nodes whose reply was lost are found again
// (Curator's withProtection); before that search comes a barrier, for another
// server may be behind the create that it is searched for.
//
// It returns the server's refusal (zk.ErrNoNode: there is no such directory;
// zk.ErrBadVersion: Check failed), ErrOver, ErrClosed, or ctx's error, at once unless it
// is Uninterruptible; whatever an unanswered create has made by then is deleted in the background.
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
				return c.ours(session, claim.Dir, Claimed{Nodes: found})
			}
			// Of some, somebody has deleted the others: less than all is none.
			c.removeOrphans(claim.Dir, found, errPartly)
		}
		if err := retry.again(ctx, "create", a.err); err != nil {
			return Claimed{}, err
		}
	}
}

// ours returns what was made if it was made in the session it was meant for: a
// request that was queued in one session can run in the next without an error.
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

// multi reports whether a claim is a transaction of several operations.
func (claim Claim) multi() bool { return claim.Nodes > 1 || claim.Check != nil || claim.Touch }

// claim sends a claim. A single create that nothing goes along with costs a server
// less than a transaction of one.
func (c *Client) claim(claim Claim, id string) ([]zk.MultiResponse, error) {
	if claim.multi() {
		return c.multi(claim.ops(id)...)
	}
	path, err := c.conn.Create(claim.path(id), claim.Data, zk.FlagEphemeral|zk.FlagSequence, claim.ACL)
	return []zk.MultiResponse{{String: path}}, err
}

// path is that of a node to be made, to which the server appends a number.
func (claim Claim) path(id string) string { return claim.Dir + "/" + znode.Prefix(id, claim.Kind) }

// expect has the connection keep the zxid of a claim, until it is asked for. Where
// the directory is touched, its Stat tells, and whether the two are the same.
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

// Size is about how many bytes the request has.
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

// node reads the name of a node we made.
func (claim Claim) node(name string) znode.Node {
	n, ok := znode.Parse(name, claim.Kind)
	if !ok {
		// The server has appended something that is no number of ten
		// digits. The node is ours and must go; its place is no place.
		return znode.Node{Name: name, Kind: claim.Kind, Seq: -1}
	}
	return n
}

// cleanUpCreate waits for the answer to a claim that nobody waits for any more, and
// deletes what it has made.
func (c *Client) cleanUpCreate(claim Claim, id string, call <-chan answer[[]zk.MultiResponse]) {
	a := <-call
	switch outcomeOf(a.err) {
	case done:
		c.removeOrphans(claim.Dir, claim.read(a.value).Nodes, errNobody)
	case unknown:
		c.cleanUpFound(claim, id)
	}
}

// cleanUpFound looks until there is an answer, and deletes what it finds.
func (c *Client) cleanUpFound(claim Claim, id string) {
	found, err := c.search(context.Background(), claim, id)
	if err == nil {
		c.removeOrphans(claim.Dir, found, errNobody)
	}
}

// search lists the nodes of an id. It may only be called after the create has
// returned. The barrier and the listing must be answered by one server: what
// the barrier has brought up to date is that server and no other.
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
