package crew

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
)

// reach connects once, so that a wrong address is reported early.
func (c *Crew) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := zklocks.Connect(ctx, c.Servers, 5*time.Second)
	if err != nil {
		return fmt.Errorf("no ZooKeeper at %s: %w", strings.Join(c.Servers, ","), err)
	}
	conn.Close()
	return nil
}

// sweep deletes the nodes of this run. If no server can be reached they remain; they are few, and
// no program waits for them.
func (c *Crew) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := zklocks.Connect(ctx, c.Servers, 4*time.Second)
	if err != nil {
		return
	}
	defer conn.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		removeAll(conn.Client(), c.Path)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func removeAll(conn *zk.Conn, path string) {
	for range 3 { // a dead worker's node may be created or deleted meanwhile
		if err := conn.Delete(path, -1); !errors.Is(err, zk.ErrNotEmpty) {
			return
		}
		children, _, _ := conn.Children(path)
		for _, child := range children {
			removeAll(conn, path+"/"+child)
		}
	}
}

// Answer calls f until a server has answered. The request of f must be repeatable: after a lost
// connection it is unknown whether the request was executed.
func Answer(f func() error) error {
	for {
		err := f()
		if op := (*net.OpError)(nil); !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrSessionExpired) && !errors.As(err, &op) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
