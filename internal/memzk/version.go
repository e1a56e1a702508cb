package memzk

import (
	"fmt"
	"strconv"
	"strings"
)

// newest is the version if Config.Version is empty.
const newest = "3.9.5"

// behavior is what differs between the versions of a server. All differences that this package
// knows are here.
type behavior struct {
	// zxidInEvents: the header of an event has the zxid of its cause (ZOOKEEPER-4655), not -1.
	zxidInEvents bool
	// readForEvents: a client without READ on a node receives no events of it (ZOOKEEPER-4799).
	// Debian's 3.8.0 has that patch.
	readForEvents bool
	// readForExists: exists needs READ (ZOOKEEPER-2590).
	readForExists bool
	// checkAlone: a check outside of a multi is accepted (until ZOOKEEPER-2623). If it succeeds
	// there is no reply, because the server fails to encode it.
	checkAlone bool
	// create2InMulti: a create2 in a multi returns a Stat (ZOOKEEPER-4026).
	create2InMulti bool
	// watchModes: a connection can have a standard, a persistent and a recursive watch on a path,
	// and removes each alone (ZOOKEEPER-4466, 4471). Before, the last watch replaces the others.
	watchModes bool
	// readOnlyAlways: the answer to a connect request says whether the server is read-only even if
	// the client does not know of read-only servers (ZOOKEEPER-4814).
	readOnlyAlways bool
	// ipv6: ACLs of the scheme ip can have IPv6 addresses.
	ipv6 bool
}

// behaviorOf panics on an invalid version: it is a constant in the code of a test.
func behaviorOf(version string) behavior {
	v, ok := parseVersion(version)
	if !ok {
		panic(fmt.Sprintf("memzk: version %q: want three numbers, as in 3.9.3, and not below 3.8.0", version))
	}
	debian := v == [3]int{3, 8, 0}
	return behavior{
		zxidInEvents:   since(v, 3, 9, 0),
		readForEvents:  debian || since(v, 3, 9, 2) || within(v, 3, 8, 4),
		readForExists:  since(v, 3, 9, 2) || within(v, 3, 8, 4),
		checkAlone:     !since(v, 3, 9, 3) && !within(v, 3, 8, 5),
		create2InMulti: since(v, 3, 9, 0) || within(v, 3, 8, 2),
		watchModes:     since(v, 3, 9, 0),
		readOnlyAlways: since(v, 3, 9, 0) && !since(v, 3, 9, 3),
		ipv6:           since(v, 3, 9, 4),
	}
}

// IsVersion reports whether Config accepts the Version: three numbers, as in 3.9.3, from 3.8.0 on.
// Members do not behave like older servers, which lack some of the requests that members answer.
func IsVersion(version string) bool {
	_, ok := parseVersion(version)
	return ok
}

func parseVersion(version string) (v [3]int, ok bool) {
	parts := strings.Split(version, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return v, false
		}
		v[i] = n
	}
	return v, since(v, 3, 8, 0)
}

// since reports whether v is this version or a later one.
func since(v [3]int, major, minor, patch int) bool {
	for i, n := range [3]int{major, minor, patch} {
		if v[i] != n {
			return v[i] > n
		}
	}
	return true
}

// within reports whether v has the same major and minor version, and this patch or a later one.
func within(v [3]int, major, minor, patch int) bool {
	return v[0] == major && v[1] == minor && v[2] >= patch
}
