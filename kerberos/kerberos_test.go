package kerberos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/rwlock"
)

// These tests make the tickets themselves, and need no KDC.

const (
	realm   = "EXAMPLE.COM"
	service = "zookeeper/zk1"
)

// keys returns a keytab of the service, with a key for each password. The first has key number 1.
func keys(t testing.TB, etype int32, passwords ...string) *keytab.Keytab {
	t.Helper()
	kt := keytab.New()
	for i, password := range passwords {
		if err := kt.AddEntry(service, realm, password, time.Now(), uint8(i+1), etype); err != nil {
			t.Fatal(err)
		}
	}
	return kt
}

// issue makes a ticket for the user locker, with the newest key of a keytab.
func issue(kt *keytab.Keytab, life time.Duration) (*ticket, error) {
	key := kt.Entries[len(kt.Entries)-1]
	user, server := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "locker"), types.NewPrincipalName(nametype.KRB_NT_SRV_INST, service)
	now := time.Now().UTC()
	flags := asn1.BitString{Bytes: make([]byte, 4), BitLength: 32}
	made, session, err := messages.NewTicket(user, realm, server, realm, flags, kt, key.Key.KeyType, int(key.KVNO), now, now, now.Add(life), now.Add(life))
	return &ticket{made, session, credentials.NewFromPrincipalName(user, realm), now.Add(life)}, err
}

// An acceptor is the server's side of GSSAPI, with the keys of a keytab.
type acceptor struct {
	keys  *keytab.Keytab
	offer []byte                        // the layers; nil: no layer
	alter func(offer *gssapi.WrapToken) // after it was sealed; may be nil
}

func (a *acceptor) start(int64) memzk.SASLStep {
	var ticket *messages.APReq
	return func(token []byte) ([]byte, string, error) {
		if ticket != nil {
			var chosen gssapi.WrapToken
			if err := chosen.Unmarshal(token, false); err != nil {
				return nil, "", err
			}
			if ok, err := chosen.Verify(ticket.Ticket.DecryptedEncPart.Key, keyusage.GSSAPI_INITIATOR_SEAL); !ok {
				return nil, "", err
			}
			if !bytes.Equal(chosen.Payload, []byte{1, 0, 0, 0}) {
				return nil, "", fmt.Errorf("chose %x", chosen.Payload)
			}
			return nil, ticket.Authenticator.CName.PrincipalNameString() + "@" + ticket.Authenticator.CRealm, nil
		}
		_, body, ok := bytes.Cut(token, []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2, 1, 0})
		if !ok {
			return nil, "", errors.New("not a token of Kerberos")
		}
		ticket = new(messages.APReq)
		if err := ticket.Unmarshal(body); err != nil {
			return nil, "", err
		}
		if ok, err := ticket.Verify(a.keys, 5*time.Minute, types.HostAddress{}, nil); !ok {
			return nil, "", err
		}
		offer := gssapi.WrapToken{Flags: 1, Payload: []byte{1, 0, 0, 0}}
		if a.offer != nil {
			offer.Payload = a.offer
		}
		if err := offer.SetCheckSum(ticket.Ticket.DecryptedEncPart.Key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil {
			return nil, "", err
		}
		offer.EC = uint16(len(offer.CheckSum))
		if a.alter != nil {
			a.alter(&offer)
		}
		answer, err := offer.Marshal()
		return answer, "", err
	}
}

// A world is a server in memory, and a client's host.
type world struct {
	*memzk.Ensemble
	dial zklocks.ConnectOption
}

// in runs a test in virtual time, with a server zk1.
func in(t *testing.T, sasl *memzk.SASL, test func(t *testing.T, w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		listener, err := network.Listen("zk1:2181")
		if err != nil {
			t.Fatal(err)
		}
		w := world{memzk.Start(memzk.Config{SASL: sasl}), zklocks.WithDialer(network.Host("here").DialContext)}
		go w.Leader().Serve(listener)
		defer func() {
			time.Sleep(5 * time.Second) // until the goroutines of closed clients have ended
			w.Stop()
			network.Close()
		}()
		test(t, w)
	})
}

func (w world) connect(t *testing.T, m *mechanism) (*zklocks.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	conn, err := zklocks.Connect(ctx, []string{"zk1"}, 10*time.Second, w.dial,
		zklocks.WithSASL(m.start), zklocks.WithACL(zk.AuthACL(zk.PermAll)))
	return conn, err
}

// with returns a mechanism whose KDC is a function.
func with(ask func() (*ticket, error)) *mechanism {
	return &mechanism{service: "zookeeper", tickets: map[string]*ticket{}, asked: map[string]*request{}, ask: func(name string) (*ticket, error) {
		if name != service {
			return nil, fmt.Errorf("asked for %q", name)
		}
		return ask()
	}}
}

