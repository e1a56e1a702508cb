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
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

var secrets = []scenario{
	{"no error and no message of the log tells a secret", secretsKept, 0},
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
	list := strings.Trim(fmt.Sprint(secret), "[]")
	return []string{
		string(secret), fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), strings.Trim(fmt.Sprintf("%q", secret), `"`), list,
		strings.Trim(fmt.Sprintf("%#v", secret), "[]byte{}"), base64.StdEncoding.EncodeToString(secret),
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
	refused := func(opts ...wire.Option) {
		s.Helper()
		ctx, cancel := context.WithTimeout(s.Ctx, 100*time.Millisecond)
		defer cancel()
		conn, err := s.ConnectWith(ctx, p.Addr(), append(opts, wire.WithLogger(&said))...)
		if err == nil {
			conn.Close()
		}
		s.fails(&said, err)
	}
	short := func(call lockFunc) {
		s.Helper()
		ctx, cancel := context.WithTimeout(s.Ctx, 100*time.Millisecond)
		defer cancel()
		_, err := call(ctx)
		s.fails(&said, err)
	}
	c, next, wrong := connect(password), connect(password), connect("guess-at-"+password)
	passwords := [][]byte{realzk.SessionPassword(c.conn), realzk.SessionPassword(next.conn)}
	everything := func(l Locker) {
		s.Helper()
		s.every(l, 0, func(_ string, err error) { s.fails(&said, err) })
	}

	// Acquired, refused, and waited for in vain.
	h := c.block()
	_, err := next.TryLock(s.Ctx)
	s.fails(&said, err)
	short(next.Lock)
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
	short(next.Lock)
	short(only(h.Verify))
	s.Must(p.Accept())
	c.catchUp()
	s.unlock(h)
	for _, op := range []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.AuthOp} {
		f := p.Next(op, proxy.CutAfterCommit)
		if op == proxy.AuthOp {
			p.Cut()
		}
		s.unlock(c.lock())
		f.Cancel()
	}

	// Lost, in three ways.
	for _, away := range []func(){
		func() {
			names, _, err := c.conn.Children(s.Dir)
			s.Must(err)
			var all []any
			for _, name := range names {
				all = append(all, &zk.DeleteRequest{Path: s.Dir + "/" + name, Version: -1})
			}
			_, err = next.conn.Multi(all...)
			s.Must(err)
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
	test.Eventually(s, soon, "no node is left", func() bool {
		names, _, err := next.conn.Children(s.Dir)
		return (err == nil || err == zk.ErrNoNode) && len(names) == 0
	})
	next.open()

	said.mu.Lock()
	defer said.mu.Unlock()
	if messages := len(said.said) - 3*said.errors; said.errors < 40 || messages < 20 {
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
