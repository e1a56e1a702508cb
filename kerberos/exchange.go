package kerberos

import (
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// An exchange is the client's side of RFC 4752: it sends the ticket, and chooses among the security
// layers that the server offers. The offer is sealed with the key in the ticket. So it proves that
// the server could read the ticket, and no mutual authentication (AP-REP) is needed.
type exchange struct {
	mechanism *mechanism
	service   string
	ticket    *ticket
	isSent    bool
}

func (e *exchange) next(challenge []byte) (response []byte, done bool, err error) {
	done = e.isSent // the second response is the last
	err = guard(func() (err error) {
		if done {
			response, err = e.choose(challenge)
			return err
		}
		e.isSent = true
		e.mechanism.sent(e.service, e.ticket)
		response, err = e.ticket.token()
		return err
	})
	return response, done, err
}

// noLayer stands for the connection as it is, in an offer and in the answer. TLS is the layer that
// protects a connection.
const noLayer = 1

// choose answers the server's offer.
func (e *exchange) choose(offer []byte) ([]byte, error) {
	var layers gssapi.WrapToken
	if err := layers.Unmarshal(offer, true); err != nil {
		return nil, fmt.Errorf("the server does not offer GSSAPI; has it a JAAS configuration with a Krb5LoginModule?: %w", err)
	}
	if ok, err := layers.Verify(e.ticket.key, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok {
		return nil, fmt.Errorf("the server does not prove that it is %s: %w", e.service, err)
	}
	if len(layers.Payload) != 4 || layers.Payload[0]&noLayer == 0 {
		return nil, errors.New("the server demands a security layer of SASL")
	}
	e.mechanism.accepted(e.service, e.ticket)
	chosen, err := gssapi.NewInitiatorWrapToken([]byte{noLayer, 0, 0, 0}, e.ticket.key) // no layer, so no size of a buffer
	if err != nil {
		return nil, err
	}
	return chosen.Marshal()
}

// token returns the first token: the ticket, with a fresh authenticator (RFC 4121).
func (t *ticket) token() ([]byte, error) {
	auth, err := types.NewAuthenticator(t.user.Domain(), t.user.CName())
	if err != nil {
		return nil, err
	}
	sum := make([]byte, 24) // the length of a channel binding, none, and the flags
	sum[0], sum[20] = 16, gssapi.ContextFlagInteg|gssapi.ContextFlagConf
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: sum}
	request, err := messages.NewAPReq(t.Ticket, t.key, auth)
	if err != nil {
		return nil, err
	}
	body, err := request.Marshal()
	if err != nil {
		return nil, err
	}
	kerberosOID, apReq := []byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2}, []byte{1, 0}
	return asn1tools.AddASNAppTag(append(append(kerberosOID, apReq...), body...), 0), nil
}
