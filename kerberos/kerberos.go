// Package kerberos authenticates the connections of package zklocks by Kerberos (SASL's mechanism
// GSSAPI), for ZooKeeper servers with a Krb5LoginModule. It needs no C library.
//
//	conn, err := zklocks.Connect(ctx, servers, 10*time.Second,
//		zklocks.WithSASL(kerberos.Keytab("/etc/app.keytab", "app@EXAMPLE.COM")),
//		zklocks.WithACL(zk.AuthACL(zk.PermAll))) // only this principal may touch the locks
//
// The KDC must know the servers by the host names that are given to Connect: the server zk1 in that
// list is the service zookeeper/zk1, see [WithService].
//
// # Renewal
//
// A mechanism keeps a ticket for each service until five seconds before the ticket expires. Then,
// and when a server has refused the ticket, it asks the KDC for another. It reads krb5.conf and the
// keytab or the credential cache again each time. So the program needs no restart, and loses no
// hold, when a ticket expires, a keytab is replaced, the server has a new key, or another KDC
// answers. Several connections can share a mechanism, and then they share its tickets. A mechanism
// has a goroutine only while it waits for the KDC.
//
// # Errors
//
// A refusal matches zk.ErrAuthFailed, and says what to check: a file that is missing or cannot be
// read, a principal or a service that the KDC does not know, a key that does not fit. While no KDC
// can be reached, Connect tries again until its ctx is canceled. Once Connect has returned, a
// connection that needs no ticket remains, whatever happens to the KDC.
//
// # Realms
//
// The servers may be in another realm that trusts the program's. Their realm is the one of
// [WithService], else that of their host in [domain_realm] of krb5.conf, else the program's own, whose
// KDC may refer to another. [capaths] names the realms between the two.
//
// # Limits
//
// The library below, gokrb5, tries the KDCs of a realm in random order and waits five seconds for
// each that does not answer. It reads no credential caches other than files (FILE:), finds no realm
// by DNS (dns_lookup_realm), and has no RC4 keys. With GODEBUG=fips140=only the mechanism fails
// where it needs SHA-1, as for the usual keys (aes256-cts-hmac-sha1-96).
package kerberos

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zklocks/zklocks"
)

// An Option changes a default of [Keytab] and [Cache].
type Option func(*mechanism)

// WithService sets the principal of the servers: a service name, for servers with the principals
// name/HOST, with HOST as given to Connect; or "name/host", the principal of all servers. "@REALM"
// may follow: the servers' realm. The default is "zookeeper", with the realm of krb5.conf: see
// Realms.
func WithService(name string) Option { return func(m *mechanism) { m.service = name } }

// WithConfig sets the path of krb5.conf, or several, as in "a:b": the values in the first count, and
// some may be missing. The default is the environment variable KRB5_CONFIG, and /etc/krb5.conf
// without it.
func WithConfig(file string) Option { return func(m *mechanism) { m.config = file } }

// Keytab authenticates as a principal by its key in a keytab file. principal is "name@REALM", or
// "name" in the default realm of krb5.conf.
func Keytab(file, principal string, opts ...Option) zklocks.SASLMechanism {
	return newMechanism(opts, func(cfg *config.Config, _ profile) (*login, error) {
		keys, err := loadKeys(file)
		if err != nil {
			return nil, err
		}
		name, realm, _ := strings.Cut(principal, "@")
		realm = cmp.Or(realm, cfg.LibDefaults.DefaultRealm)
		if name == "" || realm == "" {
			return nil, fmt.Errorf("principal %q: want name@REALM, or name and a default_realm in krb5.conf", principal)
		}
		who := client.NewWithKeytab(name, realm, keys, cfg, client.DisablePAFXFAST(true))
		request, err := messages.NewASReqForTGT(realm, cfg, who.Credentials.CName())
		if err != nil {
			return nil, err
		}
		reply, err := who.ASExchange(realm, request, 0)
		if err != nil {
			return nil, explain(err, fmt.Sprintf("principal %s of realm %s, with its key in %s", name, realm, file), realm)
		}
		return &login{who, reply.Ticket, reply.DecryptedEncPart.Key}, nil
	})
}

func loadKeys(file string) (*keytab.Keytab, error) {
	keys, err := keytab.Load(file)
	if err != nil {
		return nil, fmt.Errorf("keytab %s: %w", file, err)
	}
	// Of two keys of the same second gokrb5 takes the first.
	sort.SliceStable(keys.Entries, func(i, j int) bool { return keys.Entries[i].KVNO > keys.Entries[j].KVNO })
	return keys, nil
}

