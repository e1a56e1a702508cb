package wire

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// SASLMechanism is zklocks.SASLMechanism.
type SASLMechanism = func(ctx context.Context, host string) (next SASLExchange, err error)

// SASLExchange is the client's side of one exchange, see zklocks.SASLMechanism.
type SASLExchange = func(challenge []byte) (response []byte, done bool, err error)

// startSASL makes the mechanism begin an exchange. It is called before the connection is opened, so
// that no server waits while the mechanism waits for a KDC, and no server is avoided for it.
func (c *Conn) startSASL(ctx context.Context, server string) (next SASLExchange, err error) {
	if c.sasl == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, max(longestTry, cmp.Or(c.Timeout(), c.timeout)*2/3))
	defer cancel()
	host, _, _ := net.SplitHostPort(server)
	if next, err = c.sasl(ctx, host); errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("SASL: %v", err) // no matter of the server, see missed
	} else if err != nil {
		return nil, fmt.Errorf("SASL: %w", err)
	}
	return next, nil
}

// authenticate makes the exchange. The server may end the connection at any request before the
// exchange is complete, or execute the request without the identity.
func (p *packetConn) authenticate() error {
	var challenge []byte
	for {
		response, done, err := p.sasl(challenge)
		if err == nil && !(done && response == nil) {
			challenge, err = p.sendSASL(response)
		}
		if err != nil {
			return fmt.Errorf("SASL: %w", err)
		}
		if done {
			return nil
		}
	}
}

// sendSASL sends a response and returns the next challenge; nil: the server sent none.
func (p *packetConn) sendSASL(response []byte) (challenge []byte, err error) {
	code, err := p.exchange(opSASL, encode(nil, string(response)))
	switch {
	case err != nil:
		return nil, err
	case code == codeAuthFailed || code == codeDemandsSASL:
		return nil, fmt.Errorf("the server refuses the credentials: a wrong user or password, a mechanism that the server does not have, "+
			"or a Kerberos ticket that does not fit its keytab (service name, host name, key number): %w", zk.ErrAuthFailed)
	case code != 0:
		return nil, fmt.Errorf("the server answered with code %d", code)
	}
	d := decoder{rest: p.buf[lengthSize+replyHeader:]}
	return bytes.Clone(d.bytes()), nil // nil if it is missing
}

// sendCredentials sends the credentials and reads the answers. They must be the first packets,
// because some servers refuse all other requests without them.
func (p *packetConn) sendCredentials() error {
	c := p.conn
	c.mu.Lock()
	all := c.credentials
	c.mu.Unlock()
	for _, body := range all {
		d := decoder{rest: body}
		d.int32()
		scheme := d.text()
		user, _, _ := strings.Cut(string(d.bytes()), ":") // without the password
		code, err := p.exchange(opSetAuth, body)
		if err == nil {
			err = codeError(code)
		}
		if err != nil {
			return fmt.Errorf("%s authentication of %q: %w", scheme, user, err)
		}
	}
	return nil
}

// exchange sends a request before there are others, and reads the answer into buf.
func (p *packetConn) exchange(op int32, body []byte) (code int32, err error) {
	c := p.conn
	c.mu.Lock()
	xid := c.nextXid()
	c.mu.Unlock()
	p.Conn.SetDeadline(time.Now().Add(p.limit))
	if _, err = p.Conn.Write(append(encode(nil, int32(8+len(body)), xid, op), body...)); err == nil {
		err = p.readFrame(replyHeader, maxSASL)
	}
	switch {
	case err != nil:
		return 0, p.unanswered(err, "no answer", "the server closed the connection")
	case int32At(p.buf, 4) != xid:
		return 0, fmt.Errorf("%w: an answer to another request", errFrame)
	}
	return int32At(p.buf, codeInReply), nil
}

// refusalPause is how long run pauses if the servers refuse the credentials. They may accept them
// after a change of their configuration.
const refusalPause = time.Second

// refused counts the attempt if its error means that the credentials were refused. If the servers
// have refused them, Connect fails; once Connect has returned, refused pauses. Only run calls it.
func (c *Conn) refused(err error) {
	if !errors.Is(err, zk.ErrAuthFailed) || !c.hosts.refused() {
		return
	}
	select {
	case c.refusal <- err:
	default:
	}
	if c.returned.Load() {
		sleep(c.quit, refusalPause)
	}
}
