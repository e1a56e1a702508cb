package contract

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
)

var secrets = []scenario{
	{"no error and no message of the log has a secret", secretsKept, 0},
}

// journal is a logger that keeps its messages, and records errors as well.
type journal struct {
	mu     sync.Mutex
	said   []string
	errors int
}

func (j *journal) Printf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.said = append(j.said, fmt.Sprintf(format, args...))
}

// fails records an error, in all ways in which a program might print it.
func (s *scene) fails(j *journal, err error) {
	s.Helper()
	if err == nil {
		s.Error("no error where there should be one")
		return
	}
	j.Printf("%v", err)
	j.Printf("%+v", err)
	j.Printf("%#v", err)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.errors++
}

// forms are the ways in which bytes might get into a text.
func forms(secret []byte) []string {
	return []string{
		string(secret), fmt.Sprintf("%x", secret), strings.Trim(fmt.Sprintf("%q", secret), `"`),
		strings.Trim(fmt.Sprint(secret), "[]"), base64.StdEncoding.EncodeToString(secret),
	}
}

// secretsKept makes every call fail that can fail, and searches all messages and errors.
func secretsKept(s *scene) {
	const password, data = "password-of-ann", "data-of-ann"
	var said journal
	p := s.Venue.Proxy(s, s.Server)
	acl := zk.DigestACL(zk.PermAll, "ann", password)
	mine := []zklocks.Option{zklocks.WithACL(acl), zklocks.WithData([]byte(data))}
	connect := func(password string) *client {
		s.Helper()
		conn, err := s.ConnectWith(s.Ctx, p.Addr(), wire.WithLogger(&said), wire.WithDigestAuth("ann", password))
		s.Must(err)
		s.Cleanup(func() { _ = conn.Close() })
		return s.with(conn, p, mine...)
	}
	short := func(call func(context.Context) error) {
		s.Helper()
		ctx, cancel := context.WithTimeout(s.Ctx, 100*time.Millisecond)
		defer cancel()
		s.fails(&said, call(ctx))
	}
	refused := func(opts ...wire.Option) {
		s.Helper()
		short(func(ctx context.Context) error {
			_, err := s.ConnectWith(ctx, p.Addr(), append(opts, wire.WithLogger(&said))...)
			return err
		})
	}
	c, next, wrong := connect(password), connect(password), connect("guess-at-"+password)
	lock := func(ctx context.Context) error {
		_, err := next.Lock(ctx)
		return err
	}
	passwords := [][]byte{c.conn.Own().Password, next.conn.Own().Password}
	everything := func(l Locker) {
		s.Helper()
		s.every(l, 0, func(_ string, err error) { s.fails(&said, err) })
	}

	// Acquired, refused, and waited for in vain.
	h := c.block()
	_, err := next.TryLock(s.Ctx)
	s.fails(&said, err)
	short(lock)
	everything(wrong.Locker)
	for _, path := range []string{"", "relative", "/zookeeper", s.Path + "/../x", s.Path + "\x00"} {
		everything(s.r.New(locks.On(c.conn), path, mine...))
	}
	everything(s.on(c.conn, zklocks.WithACL(acl), zklocks.WithData(bytes.Repeat([]byte(data), 100_000))))
	everything(s.on(c.conn, zklocks.WithACL([]zk.ACL{}), zklocks.WithData([]byte(data))))
	refused(wire.WithDigestAuth("ann:"+password, ""))
	refused(wire.WithDigestAuth("", password))
	refused(wire.WithDigestAuth("ann", password), wire.WithTLS(nil))

	// Without a connection, and cut at the worst moment.
	p.Refuse()
	refused(wire.WithDigestAuth("ann", password))
	short(lock)
	short(h.Verify)
	s.Must(p.Accept())
	c.catchUp()
	s.release(h)
	for _, op := range []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.AuthOp} {
		f := p.Next(op, proxy.CutAfterCommit)
		if op == proxy.AuthOp {
			p.Cut()
		}
		s.release(c.lock())
		f.Cancel()
	}

	// Lost, in three ways.
	for _, away := range []func(){
		func() {
			for _, node := range c.whole(1) {
				_ = next.conn.Client().Delete(node, -1) // the library deletes the rest of a hold that has lost a node
			}
		},
		func() { s.Expire(c.conn) },
		func() { c.conn.Close() },
	} {
		h := c.lock()
		ctx := h.Context(s.Ctx)
		away()
		<-ctx.Done()
		for _, err := range []error{context.Cause(ctx), h.Err(), h.Verify(s.Ctx), multi(h)(s.Ctx), h.Release(s.Ctx), h.Release(s.Ctx)} {
			s.fails(&said, err)
		}
	}
	everything(c.Locker)
	next.whole(0)
	next.open()

	said.mu.Lock()
	defer said.mu.Unlock()
	if messages := len(said.said) - 3*said.errors; said.errors < 40 || messages < 12 {
		s.Errorf("only %d errors and %d messages to look through", said.errors, messages)
	}
	hash := acl[0].ID[len("ann:"):]
	for _, secret := range append(passwords, []byte(password), []byte(data), []byte(hash)) {
		for _, form := range forms(secret) {
			for _, line := range said.said {
				if strings.Contains(line, form) {
					s.Errorf("%q shows %q", line, form)
				}
			}
		}
	}
}
