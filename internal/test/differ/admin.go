package differ

import (
	"errors"
	"fmt"

	"github.com/zklocks/zklocks/internal/jute"
)

// SuperDigest is the digest of the superuser, to whom no ACL applies, which the server must accept:
// it removes nodes that a sequence has locked. The property is
// zookeeper.DigestAuthenticationProvider.superDigest.
var SuperDigest = "super:" + digest("super")[len("super:"):]

// admin is the test's own connection.
type admin struct{ *wire }

func (t *Target) admin() (admin, error) {
	if t.keeper.wire != nil {
		return t.keeper, nil
	}
	conn, err := t.Dial()
	if err != nil {
		return admin{}, err
	}
	a := admin{newWire(conn)}
	g, err := a.handshake(jute.Handshake{Timeout: defaultTimeout, Password: make([]byte, 16)}, false)
	if err == nil && g.Session == 0 {
		err = errors.New("no session was granted")
	}
	if err == nil {
		_, err = a.ask(jute.OpAuth, encodeAuth(nil, Step{Scheme: "digest", Auth: "super:super"}, nil))
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
		_, _ = t.keeper.ask(jute.OpCloseSession, nil)
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

func (a admin) ask(code int32, body []byte) (answer, error) {
	xid := int32(1)
	switch code {
	case jute.OpPing:
		xid = jute.XidPing
	case jute.OpAuth:
		xid = jute.XidAuth
	}
	header := jute.AppendInt32(jute.AppendInt32(nil, xid), code)
	if err := a.send(jute.Frame(append(header, body...))); err != nil {
		return answer{}, err
	}
	for {
		packet, err := a.receive(patience)
		if err != nil {
			return answer{}, fmt.Errorf("request %d of the test itself: %w", code, err)
		}
		d := &jute.Decoder{Rest: packet}
		if d.Int32() != jute.XidEvent { // the end of a session also fires its own watches
			return answer{d.Int64(), d.Int32(), d}, nil
		}
	}
}

// zxid returns the server's last zxid, or 0 if the server does not return it.
func (a admin) zxid() int64 {
	answer, err := a.ask(jute.OpPing, nil)
	if err != nil {
		return 0
	}
	return answer.zxid
}

// unwatched returns the body of a read without a watch.
func unwatched(path string) []byte { return jute.AppendBool(jute.AppendText(nil, path), false) }

// has reports whether the node exists. A read takes no zxid.
func (a admin) has(path string) bool {
	answer, err := a.ask(jute.OpExists, unwatched(path))
	return err == nil && answer.code == 0
}

// prepare creates the sequence's root.
func (r *run) prepare(a admin) error {
	root := jute.AppendBytes(jute.AppendText(nil, r.root), []byte("root"))
	created, err := a.ask(jute.OpCreate, jute.AppendInt32(encodeACL(Step{}, root), jute.FlagPersistent))
	if err == nil && created.code != 0 {
		err = fmt.Errorf("the root of the sequence: error %d", created.code)
	}
	// From here on zxids in replies are compared; zxids of earlier sequences are smaller.
	r.base, r.floor = created.zxid, created.zxid-1
	return err
}

// cleanUp closes all sessions and removes the root: nothing of a sequence may affect the next.
func (r *run) cleanUp(a admin) error {
	for i := range r.conns {
		r.cut(i)
	}
	if r.target.Fresh != nil {
		return nil
	}
	for _, s := range r.sessions {
		if err := r.end(s); err != nil {
			return err
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
	defer conn.Close()
	a := admin{newWire(conn)}
	g, err := a.handshake(jute.Handshake{Timeout: defaultTimeout, Session: s.id, Password: s.password}, false)
	if err != nil || g.Session == 0 {
		return err
	}
	_, err = a.ask(jute.OpCloseSession, nil)
	return err
}

// remove deletes a tree.
func (a admin) remove(path string) error {
	children, err := a.ask(jute.OpGetChildren, unwatched(path))
	if err != nil {
		return err
	}
	for _, name := range children.body.Texts() {
		if err := a.remove(path + "/" + name); err != nil {
			return err
		}
	}
	deleted, err := a.ask(jute.OpDelete, jute.AppendInt32(jute.AppendText(nil, path), -1))
	// The sequence may have deleted the root, and the server deletes containers.
	if err == nil && deleted.code != 0 && deleted.code != jute.CodeNoNode {
		err = fmt.Errorf("delete %s: error %d", path, deleted.code)
	}
	return err
}
