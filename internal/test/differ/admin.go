package differ

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zklocks/zklocks/internal/jute"
)

// SuperDigest is the digest of the superuser, to whom no ACL applies, which the server must accept:
// it removes nodes that a sequence has locked. The property is
// zookeeper.DigestAuthenticationProvider.superDigest.
var SuperDigest = "super:" + digest("super")[len("super:"):]

// admin is the test's own connection.
type admin struct {
	*wire
	target *Target
}

func (t *Target) admin() (admin, error) {
	if t.keeper.wire != nil {
		return t.keeper, nil
	}
	conn, err := t.Dial()
	if err != nil {
		return admin{}, err
	}
	a := admin{newWire(conn), t}
	g, err := a.handshake(0, defaultTimeout, 0, make([]byte, 16), false)
	if err == nil && g.session == 0 {
		err = errors.New("no session was granted")
	}
	if err == nil {
		_, err = a.ask(jute.XidAuth, jute.OpAuth, encodeAuth(nil, Step{Scheme: "digest", Auth: "super:super"}, nil))
	}
	if err != nil {
		_ = conn.Close()
		return admin{}, err
	}
	t.keeper = a
	return a, nil
}

// Close closes the test's own connection. The target can be used again.
func (t *Target) Close() {
	if t.keeper.wire != nil {
		// Its session must not expire during another sequence.
		_, _ = t.keeper.ask(0, jute.OpCloseSession, nil)
		_ = t.keeper.conn.Close()
		t.keeper = admin{}
	}
}

// answer is a reply with an undecoded body.
type answer struct {
	zxid int64
	code int32
	body *jute.Decoder
}

func (a admin) ask(xid, code int32, body []byte) (answer, error) {
	answers, err := a.askAll([][]byte{body}, xid, code)
	if err != nil {
		return answer{}, err
	}
	return answers[0], nil
}

// askAll sends requests of one kind in one write. They may have the same xid: replies come in
// order.
func (a admin) askAll(bodies [][]byte, xid, code int32) ([]answer, error) {
	var packets []byte
	for _, body := range bodies {
		header := jute.AppendInt32(jute.AppendInt32(nil, xid), code)
		packets = append(packets, jute.Frame(append(header, body...))...)
	}
	if err := a.send(packets); err != nil {
		return nil, err
	}
	answers := make([]answer, 0, len(bodies))
	for len(answers) < len(bodies) {
		packet, err := a.receive(patience)
		if err != nil {
			return nil, fmt.Errorf("request %d of the test itself: %w", code, err)
		}
		d := &jute.Decoder{Rest: packet}
		if d.Int32() == jute.XidEvent {
			continue // the end of a session also fires its own watches
		}
		answers = append(answers, answer{d.Int64(), d.Int32(), d})
	}
	return answers, nil
}

// zxid returns the server's last zxid, or 0 if the server does not return it.
func (a admin) zxid() int64 {
	answer, err := a.ask(jute.XidPing, jute.OpPing, nil)
	if err != nil {
		return 0
	}
	return answer.zxid
}

// unwatched returns the body of a read without a watch.
func unwatched(path string) []byte { return jute.AppendBool(jute.AppendText(nil, path), false) }

// has reports whether the node exists. A read takes no zxid.
func (a admin) has(path string) bool {
	answer, err := a.ask(5, jute.OpExists, unwatched(path))
	return err == nil && answer.code == 0
}

// prepare creates the sequence's root.
func (r *run) prepare(a admin) error {
	root := jute.AppendBytes(jute.AppendText(nil, r.root), []byte("root"))
	created, err := a.ask(1, jute.OpCreate, jute.AppendInt32(encodeACL(Step{}, root), jute.FlagPersistent))
	if err != nil {
		return err
	}
	if created.code != 0 {
		return fmt.Errorf("the root of the sequence: error %d", created.code)
	}
	// From here on zxids in replies are compared; zxids of earlier sequences are smaller.
	r.base, r.floor = created.zxid, created.zxid-1
	top, err := a.ask(2, jute.OpExists, unwatched("/"))
	if err != nil || top.code != 0 {
		return fmt.Errorf("stat of /: error %d, %w", top.code, err)
	}
	d := top.body
	d.Take(4*8 + 4)
	r.top.cversion = d.Int32()
	d.Take(4 + 8 + 4)
	r.top.children = d.Int32()
	return d.Err()
}

// cleanUp closes all sessions and removes the root: nothing of a sequence may affect the next.
func (r *run) cleanUp(a admin) error {
	ended := map[int]bool{}
	for i, c := range r.conns {
		// If the connection was refused it may have no session: then the session still exists.
		if c.wire != nil && !c.refused && !ended[c.session] {
			answer, err := admin{c.wire, r.target}.ask(1, jute.OpCloseSession, nil)
			ended[c.session] = err == nil && answer.code == 0
		}
		r.cut(i)
	}
	for i, s := range r.sessions {
		if !ended[i+1] {
			if err := r.end(s); err != nil {
				return err
			}
		}
	}
	return a.remove(r.root)
}

// end closes a session. If it was closed before, the server refuses the handshake.
func (r *run) end(s session) error {
	conn, err := r.target.Dial()
	if err != nil {
		return err
	}
	a := admin{newWire(conn), r.target}
	defer conn.Close()
	g, err := a.handshake(0, defaultTimeout, s.id, s.password, false)
	if err != nil || g.session == 0 {
		return err
	}
	_, err = a.ask(1, jute.OpCloseSession, nil)
	return err
}

// remove deletes a tree, level by level.
func (a admin) remove(root string) error {
	var all []string
	for level := []string{root}; len(level) > 0; {
		all = append(all, level...)
		bodies := make([][]byte, len(level))
		for i, path := range level {
			bodies[i] = unwatched(path)
		}
		answers, err := a.askAll(bodies, 3, jute.OpGetChildren)
		if err != nil {
			return err
		}
		var next []string
		for i, answer := range answers {
			for _, name := range answer.body.Texts() {
				next = append(next, level[i]+"/"+name)
			}
		}
		level = next
	}
	slices.Reverse(all)
	bodies := make([][]byte, len(all))
	for i, path := range all {
		bodies[i] = jute.AppendInt32(jute.AppendText(nil, path), -1)
	}
	answers, err := a.askAll(bodies, 4, jute.OpDelete)
	if err != nil {
		return err
	}
	for i, answer := range answers {
		// The sequence may have deleted the root, and the server deletes containers.
		if answer.code != 0 && answer.code != jute.CodeNoNode {
			return fmt.Errorf("delete %s: error %d", all[i], answer.code)
		}
	}
	return nil
}
