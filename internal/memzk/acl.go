package memzk

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/zklocks/zklocks/internal/jute"
)

// Permissions.
const (
	permRead   int32 = 1
	permWrite  int32 = 2
	permCreate int32 = 4
	permDelete int32 = 8
	permAdmin  int32 = 16
)

// ident is an identity that an ACL names, or that a client has proved.
type ident struct{ scheme, id string }

type acl struct {
	perms int32
	ident
}

var (
	anyone   = ident{"world", "anyone"}
	openACL  = []acl{{31, anyone}}
	readACL  = []acl{{permRead, anyone}}
	openWire = appendACL(nil, openACL)[4:]
)

// cutOpenACL avoids decoding the ACL that nearly all nodes have.
func cutOpenACL(b []byte) (rest []byte, ok bool) { return bytes.CutPrefix(b, openWire) }

// allows reports whether one of the identities has one of the permissions.
func allows(list []acl, perm int32, who []ident) bool {
	if len(list) == 0 {
		return true
	}
	for _, a := range list {
		if a.perms&perm == 0 {
			continue
		}
		if a.ident == anyone {
			return true
		}
		for _, w := range who {
			if w.scheme == a.scheme && matches(w, a.id) {
				return true
			}
		}
	}
	return false
}

func matches(who ident, id string) bool {
	switch who.scheme {
	case "digest":
		return who.id == id
	case "sasl":
		return who.id == id || who.id == "super"
	case "ip":
		addr, err := netip.ParseAddr(who.id)
		prefix, ok := prefixOf(id)
		return err == nil && ok && prefix.Contains(addr)
	}
	return false
}

// prefixOf returns the addresses that an ACL of the scheme ip names.
func prefixOf(id string) (netip.Prefix, bool) {
	if strings.Contains(id, "/") {
		prefix, err := netip.ParsePrefix(id)
		return prefix, err == nil
	}
	addr, err := netip.ParseAddr(id)
	return netip.PrefixFrom(addr, addr.BitLen()), err == nil
}

// resolveACL checks the ACL of a request and replaces the scheme "auth" by the client's own
// identities. ipv6 and sasl: the server knows such identities.
func resolveACL(list []acl, who []ident, ipv6, sasl bool) ([]acl, int32) {
	if len(list) == 1 && list[0] == openACL[0] {
		return openACL, jute.CodeOK
	}
	if len(list) == 0 {
		return nil, jute.CodeInvalidACL
	}
	var resolved []acl
	for i, a := range list {
		if slices.Contains(list[:i], a) {
			continue
		}
		switch {
		case a.ident == anyone:
			resolved = append(resolved, a)
		case a.scheme == "auth":
			found := false
			for _, w := range who {
				// An address is no proof of identity.
				if w.scheme == "digest" || w.scheme == "sasl" {
					resolved = append(resolved, acl{a.perms, w})
					found = true
				}
			}
			if !found {
				return nil, jute.CodeInvalidACL
			}
		case a.scheme == "digest" && validDigest(a.id), a.scheme == "ip" && validIP(a.id, ipv6),
			a.scheme == "sasl" && sasl && validPrincipal.MatchString(a.id):
			resolved = append(resolved, a)
		default:
			return nil, jute.CodeInvalidACL
		}
	}
	return resolved, jute.CodeOK
}

// validPrincipal matches a user, and a Kerberos principal.
var validPrincipal = regexp.MustCompile(`^([^@]*|[^/@]*(/[^/@]*)?@[^/@]*)$`)

// validDigest requires two parts. As in ZooKeeper, empty parts at the end do not count.
func validDigest(id string) bool {
	id = strings.TrimRight(id, ":")
	return strings.Count(id, ":") == 1
}

func validIP(id string, ipv6 bool) bool {
	prefix, ok := prefixOf(id)
	return ok && (ipv6 || prefix.Addr().Is4())
}

// digestIdent returns the identity that "user:password" proves.
func digestIdent(secret []byte) ident {
	user, _, _ := strings.Cut(string(secret), ":")
	sum := sha1.Sum(secret)
	return ident{"digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// authenticate adds the identity that an auth request proves.
func authenticate(who []ident, scheme string, secret []byte) ([]ident, bool) {
	switch scheme {
	case "digest":
		id := digestIdent(secret)
		if !slices.Contains(who, id) {
			who = append(slices.Clip(who), id)
		}
		return who, true
	case "ip":
		return who, true // each connection has its address as an identity
	}
	return who, false
}

// hideDigests returns the ACL as a client sees it that may read the ACL, but not change it.
func hideDigests(list []acl) []acl {
	hidden := slices.Clone(list)
	for i, a := range hidden {
		if user, _, found := strings.Cut(a.id, ":"); found && a.scheme == "digest" {
			hidden[i].id = user + ":x"
		}
	}
	return hidden
}
