package memzk

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"

	"github.com/zklocks/zklocks/internal/jute"
)

// SASL is the server's side of a mechanism, which JAAS configures in ZooKeeper.
type SASL struct {
	// Start begins an exchange. number is the number of the connection.
	Start func(number int64) SASLStep

	// Required refuses all other requests of a connection until its exchange is complete
	// (sessionRequireClientSASLAuth).
	Required bool
}

// A SASLStep returns the answer to a token of the client; with the last answer, also the user. An
// error ends the connection.
type SASLStep func(token []byte) (answer []byte, user string, err error)

var errRepeated = errors.New("the exchange is complete")

// saslPacket handles a token. It does not renew the session, and a refusal does not end it.
func (c *conn) saslPacket(xid int32, d *jute.Decoder) {
	token := d.Bytes()
	s := c.m.e.cfg.SASL
	switch {
	case d.Bad, token == nil:
		c.shut()
		return
	case s == nil: // a ZooKeeper without JAAS accepts any token, and gives no identity
		c.saslReply(xid, jute.CodeOK, nil)
		return
	case c.sasl == nil:
		c.sasl = s.Start(c.number)
	}
	answer, user, err := []byte(nil), "", errRepeated
	if !c.hasUser {
		answer, user, err = c.sasl(token)
	}
	if err != nil {
		code := jute.CodeAuthFailed
		if s.Required {
			code = jute.CodeRequiresSASL
		}
		c.saslReply(xid, code, nil)
		c.end()
		return
	}
	if user != "" {
		c.hasUser = true
		c.auth = append(c.auth, ident{"sasl", user})
	}
	c.saslReply(xid, jute.CodeOK, answer)
}

func (c *conn) saslReply(xid, code int32, token []byte) {
	if c.mute() {
		return
	}
	var start int
	c.out, start = startReply(c.out, xid, 0, code)
	c.out = jute.AppendBytes(c.out, token)
	c.out = endReply(c.out, start)
	c.wrote()
}

const saslRealm, saslURI = "zk-sasl-md5", "zookeeper/zk-sasl-md5"

// saslDirective matches name=value and name="value"; in a value, a backslash escapes a character.
var saslDirective = regexp.MustCompile(`([a-z-]+)=(?:"((?:\\.|[^"\\])*)"|([^,]*))`)

var saslEscape = regexp.MustCompile(`\\(.)`)

// hashed returns a name or a password as it is hashed: in ISO 8859-1, if possible.
func hashed(s string) string {
	var short []byte
	for _, r := range s {
		if r > 0xff {
			return s
		}
		short = append(short, byte(r))
	}
	return string(short)
}

// DigestMD5 is the mechanism DIGEST-MD5 for users and their passwords, see SASL.Start.
func DigestMD5(users map[string]string) func(number int64) SASLStep {
	hash := func(s string) string { sum := md5.Sum([]byte(s)); return hex.EncodeToString(sum[:]) }
	return func(number int64) SASLStep {
		nonce := fmt.Sprintf("%040x", number)
		challenged := false
		return func(token []byte) ([]byte, string, error) {
			if !challenged {
				challenged = true
				return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, saslRealm, nonce), "", nil
			}
			said := map[string]string{}
			for _, m := range saslDirective.FindAllStringSubmatch(string(token), -1) {
				said[m[1]] = saslEscape.ReplaceAllString(m[2], "$1") + m[3]
			}
			user := said["username"]
			password, known := users[user]
			secret := md5.Sum([]byte(hashed(user) + ":" + saslRealm + ":" + hashed(password)))
			key := hash(string(secret[:]) + ":" + nonce + ":" + said["cnonce"])
			digest := func(method string) string {
				return hash(key + ":" + nonce + ":" + said["nc"] + ":" + said["cnonce"] + ":auth:" + hash(method+":"+saslURI))
			}
			if !known || said["nonce"] != nonce || said["response"] != digest("AUTHENTICATE") {
				return nil, "", errors.New("wrong user or password")
			}
			return []byte("rspauth=" + digest("")), user, nil
		}
	}
}
