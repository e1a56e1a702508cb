package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/wire"
)

// security holds the flags for an ensemble with TLS or credentials. The flags name files, never
// secrets: ps shows a program's arguments to every user of the machine, and the command inherits
// the environment.
type security struct {
	tls           bool
	wrong         map[string]error // invalid variables, by the flags that override them
	ca, cert, key string
	authFile      string
	sasl
}

func (s *security) define(flags *flag.FlagSet) {
	s.wrong = map[string]error{}
	s.boolVar(flags, &s.tls, "tls", "ZK_TLS", "talk TLS, to a secureClientPort; default: ZK_TLS")
	flags.StringVar(&s.ca, "ca", os.Getenv("ZK_CA"), "`file`: authorities to trust, in PEM; default: ZK_CA,\nthen those of the system")
	flags.StringVar(&s.cert, "cert", os.Getenv("ZK_CERT"), "`file`: certificate to show, in PEM; default: ZK_CERT")
	flags.StringVar(&s.key, "key", os.Getenv("ZK_KEY"), "`file`: key of -cert, in PEM; default: ZK_KEY, then the\nfile of -cert")
	flags.StringVar(&s.authFile, "auth-file", os.Getenv("ZK_AUTH_FILE"),
		"`file`: digest identities, user:password on a line; what\nzklock makes is theirs alone; default: ZK_AUTH_FILE")
	s.boolVar(flags, &s.kerberos, "kerberos", "ZK_KERBEROS", "Kerberos: the ticket of kinit; default: ZK_KERBEROS")
	s.sasl.define(flags)
}

// boolVar defines a flag that a variable sets, too.
func (s *security) boolVar(flags *flag.FlagSet, on *bool, name, variable, usages string) {
	text := os.Getenv(variable)
	enabled, err := strconv.ParseBool(cmp.Or(text, "false"))
	if err != nil {
		s.wrong[name] = usage("%s=%s: want 1 or 0", variable, text)
	}
	*on = enabled
	flags.BoolFunc(name, usages, func(text string) (err error) {
		if *on, err = strconv.ParseBool(text); err != nil {
			return errors.New("want 1 or 0")
		}
		delete(s.wrong, name)
		return nil
	})
}

// options returns the options for zklocks.Connect.
func (s *security) options() (opts []zklocks.ConnectOption, err error) {
	for _, err := range s.wrong {
		return nil, err
	}
	switch {
	case !s.tls && cmp.Or(s.ca, s.cert, s.key) != "":
		return nil, usage("-ca, -cert and -key (ZK_CA, ZK_CERT, ZK_KEY) need -tls (ZK_TLS=1)")
	case s.cert == "" && s.key != "":
		return nil, usage("-key (ZK_KEY) needs -cert (ZK_CERT)")
	}
	if s.authFile != "" {
		if opts, err = s.credentials(); err != nil {
			return nil, err
		}
	}
	mechanism, err := s.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		// AuthACL means all identities of the connection; -auth-file adds some.
		opts = append(opts, zklocks.WithSASL(mechanism), zklocks.WithACL(zk.AuthACL(zk.PermAll)))
	}
	if s.tls {
		if _, err := s.config(); err != nil {
			return nil, err
		}
		opts = append(opts, slot.Connect{Wire: wire.WithTLSFrom(s.config)})
	}
	return opts, nil
}

// config is called for each network connection.
func (s *security) config() (*tls.Config, error) {
	config := &tls.Config{}
	if s.ca != "" {
		text, err := s.read(s.ca)
		if err != nil {
			return nil, usage("-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, usage("-ca %s: it has no certificate in PEM", s.ca)
		}
	}
	if s.cert == "" {
		return config, nil
	}
	key := cmp.Or(s.key, s.cert)
	certPEM, err := s.read(s.cert)
	keyPEM, err2 := s.read(key)
	cert, err3 := tls.X509KeyPair(certPEM, keyPEM)
	if err := cmp.Or(err, err2, err3); err != nil {
		return nil, usage("-cert %s with the key of %s: %w", s.cert, key, err)
	}
	// The field Certificates would not do: the client sends only certificates whose authority the
	// server names.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return config, nil
}

// credentials returns options that authenticate with each identity in the file, and protect the
// nodes that zklock creates with these identities.
func (s *security) credentials() (opts []zklocks.ConnectOption, err error) {
	users, err := s.users("-auth-file", s.authFile)
	if err != nil {
		return nil, err
	}
	var acl []zk.ACL
	for _, u := range users {
		opts = append(opts, zklocks.WithDigestAuth(u.name, u.password))
		acl = append(acl, zk.DigestACL(zk.PermAll, u.name, u.password)...)
	}
	return append(opts, zklocks.WithACL(acl)), nil
}

type user struct{ name, password string }

// files are the files that flags name. They are read for each network connection, because a
// password or a certificate may be replaced while a job runs. A pipe, like <(...) of a shell, can be
// read once, and a file may be gone later: then the last content counts.
type files struct {
	mu   sync.Mutex
	kept map[string][]byte // by path
}

func (f *files) read(path string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept, is := f.kept[path]
	if info, err := os.Stat(path); is && (err != nil || !info.Mode().IsRegular()) {
		return kept, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if f.kept == nil {
		f.kept = map[string][]byte{}
	}
	f.kept[path] = text
	return text, nil
}

// small returns what the files had when they were read last, but not files, of many authorities,
// that the pipe to the guard may not take before the guard reads.
func (f *files) small() map[string][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	small := maps.Clone(f.kept)
	maps.DeleteFunc(small, func(_ string, text []byte) bool { return len(text) > 8<<10 })
	return small
}

// users reads the file of a flag, with user:password on each line that is not empty. The errors
// show nothing of the file.
func (f *files) users(flag, file string) (users []user, err error) {
	text, err := f.read(file)
	switch {
	case err != nil && strings.Contains(file, ":"): // the argument may be a password
		return nil, usage("%s takes the name of a file, and user:password is in the file", flag)
	case err != nil:
		return nil, usage("%s: %w", flag, err)
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		name, password, _ := strings.Cut(line, ":")
		if name == "" || password == "" {
			return nil, usage("%s %s: line %d is not user:password", flag, file, number)
		}
		users = append(users, user{name, password})
	}
	if users == nil {
		return nil, usage("%s %s: it has no line user:password", flag, file)
	}
	return users, nil
}