// Cache authenticates with the ticket in a credential cache, which kinit writes. file "" means the
// environment variable KRB5CCNAME, without it default_ccache_name of krb5.conf, and without that
// /tmp/krb5cc_UID. The cache must be a file: "FILE:/path", or its path. Another program must renew
// the ticket in the cache, such as k5start: see the page on Kerberos in docs/how-to.
func Cache(file string, opts ...Option) zklocks.SASLMechanism {
	return newMechanism(opts, func(cfg *config.Config, p profile) (*login, error) {
		name := cmp.Or(file, os.Getenv("KRB5CCNAME"), p.cache(), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()))
		path := strings.TrimPrefix(name, "FILE:")
		if kind, _, ok := strings.Cut(path, ":"); ok && !strings.Contains(kind, "/") {
			return nil, fmt.Errorf("credential cache %s: only files can be read, and not a cache of the kind %s: "+
				"call kinit -c FILE:/tmp/cache, and set KRB5CCNAME=FILE:/tmp/cache", name, kind)
		}
		if strings.Contains(path, "%{") {
			return nil, fmt.Errorf("credential cache %s: only uid, euid, USERID and TEMP are known in %%{}: set KRB5CCNAME", name)
		}
		cache, err := credentials.LoadCCache(path)
		if err != nil {
			return nil, fmt.Errorf("credential cache %s (run kinit, or set KRB5CCNAME): %w", path, err)
		}
		who, err := client.NewFromCCache(cache, cfg, client.DisablePAFXFAST(true))
		if err != nil {
			return nil, fmt.Errorf("credential cache %s: %w", path, err)
		}
		entry, _ := cache.GetEntry(types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/"+cache.GetClientRealm()))
		if !time.Now().Before(entry.EndTime) {
			return nil, fmt.Errorf("credential cache %s: its ticket has expired at %v; run kinit again", path, entry.EndTime)
		}
		l := &login{client: who, key: entry.Key}
		return l, l.ticket.Unmarshal(entry.Ticket)
	})
}

// A login is a client that has a ticket-granting ticket.
type login struct {
	client *client.Client
	ticket messages.Ticket
	key    types.EncryptionKey
}

// A mechanism keeps a ticket for each service.
type mechanism struct {
	service, config string
	login           func(*config.Config, profile) (*login, error)
	ask             func(service string) (*ticket, error) // fromKDC; tests replace it

	mu      sync.Mutex          // guards what follows; not held while the KDC is asked
	tickets map[string]*ticket  // by service; none that was sent and has not been accepted yet
	asked   map[string]*request // by service: under way
}

// A ticket is immutable.
type ticket struct {
	messages.Ticket
	key  types.EncryptionKey
	user *credentials.Credentials
	end  time.Time
}

// A request to the KDC is shared by all that need the ticket.
type request struct {
	done   chan struct{} // closed when the result is there
	ticket *ticket
	err    error
}

// spare is how long a ticket must be valid to be sent.
const spare = 5 * time.Second

func newMechanism(opts []Option, login func(*config.Config, profile) (*login, error)) zklocks.SASLMechanism {
	m := &mechanism{service: "zookeeper", login: login, tickets: map[string]*ticket{}, asked: map[string]*request{}}
	m.ask = m.fromKDC
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return m.start
}

// start is the zklocks.SASLMechanism.
func (m *mechanism) start(ctx context.Context, host string) (func([]byte) ([]byte, bool, error), error) {
	service, realm, realmed := strings.Cut(m.service, "@")
	parts := strings.Split(service, "/")
	if len(parts) > 2 || slices.Contains(parts, "") || realmed && (realm == "" || strings.Contains(realm, "@")) {
		return nil, fmt.Errorf("%w: service %q: want name or name/host, and perhaps @REALM", zk.ErrAuthFailed, m.service)
	}
	if len(parts) == 1 {
		service += "/" + strings.TrimSuffix(strings.ToLower(host), ".")
	}
	if realmed {
		service += "@" + realm
	}
	t, err := m.ticket(ctx, service)
	if err != nil {
		return nil, err
	}
	e := &exchange{mechanism: m, service: service, ticket: t}
	return e.next, nil
}

// ticket returns the ticket that is kept, or another one. gokrb5 takes no context: after ctx is
// canceled, the request continues, and the next call waits for the same request.
func (m *mechanism) ticket(ctx context.Context, service string) (*ticket, error) {
	m.mu.Lock()
	t, r := m.tickets[service], m.asked[service]
	if t != nil && time.Until(t.end) > spare {
		m.mu.Unlock()
		return t, nil
	}
	if r == nil {
		r = &request{done: make(chan struct{})}
		m.asked[service] = r
		go func() {
			defer close(r.done)
			r.err = guard(func() (err error) { r.ticket, err = m.ask(service); return err })
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.asked, service)
			if r.err == nil {
				m.tickets[service] = r.ticket
			}
		}()
	}
	m.mu.Unlock()
	select {
	case <-r.done:
		return r.ticket, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer from the KDC: %w", ctx.Err())
	}
}

// sent takes a ticket out: if the server has another key, it refuses the ticket, and the next
// exchange must have another one.
func (m *mechanism) sent(service string, t *ticket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tickets[service] == t {
		delete(m.tickets, service)
	}
}

// accepted keeps a ticket that the server could read.
func (m *mechanism) accepted(service string, t *ticket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tickets[service] = t
}

// fromKDC logs in and asks for the ticket of a service.
func (m *mechanism) fromKDC(service string) (*ticket, error) {
	p, err := readProfile(cmp.Or(m.config, os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf"))
	if err != nil {
		return nil, err
	}
	cfg, err := p.config()
	if err != nil {
		return nil, fmt.Errorf("krb5.conf: %w", err)
	}
	l, err := m.login(cfg, p)
	if err != nil {
		return nil, err
	}
	user := l.client.Credentials // Destroy replaces them
	defer l.client.Destroy()
	r := p.route(user.Domain(), service)
	var end time.Time
	err = r.walk(func(realm, name string) (next string, err error) {
		next, end, err = l.exchange(realm, name, r.target == "")
		return next, err
	})
	if err != nil {
		return nil, err
	}
	return &ticket{l.ticket, l.key, user, end}, nil
}
