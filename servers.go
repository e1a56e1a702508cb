package zklocks

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// ParseServers parses a connect string of other ZooKeeper clients, "zk1:2181,zk2:2181/app". It
// returns the servers for [Connect], and the path for [WithChroot], which is empty if there is
// none. A server without a port has port 2181. s may contain a password, so the error shows only
// the part of s that is wrong.
func ParseServers(s string) (servers []string, chroot string, err error) {
	list, path, found := strings.Cut(s, "/")
	if strings.Contains(s, "@") { // the part in front may be a password: do not show it
		return nil, "", errors.New("zklocks: a connect string with an @ in it: credentials belong into WithDigestAuth")
	}
	if strings.Contains(path, ",") {
		return nil, "", errors.New("zklocks: a connect string with a comma behind the chroot, which is given once, at the end")
	}
	switch {
	case strings.TrimSpace(s) == "":
		return nil, "", errors.New("zklocks: the connect string is empty")
	case strings.TrimSpace(list) == "":
		return nil, "", fmt.Errorf("zklocks: the connect string %.100q has no server", s)
	}
	for server := range strings.SplitSeq(list, ",") {
		servers = append(servers, strings.TrimSpace(server))
	}
	if _, err := wire.Addresses(servers); err != nil {
		return nil, "", err
	}
	if path = strings.TrimSpace(path); found && path != "" {
		chroot = "/" + path
		if err := validChroot(chroot); err != nil {
			return nil, "", err
		}
	}
	return servers, chroot, nil
}

func validChroot(path string) error {
	if err := znode.ValidatePath(path); err != nil {
		return fmt.Errorf("zklocks: chroot: %w", err)
	}
	return nil
}

// WithServersFromEnsemble keeps the servers as the ensemble's dynamic configuration has them, in
// /zookeeper/config: the connection reads and watches that node, and calls [Conn.SetServers] after
// a random time of up to five seconds, so that not all clients move at one instant. It uses the
// addresses for clients that are written there. With [WithTLS] it uses the secure addresses, which
// ZooKeeper writes since 3.10.
//
// Do not use it for clients that reach the servers by other addresses, as through NAT. The servers
// remain as they are, and [WithLogger] gets the reason, while the client may not read the node, and
// while the configuration has a server without an address for clients. An address that is another
// machine for each client counts as none: 0.0.0.0, and loopback and link-local addresses unless the
// client itself is connected by one. The default is to keep the servers of Connect.
func WithServersFromEnsemble() ConnectOption {
	return slot.Connect{Wire: wire.WithServersFromEnsemble()}
}

// WithChroot puts all locks on the connection below path, which is created when it is first needed:
// the lock "/jobs" is then at path+"/jobs". Connect fails at once if path is not valid. The
// default, and an empty path, is no chroot.
//
// The chroot applies to locks alone. Errors begin with the lock's path without it, and observers
// receive that path. [Member].Path, [Conn.Client], the operations of [Hold.Multi] and [Hold.Guard],
// and the nodes that errors name have whole paths. [Conn.Path] returns the whole path for a node of
// the program. Without it the node is outside of the chroot, and shared with programs that have
// another chroot.
func WithChroot(path string) ConnectOption { return slot.Chroot(path) }
