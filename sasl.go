package zklocks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/wire"
)

// A SASLMechanism authenticates connections, see [WithSASL]. It is called before each attempt to
// connect to a server. host is the server's host name as given to Connect. The mechanism may obtain
// credentials; it must return when ctx is canceled. It returns the client's side of one exchange.
//
// next is called with nil, and then with each challenge of the server; a server without SASL sends
// an empty challenge. next returns the response to send, which may be empty, and whether the
// exchange is done. If it is done and response is nil, nothing is sent, and the exchange has
// succeeded. If it is done and response is not nil, the exchange succeeds if the server accepts the
// response.
//
// An error of either function that matches zk.ErrAuthFailed means that the credentials are wrong.
// After any other error the client tries the next server, as if it could not reach this server.
type SASLMechanism func(ctx context.Context, host string) (next func(challenge []byte) (response []byte, done bool, err error), err error)

// WithSASL authenticates each network connection by SASL, before any request is sent on it. Use it
// for servers with a JAAS configuration: with [SASLDigest], or with Kerberos, which is module
// github.com/zklocks/zklocks/kerberos. The default is no SASL. Given twice, the last mechanism
// counts.
//
// One refusal is not final, because a Kerberos ticket may be older than the server's key, and one
// server may be configured wrongly. Connect fails with an error that matches zk.ErrAuthFailed after
// as many refusals in a row as there are servers, and at least two. If the servers refuse the
// credentials after Connect has returned, the client tries again, once a second, and the holds are
// lost at their deadline, as without a server.
//
// To open the nodes of the locks to this identity alone, add WithACL(zk.AuthACL(zk.PermAll)): the
// server puts the identities of the connection into the list. The name of a Kerberos identity
// depends on the server's configuration (kerberos.removeRealmFromPrincipal), so a program should
// not spell it in an ACL. If [WithDigestAuth] is given, too, the list has both identities.
//
// If mechanism is nil, Connect fails at once.
func WithSASL(mechanism SASLMechanism) ConnectOption {
	return slot.Connect{Wire: wire.WithSASL(wire.SASLMechanism(mechanism))}
}

// SASLDigest is the mechanism DIGEST-MD5, for servers with a DigestLoginModule. The password is not
// sent, and the server must prove that it knows the password. But an attacker who records the
// exchange can try passwords on it: combine with [WithTLS].
//
// If the process may not use MD5 (GODEBUG=fips140=only), the mechanism fails, and the error matches
// zk.ErrAuthFailed.
func SASLDigest(user, password string) SASLMechanism {
	return func(context.Context, string) (func([]byte) ([]byte, bool, error), error) {
		if user == "" {
			return nil, fmt.Errorf("DIGEST-MD5 without a user: %w", zk.ErrAuthFailed)
		}
		if err := md5Allowed(); err != nil {
			return nil, err
		}
		return (&digestMD5{user: user, password: password}).next, nil
	}
}

// md5Allowed returns an error where md5 panics.
func md5Allowed() (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("DIGEST-MD5 needs MD5, which GODEBUG=fips140=only forbids: %w", zk.ErrAuthFailed)
		}
	}()
	md5.Sum(nil)
	return nil
}

// digestMD5 is the client's side of RFC 2831, without a security layer: TLS is one.
type digestMD5 struct {
	user, password string
	step           int
	proof          string // what the server must answer to the response
}

// digestURI names the service and the host. ZooKeeper has the same for all servers.
const digestURI = "zookeeper/zk-sasl-md5"

func (d *digestMD5) next(challenge []byte) (response []byte, done bool, err error) {
	d.step++
	switch d.step {
	case 1: // ZooKeeper has the client begin
		return nil, false, nil
	case 2:
		response, err = d.respond(directives(challenge))
		return response, false, err
	}
	if !hmac.Equal([]byte(directives(challenge)["rspauth"]), []byte(d.proof)) {
		// With zookeeper.allowSaslFailedClients a server says nothing else about a wrong password.
		return nil, false, fmt.Errorf("the server does not prove that it knows the password, which may be wrong: %w", zk.ErrAuthFailed)
	}
	return nil, true, nil
}

// respond computes the response to a challenge, and the server's proof.
func (d *digestMD5) respond(challenge map[string]string) ([]byte, error) {
	realm, nonce := challenge["realm"], challenge["nonce"]
	if nonce == "" {
		return nil, fmt.Errorf("the server does not offer DIGEST-MD5; has it a JAAS configuration with a DigestLoginModule?: %w", zk.ErrAuthFailed)
	}
	cnonce := rand.Text()
	secret := md5.Sum(bytes.Join([][]byte{latin1(d.user), latin1(realm), latin1(d.password)}, []byte(":")))
	key := hexMD5(string(secret[:]) + ":" + nonce + ":" + cnonce)
	digest := func(method string) string {
		return hexMD5(key + ":" + nonce + ":00000001:" + cnonce + ":auth:" + hexMD5(method+":"+digestURI))
	}
	d.proof = digest("")
	return fmt.Appendf(nil, `charset=utf-8,username=%s,realm=%s,nonce=%s,nc=00000001,cnonce="%s",digest-uri="%s",maxbuf=65536,response=%s,qop=auth`,
		quoted(d.user), quoted(realm), quoted(nonce), cnonce, digestURI, digest("AUTHENTICATE")), nil
}

// directive matches name=value and name="value", with escaped characters in the value.
var directive = regexp.MustCompile(`([a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^",]*))`)

// escaped matches a character behind a backslash.
var escaped = regexp.MustCompile(`\\(.)`)

// directives returns the directives of a challenge; of several realms the first.
func directives(challenge []byte) map[string]string {
	found := make(map[string]string)
	for _, m := range directive.FindAllSubmatch(challenge, -1) {
		if name := string(m[1]); found[name] == "" {
			found[name] = escaped.ReplaceAllString(string(m[2]), "$1") + string(m[3])
		}
	}
	return found
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// latin1 returns a name or a password as it is hashed: in ISO 8859-1 if that has all its
// characters, otherwise in UTF-8.
func latin1(s string) []byte {
	short := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return []byte(s)
		}
		short = append(short, byte(r))
	}
	return short
}
