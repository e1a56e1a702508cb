package zklocks

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// ParseServers reads a connect string as other ZooKeeper clients take it, "zk1:2181,zk2:2181/app":
// the servers for [Connect], and the path for [WithChroot], which is empty if there is none. A
// server without a port has port 2181. The error says what is wrong with s, and shows no more of it
// than the part that is wrong.
func ParseServers(s string) (servers []string, chroot string, err error) {
	list, path, found := strings.Cut(s, "/")
	if strings.Contains(s, "@") { // the part in front may be a password: do not show it
		return nil, "", errors.New("zklocks: a connect string with an @ in it: credentials belong into WithDigestAuth")
	}
	if strings.Contains(path, ",") {
		return nil, "", errors.New("zklocks: a connect string with a comma behind the chroot, which is given once, at the end")
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

// WithChroot puts all locks on the connection below a path, which is made when it is first needed:
// the lock "/jobs" is then at path+"/jobs". The path that an error begins with, and those that
// observers are told, are without it; [Member].Path, [Conn.Client], the operations of [Hold.Multi]
// and [Hold.Guard], and what errors say of nodes and rights have whole paths. [Conn.Path] returns
// the whole path of a node of the program: without it, the node is outside of the chroot, where
// programs with other chroots find it, too. Connect fails at once if path is not valid. The
// default, and an empty path, is none.
func WithChroot(path string) ConnectOption { return slot.Chroot(path) }
