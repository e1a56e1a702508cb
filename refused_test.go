package zklocks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// office has directories of locks, and an administrator who grants the rights there.
type office struct {
	*desk
	mine  *zklocks.Conn // of the process that must do without a right
	admin *zk.Conn
	told  *contract.Events
}

// offices are all directories in which the test's locks have nodes.
var offices = []string{path, path + "/b", path + "/c/queue", path + "/lock"}

// grant changes the rights of everybody but the administrator.
func (o *office) grant(perms int32) {
	o.Helper()
	for _, dir := range offices {
		_, err := o.admin.SetACL(dir, append(zk.DigestACL(zk.PermAll, "root", "secret"), zk.WorldACL(perms)...), -1)
		must(o, err)
	}
}

func (o *office) deny() { o.Helper(); o.grant(zk.PermAll &^ zk.PermDelete) }

// left returns the nodes of locks.
func (o *office) left() (nodes []string) {
	o.Helper()
	for _, dir := range offices {
		names, _, err := o.admin.Children(dir)
		must(o, err)
		for _, name := range names {
			if strings.HasPrefix(name, "_c_") {
				nodes = append(nodes, dir+"/"+name)
			}
		}
	}
	return nodes
}

// refused asserts the error of a call whose node remains.
func (o *office) refused(err error) {
	o.Helper()
	if !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "DELETE on "+path) || !strings.Contains(err.Error(), "is repeated as long as the session lives") {
		o.Errorf("error %v does not say what remains", err)
	}
}

// undeleted are the ways in which a node remains because the client lacks a right.
var undeleted = map[string]func(o *office){
	"a writer": func(o *office) {
		h := take(o, rwlock.New(o.mine, path).Lock)
		o.deny()
		o.refused(h.Release(o.Context()))
	},
	"the last of several readers": func(o *office) {
		m := rwlock.New(o.mine, path)
		first, last := take(o, m.RLock), take(o, m.RLock)
		o.deny()
		must(o, first.Release(o.Context()))
		o.refused(last.Release(o.Context()))
	},
	"a writer that became a reader": func(o *office) {
		m := rwlock.New(o.mine, path)
		h := take(o, m.Lock)
		must(o, m.Downgrade(o.Context(), h))
		o.deny()
		o.refused(h.Release(o.Context()))
	},
	"several permits": func(o *office) {
		h := take(o, semaphore.New(o.mine, path+"/c", 5).Locker(3).Lock)
		o.deny()
		o.refused(h.Release(o.Context()))
	},
	"several locks": func(o *office) {
		h := take(o, zklocks.All(reentrant.New(o.mine, path), rwlock.New(o.mine, path+"/b")).Lock)
		o.deny()
		o.refused(h.Release(o.Context()))
	},
	"a term": func(o *office) {
		o.refused(leader.New(o.mine, path).Run(o.Context(), func(context.Context, *zklocks.Hold) error { o.deny(); return nil }))
	},
	"a job": func(o *office) {
		o.refused(once.New(o.mine, path).RunSlot(o.Context(), "1", func(context.Context, *zklocks.Hold) error { o.deny(); return nil }))
	},
	"a waiter that leaves": func(o *office) {
		h := take(o, rwlock.New(o.other, path).Lock)
		o.deny()
		_, err := zklocks.Within(time.Second, rwlock.New(o.mine, path).Lock)(o.Context())
		if !errors.Is(err, context.DeadlineExceeded) {
			o.Errorf("error %v", err)
		}
		o.grant(zk.PermAll) // for the other process
		release(o, h)
		o.deny()
	},
	"a waiter that fails": func(o *office) {
		h := take(o, rwlock.New(o.other, path).Lock)
		time.AfterFunc(time.Second, func() { o.grant(zk.PermCreate | zk.PermWrite) })
		_, err := rwlock.New(o.mine, path).Lock(o.Context()) // lists again after five seconds
		o.refused(err)
		if !strings.Contains(err.Error(), "READ on "+path) {
			o.Errorf("error %v does not say why the call failed", err)
		}
		o.grant(zk.PermAll) // for the other process
		release(o, h)
		o.deny()
	},
	"a lost hold": func(o *office) {
		h := take(o, rwlock.New(o.mine, path).Lock)
		o.deny()
		o.host.Partition()
		<-h.Lost()
		o.host.Heal()
		time.Sleep(time.Second) // virtual
		if err := h.Release(o.Context()); !errors.Is(err, zklocks.ErrLost) {
			o.Errorf("error %v", err)
		}
	},
	"a release that no server has answered": func(o *office) {
		h := take(o, rwlock.New(o.mine, path).Lock)
		o.deny()
		o.host.Partition()
		if err := h.Release(o.Context()); !errors.Is(err, zklocks.ErrLost) {
			o.Errorf("error %v", err)
		}
		o.host.Heal()
		time.Sleep(time.Second) // virtual
	},
	"a call whose ctx is canceled before its node is known": func(o *office) {
		o.deny()
		create := o.host.Nth(zktest.Create, 1, zktest.HoldReply)
		_, err := zklocks.Within(time.Second, rwlock.New(o.mine, path).Lock)(o.Context())
		if !errors.Is(err, context.DeadlineExceeded) {
			o.Errorf("error %v", err)
		}
		create.Release()
		time.Sleep(time.Second) // virtual
	},
	"a call whose reply was lost, and which may not read": func(o *office) {
		m := rwlock.New(o.mine, path)
		release(o, take(o, m.Lock)) // it knows its directory
		o.grant(zk.PermCreate | zk.PermWrite | zk.PermDelete)
		o.host.Nth(zktest.Create, 1, zktest.CutAfterCommit)
		_, err := m.Lock(o.Context())
		if !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "READ on "+path) || !strings.Contains(err.Error(), "is repeated as long as the session lives") {
			o.Errorf("error %v", err)
		}
	},
}

