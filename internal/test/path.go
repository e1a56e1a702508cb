package test

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
)

// Path returns a lock path for this test alone: the test's name and a random end. It creates
// nothing.
func Path(tb testing.TB) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, tb.Name())
	return "/" + name + "-" + strings.ToLower(rand.Text()[:10])
}

// A Lister is a *zk.Conn or a *wire.Conn.
type Lister interface {
	Children(path string) ([]string, *zk.Stat, error)
}

// Children returns dir's children, sorted; nil if dir does not exist. It waits while the connection
// is lost.
func Children(tb testing.TB, conn Lister, dir string) []string {
	tb.Helper()
	var names []string
	var err error
	Poll(emptyTimeout, func() bool {
		names, _, err = conn.Children(dir)
		return err == nil || errors.Is(err, zk.ErrNoNode)
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		tb.Fatalf("children of %s: %v", dir, err)
	}
	slices.Sort(names)
	return names
}
