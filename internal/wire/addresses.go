package wire

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-zookeeper/zk"
)

// maxHost is the length of the longest name, with a dot at its end.
const maxHost = 254

// Addresses returns the servers with their ports. The error quotes the first invalid server.
func Addresses(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, errors.New("zklocks: no servers given")
	}
	addresses := make([]string, 0, len(servers))
	for _, s := range servers {
		switch {
		case s == "":
			return nil, errors.New("zklocks: an address is empty")
		case strings.Contains(s, "@"): // the error does not quote s, which may have a password
			return nil, errors.New("zklocks: an address has an @ in it: credentials belong into WithDigestAuth")
		case strings.ContainsAny(s, ",/"):
			return nil, fmt.Errorf("zklocks: address %.*q is a connect string: ParseServers splits it", maxHost, s)
		}
		address := s
		if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") || !strings.Contains(s, ":") { // an IPv6 address has brackets
			address = s + ":" + strconv.Itoa(zk.DefaultPort)
		}
		host, port, err := net.SplitHostPort(address)
		var wrong *net.AddrError
		if errors.As(err, &wrong) { // wrong.Addr may be long
			return nil, fmt.Errorf("zklocks: address %.*q: %s", maxHost, s, wrong.Err)
		}
		// A name with such characters would fail at each lookup, until the caller's ctx is
		// canceled.
		odd := strings.ContainsFunc(host, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._:%", r)
		})
		n, err := strconv.ParseUint(port, 10, 32)
		switch {
		case host == "" || len(host) > maxHost || odd || errors.Is(err, strconv.ErrSyntax):
			return nil, fmt.Errorf("zklocks: address %.*q: want host or host:port", maxHost, s)
		case err != nil || n == 0 || n > math.MaxUint16:
			return nil, fmt.Errorf("zklocks: address %.*q: ports are 1 to 65535", maxHost, s)
		}
		if !slices.Contains(addresses, address) { // or it would be tried twice as often
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

// onlyLocal reports whether a host is another machine for each machine or network that uses the
// address: loopback, link-local, and names of the machine itself.
func onlyLocal(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback() || ip.Unmap().IsLinkLocalUnicast()
	}
	if strings.Trim(host, "0123456789.") == "" { // such as 127.1, which some resolvers accept
		return true
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	first, _, _ := strings.Cut(host, ".")
	return slices.Contains([]string{"localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"}, first) ||
		strings.HasSuffix(host, ".localhost")
}