// A node that the server refused to delete is deleted when the right is back.
func TestARefusedDeletionIsRepeated(t *testing.T) {
	for name, play := range undeleted {
		for how, end := range map[string]func(o *office){
			"after a minute": func(o *office) {
				o.grant(zk.PermAll)
				time.Sleep(time.Minute + time.Second) // virtual
			},
			"after a reconnect": func(o *office) {
				o.grant(zk.PermAll)
				o.host.Cut()
				time.Sleep(time.Second) // virtual
			},
			"soon, if the right is soon back": func(o *office) {
				time.Sleep(20 * time.Second) // virtual
				o.grant(zk.PermAll)
				time.Sleep(20 * time.Second) // virtual
			},
			"by Close": func(o *office) { must(o, o.mine.Close()) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				atDesk(t, func(d *desk) {
					o := &office{desk: d, told: contract.NewEvents(d)}
					o.mine = d.host.Connect(d.T, 10*time.Second, zklocks.WithObserver(o.told.Observer()))
					o.admin = d.server.Host("admin").Connect(d.T, 10*time.Second, zklocks.WithDigestAuth("root", "secret")).Client()
					for _, dir := range []string{path, path + "/b", path + "/c", path + "/c/queue", path + "/lock"} {
						data := map[string][]byte{path + "/c": []byte("5")}[dir]
						_, err := o.admin.Create(dir, data, 0, zk.WorldACL(zk.PermAll))
						must(o, err)
					}
					o.grant(zk.PermAll)
					play(o)
					session := o.mine.Client().SessionID()
					if how != "soon, if the right is soon back" {
						time.Sleep(10 * time.Minute) // virtual
						if n := len(contract.Of[observe.Retried](o.told)); n < 9 {
							o.Errorf("observers were notified of %d retries in ten minutes", n)
						}
					}
					if len(o.left()) == 0 {
						o.Fatal("no node is left: the test tests nothing")
					}
					end(o)
					if left := o.left(); len(left) > 0 {
						o.Errorf("left: %q", left)
					}
					if how != "by Close" && o.mine.Client().SessionID() != session {
						o.Error("the session has ended")
					}
				})
			})
		}
	}
}