// The server knows who has connected, by each kind of key.
func TestIdentity(t *testing.T) {
	for name, etype := range map[string]int32{
		"AES 128, SHA-1": etypeID.AES128_CTS_HMAC_SHA1_96, "AES 256, SHA-1": etypeID.AES256_CTS_HMAC_SHA1_96,
		"AES 128, SHA-2": etypeID.AES128_CTS_HMAC_SHA256_128, // messages.NewTicket makes a key of AES 256, SHA-2 too short
	} {
		t.Run(name, func(t *testing.T) {
			kt := keys(t, etype, "secret")
			in(t, &memzk.SASL{Start: (&acceptor{keys: kt}).start, Required: true}, func(t *testing.T, w world) {
				conn, err := w.connect(t, with(func() (*ticket, error) { return issue(kt, time.Hour) }))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := rwlock.New(conn, "/l").Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				acl, _, err := conn.Client().GetACL("/l")
				if want := (zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: "locker@" + realm}); err != nil || len(acl) != 1 || acl[0] != want {
					t.Errorf("%v, %v", acl, err)
				}
			})
		})
	}
}

// A hold outlives tickets that expire, keys of the server that are replaced, and a KDC that is down
// while a ticket is valid. A ticket is used as long as it is valid.
func TestNothingLosesAHold(t *testing.T) {
	const aes = etypeID.AES256_CTS_HMAC_SHA1_96
	server := &acceptor{keys: keys(t, aes, "first")}
	refused := 0
	start := func(n int64) memzk.SASLStep {
		step := server.start(n)
		return func(token []byte) ([]byte, string, error) {
			answer, user, err := step(token)
			if err != nil {
				refused++
			}
			return answer, user, err
		}
	}
	in(t, &memzk.SASL{Start: start, Required: true}, func(t *testing.T, w world) {
		asked := 0
		var down error
		conn, err := w.connect(t, with(func() (*ticket, error) {
			if asked++; down != nil {
				return nil, down
			}
			return issue(server.keys, 10*time.Minute)
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		hold, err := rwlock.New(conn, "/l").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		restart := func(what string, after time.Duration, asks, refusals int) {
			t.Helper()
			time.Sleep(after)
			asked, refused = 0, 0
			member := w.Members()[0]
			member.Kill()
			member.Restart()
			time.Sleep(time.Second)
			if hold.Err() != nil || asked != asks || refused != refusals {
				t.Errorf("%s: %v; asked for %d tickets, refused %d", what, hold.Err(), asked, refused)
			}
		}
		restart("valid", time.Minute, 0, 0)
		restart("expired", time.Hour, 1, 0)
		down = outage{errors.New("no KDC")}
		restart("no KDC", time.Minute, 0, 0)
		down = nil
		server.keys = keys(t, aes, "first", "second")
		restart("another key in the server's keytab", time.Minute, 0, 0)
		restart("used after the first has expired", time.Hour, 1, 0)
		server.keys = keys(t, aes, "third")
		restart("the server's key replaced", time.Minute, 1, 1)
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What a server refuses, or does not prove, is said at once. The KDC is asked for another ticket
// once.
func TestRefused(t *testing.T) {
	const aes = etypeID.AES256_CTS_HMAC_SHA1_96
	kt := keys(t, aes, "secret")
	gssapiWith := func(offer []byte, alter func(*gssapi.WrapToken)) *memzk.SASL {
		return &memzk.SASL{Start: (&acceptor{keys: kt, offer: offer, alter: alter}).start}
	}
	for name, tc := range map[string]struct {
		server *memzk.SASL
		says   string
	}{
		"another key":         {&memzk.SASL{Start: (&acceptor{keys: keys(t, aes, "another")}).start}, "a Kerberos ticket that does not fit its keytab (service name, host name, key number)"},
		"no JAAS":             {nil, "the server does not offer GSSAPI; has it a JAAS configuration with a Krb5LoginModule?"},
		"DIGEST-MD5":          {&memzk.SASL{Start: memzk.DigestMD5(nil)}, "the server does not offer GSSAPI"},
		"a layer":             {gssapiWith([]byte{6, 1, 0, 0}, nil), "the server demands a security layer"},
		"an offer too short":  {gssapiWith([]byte{1}, nil), "the server demands a security layer"},
		"a wrong seal":        {gssapiWith(nil, func(o *gssapi.WrapToken) { o.CheckSum[0]++ }), "the server does not prove that it is zookeeper/zk1"},
		"no seal":             {gssapiWith(nil, func(o *gssapi.WrapToken) { o.CheckSum, o.EC = []byte{}, 0 }), "the server does not prove that it is zookeeper/zk1"},
		"the client's seal":   {gssapiWith(nil, func(o *gssapi.WrapToken) { o.Flags = 0 }), "the server does not offer GSSAPI"},
		"an altered offer":    {gssapiWith(nil, func(o *gssapi.WrapToken) { o.Payload = []byte{3, 0, 0, 0} }), "the server does not prove that it is zookeeper/zk1"},
		"a token that is cut": {gssapiWith(nil, func(o *gssapi.WrapToken) { o.EC = 1 << 15 }), "the server does not"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, tc.server, func(t *testing.T, w world) {
				asked, began := 0, time.Now()
				_, err := w.connect(t, with(func() (*ticket, error) { asked++; return issue(kt, time.Hour) }))
				if !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), tc.says) || time.Since(began) > 100*time.Millisecond {
					t.Errorf("%v, after %v", err, time.Since(began))
				}
				if asked > 2 {
					t.Errorf("asked %d times", asked)
				}
			})
		})
	}
}

// Connections that need the same ticket at the same time share one request to the KDC, which
// continues when their attempts end.
func TestOneRequest(t *testing.T) {
	kt := keys(t, etypeID.AES256_CTS_HMAC_SHA1_96, "secret")
	in(t, &memzk.SASL{Start: (&acceptor{keys: kt}).start}, func(t *testing.T, w world) {
		asked := 0
		m := with(func() (*ticket, error) {
			asked++
			time.Sleep(7 * time.Second) // longer than an attempt may take
			return issue(kt, time.Hour)
		})
		errs := make(chan error)
		for range 10 {
			go func() {
				conn, err := zklocks.Connect(t.Context(), []string{"zk1"}, 4*time.Second, w.dial, zklocks.WithSASL(m.start))
				errs <- errors.Join(err, conn.Close())
			}()
		}
		for range 10 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// While there is no KDC, Connect waits for one.
func TestConnectWaitsForTheKDC(t *testing.T) {
	kt := keys(t, etypeID.AES256_CTS_HMAC_SHA1_96, "secret")
	in(t, &memzk.SASL{Start: (&acceptor{keys: kt}).start}, func(t *testing.T, w world) {
		opens := time.Now().Add(2 * time.Second)
		m := with(func() (*ticket, error) {
			if time.Now().Before(opens) {
				return nil, explain(errors.New("[Root cause: Networking_Error] connection refused"), "principal locker", realm)
			}
			return issue(kt, time.Hour)
		})
		conn, err := w.connect(t, m)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		opens = time.Now().Add(time.Hour)
		m.tickets = map[string]*ticket{}
		if _, err = w.connect(t, m); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, zk.ErrAuthFailed) ||
			!strings.Contains(err.Error(), "last attempt: SASL: principal locker: no KDC of realm EXAMPLE.COM answers: check that it runs, ") {
			t.Error(err)
		}
	})
}

// Of a ticket that another realm has issued, the client is still in its own.
func TestRequestToAnotherRealm(t *testing.T) {
	kt := keys(t, etypeID.AES256_CTS_HMAC_SHA1_96, "secret")
	tk, err := issue(kt, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tk.Ticket.Realm = "M.TEST"
	for _, canonicalize := range []bool{false, true} {
		l := &login{client: client.NewWithKeytab("locker", realm, kt, config.New()), ticket: tk.Ticket, key: tk.key}
		r, err := l.request("B.TEST", types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, service), canonicalize)
		if err != nil {
			t.Fatal(err)
		}
		var proof messages.APReq
		if err := errors.Join(proof.Unmarshal(r.PAData[0].PADataValue), proof.DecryptAuthenticator(tk.key)); err != nil {
			t.Fatal(err)
		}
		body, _ := r.ReqBody.Marshal()
		etype, _ := crypto.GetEtype(tk.key.KeyType)
		if a := proof.Authenticator; a.CRealm != realm || !etype.VerifyChecksum(tk.key.KeyValue, body, a.Cksum.Checksum, keyusage.TGS_REQ_PA_TGS_REQ_AP_REQ_AUTHENTICATOR_CHKSUM) ||
			r.ReqBody.Realm != "B.TEST" || types.IsFlagSet(&r.ReqBody.KDCOptions, flags.Canonicalize) != canonicalize {
			t.Errorf("%+v, %+v", a, r.ReqBody)
		}
	}
}

// The service is named by WithService and by the host in the list of servers.
func TestServiceName(t *testing.T) {
	for _, tc := range []struct{ option, host, want string }{
		{"zookeeper", "ZK1.Example.com.", "zookeeper/zk1.example.com"},
		{"kafka", "zk1", "kafka/zk1"},
		{"zookeeper/all", "zk1", "zookeeper/all"},
		{"zookeeper@B.TEST", "zk1", "zookeeper/zk1@B.TEST"},
		{"zookeeper/all@B.TEST", "zk1", "zookeeper/all@B.TEST"},
	} {
		m := with(nil)
		m.service, m.ask = tc.option, func(name string) (*ticket, error) { return nil, errors.New("asked for " + name) }
		if _, err := m.start(t.Context(), tc.host); err == nil || !strings.HasSuffix(err.Error(), "asked for "+tc.want) {
			t.Errorf("%s at %s: %v", tc.option, tc.host, err)
		}
	}
}

// A ticket is used until five seconds before its end. The clock begins with the year 2000.
func TestTheEndOfATicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		m := with(func() (*ticket, error) { asked++; return &ticket{end: time.Now().Add(time.Minute)}, nil })
		for after, want := range []int{0: 1, 54: 1, 55: 2, 56: 2, 109: 2, 110: 3} {
			if want == 0 {
				continue
			}
			time.Sleep(time.Until(time.Date(2000, 1, 1, 0, 0, after, 0, time.UTC)))
			if _, err := m.ticket(t.Context(), service); err != nil || asked != want {
				t.Errorf("after %d s: %v, asked %d times, want %d", after, err, asked, want)
			}
		}
	})
}
