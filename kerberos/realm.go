package kerberos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// mostHops is how many KDCs are asked for a ticket.
const mostHops = 10

// A route leads from the client's realm to the ticket of a service in another realm.
type route struct {
	service, home string
	target        string   // the service's realm; "": the KDCs decide
	between       []string // from home to target, by [capaths]
	why           string   // it is the target
}

// route returns the way from a client's realm to a service, which may name its realm.
func (p profile) route(home, service string) route {
	name, realm, named := strings.Cut(service, "@")
	_, host, _ := strings.Cut(name, "/")
	r := route{service: name, home: home, target: realm, why: "by WithService"}
	if !named {
		r.target, r.why = p.realmOf(host), "by [domain_realm] of krb5.conf"
	}
	if r.target == "" {
		r.why = "the program's own: neither WithService nor [domain_realm] of krb5.conf names another"
	}
	r.between = p.between(home, r.target)
	return r
}

// walk asks the KDC of one realm after the other: for a ticket-granting ticket of the next realm,
// and in the target for the service. ask returns the realm of a ticket-granting ticket, to which a
// KDC may also refer when it is asked for something else; "" for the ticket of the service.
func (r route) walk(ask func(realm, name string) (next string, err error)) error {
	at, target := r.home, r.target
	way := append(append([]string{r.home}, r.between...), r.target)
	for range mostHops {
		name := r.service
		if target != "" && at != target {
			next := target
			if i := slices.Index(way, at); i >= 0 {
				next = way[i+1]
			}
			name = "krbtgt/" + next
		}
		next, err := ask(at, name)
		if err != nil {
			return r.explain(err, at, name)
		}
		if next == "" {
			return nil
		}
		if name == r.service {
			target = "" // the KDC knows that the service is elsewhere
		}
		at = next
	}
	return fmt.Errorf("%s: the KDCs refer to each other without end, at last to realm %s", r, at)
}

func (r route) String() string {
	return fmt.Sprintf("service %s of realm %s (%s)", r.service, cmp.Or(r.target, r.home), r.why)
}

// explain says what was asked of which realm, and what to check.
func (r route) explain(err error, at, name string) error {
	if next, ok := strings.CutPrefix(name, "krbtgt/"); ok && strings.Contains(err.Error(), "KDC_ERR_S_PRINCIPAL_UNKNOWN") {
		return fmt.Errorf("%s: the KDC of realm %s does not trust realm %s: name the realms between them in [capaths] of krb5.conf, "+
			"or another realm by WithService: %w", r, at, next, err)
	}
	asked := r.String()
	if at != r.target && at != r.home {
		asked += ", asked in realm " + at
	}
	return explain(err, asked, at)
}

// exchange asks the KDC of a realm for a ticket, and keeps the ticket in place of the present one.
// It returns the other realm, if the ticket is a ticket-granting ticket of one.
func (l *login) exchange(realm, name string, canonicalize bool) (next string, end time.Time, err error) {
	kind := nametype.KRB_NT_PRINCIPAL
	if strings.HasPrefix(name, "krbtgt/") {
		kind = nametype.KRB_NT_SRV_INST
	}
	asked := types.NewPrincipalName(kind, name)
	request, err := l.request(realm, asked, canonicalize)
	if err != nil {
		return "", end, err
	}
	// gokrb5 would follow a referral with the wrong realm of the client. After six it gives up.
	_, reply, err := l.client.TGSExchange(request, realm, l.ticket, l.key, 6)
	if granted := reply.Ticket.SName.NameString; len(granted) == 2 && granted[0] == "krbtgt" {
		next = granted[1]
	}
	refers := next != "" && !reply.Ticket.SName.Equal(asked) && len(reply.DecryptedEncPart.Key.KeyValue) > 0
	switch {
	case err != nil && !refers:
		return "", end, err
	case next == realm:
		return "", end, errors.New("the KDC refers to itself")
	}
	l.ticket, l.key = reply.Ticket, reply.DecryptedEncPart.Key
	return next, reply.DecryptedEncPart.EndTime, nil
}

// request returns a request that is authenticated by the client's realm, where gokrb5 takes the
// realm that has issued the ticket. canonicalize asks the KDC to refer to another realm if the
// service is there.
func (l *login) request(realm string, name types.PrincipalName, canonicalize bool) (messages.TGSReq, error) {
	user := l.client.Credentials
	r, err := messages.NewTGSReq(user.CName(), realm, l.client.Config, l.ticket, l.key, name, false)
	if err != nil {
		return r, err
	}
	if canonicalize {
		types.SetFlag(&r.ReqBody.KDCOptions, flags.Canonicalize)
	}
	body, err := r.ReqBody.Marshal()
	if err != nil {
		return r, err
	}
	etype, err := crypto.GetEtype(l.key.KeyType)
	if err != nil {
		return r, err
	}
	sum, err := etype.GetChecksumHash(l.key.KeyValue, body, keyusage.TGS_REQ_PA_TGS_REQ_AP_REQ_AUTHENTICATOR_CHKSUM)
	if err != nil {
		return r, err
	}
	auth, err := types.NewAuthenticator(user.Domain(), user.CName())
	if err != nil {
		return r, err
	}
	auth.Cksum = types.Checksum{CksumType: etype.GetHashID(), Checksum: sum}
	proof, err := messages.NewAPReq(l.ticket, l.key, auth)
	if err != nil {
		return r, err
	}
	r.PAData[0].PADataValue, err = proof.Marshal()
	return r, err
}
