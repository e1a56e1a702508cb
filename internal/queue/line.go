package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// Config is what the options of every recipe set.
type Config struct {
	ACL  []zk.ACL
	Data []byte
	// Observers are told of what happens; none: nothing is told.
	Observers []observe.Observer
}

// Default is the configuration without options.
func Default() Config {
	return Config{ACL: zk.WorldACL(zk.PermAll), Data: self()}
}

// maxData leaves room for the rest of the request, see maxRequest.
const maxData = 512 << 10

// Line is the directory in which the members of one lock stand, seen over one
// connection.
type Line struct {
	client *zkclient.Client
	dir    string
	lock   string // its path, as observers know it
	kinds  []znode.Kind
	seats  string // what the lines have in common whose members may follow each other
	mark   string // with what the name of a mark ends
	cfg    Config
	make   func(context.Context) error

	// crowded is whether there were so many in line, when it was last listed, that
	// whoever comes next will have to list, too: then it need not be told how many
	// there are.
	crowded atomic.Bool

	// untouchable is set once the server has refused us the right to write
	// the directory's data.
	untouchable atomic.Bool
}

// NewLine returns the line of a lock. It does no I/O. The error says what is
// wrong with the arguments.
func NewLine(conn *zk.Conn, dir string, cfg Config, kinds ...znode.Kind) (*Line, error) {
	switch {
	case conn == nil:
		return nil, errors.New("the connection is nil")
	case len(cfg.ACL) == 0:
		return nil, fmt.Errorf("%w: WithACL needs at least one entry", zk.ErrInvalidACL)
	case len(cfg.Data) > maxData:
		return nil, fmt.Errorf("WithData: %d bytes, the limit is %d", len(cfg.Data), maxData)
	}
	if err := znode.ValidatePath(dir); err != nil {
		return nil, err
	}
	l := &Line{client: zkclient.Of(conn), dir: dir, lock: dir, kinds: kinds, seats: fmt.Sprint(dir, kinds), mark: markOf(kinds), cfg: cfg}
	l.make = func(ctx context.Context) error {
		if err := l.client.MakeDir(ctx, dir, cfg.ACL); err != nil {
			return explain(err, "CREATE on the parents of "+dir)
		}
		return nil
	}
	if len(cfg.Observers) > 0 {
		l.observed()
	}
	return l, nil
}

// markOf is that of a release. It names the kinds that the holder had nobody ahead
// of: of another recipe's members in the same directory it may not know.
func markOf(kinds []znode.Kind) string {
	mark := "-released"
	for _, kind := range kinds {
		mark += "-" + strings.TrimSuffix(string(kind), "-")
	}
	return mark
}

// MadeBy replaces how the directory is made when it does not exist.
func (l *Line) MadeBy(make func(context.Context) error) { l.make = make }

// Client is the connection that the line is seen over.
func (l *Line) Client() *zkclient.Client { return l.client }

// list returns the members in order, and the directory as of that moment. One
// that does not exist is empty.
func (l *Line) list(ctx context.Context, sess int64) ([]znode.Node, *zk.Stat, error) {
	children, dir, err := l.client.Children(ctx, sess, l.dir)
	if err != nil && err != zk.ErrNoNode {
		return nil, nil, explain(err, "READ on "+l.dir)
	}
	line, err := znode.Line(children, l.kinds...)
	return line, dir, err
}

// explain says which right it is that the server misses, or what else it has
// against a request.
func explain(err error, right string) error {
	if errors.Is(err, zk.ErrNoAuth) {
		return fmt.Errorf("%w: it takes %s", err, right)
	}
	return zkclient.Named(err)
}

// path returns the full path of a node.
func (l *Line) path(n znode.Node) string { return l.dir + "/" + n.Name }

// pathsOf returns those of several.
func (l *Line) pathsOf(nodes []znode.Node) []string {
	paths := make([]string, len(nodes))
	for i, n := range nodes {
		paths[i] = l.path(n)
	}
	return paths
}

// missing reports whether one of own is not in the line.
func missing(line, own []znode.Node) bool {
	for _, n := range own {
		if !slices.ContainsFunc(line, func(m znode.Node) bool { return m.Name == n.Name }) {
			return true
		}
	}
	return false
}
