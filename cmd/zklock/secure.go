package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"os"
	"strconv"
	"strings"

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
	wrong         error // an invalid ZK_TLS, which the flag overrides
	ca, cert, key string
	authFile      string
}

func (s *security) define(flags *flag.FlagSet) {
	on := os.Getenv("ZK_TLS")
	enabled, err := strconv.ParseBool(cmp.Or(on, "false"))
	if err != nil {
		s.wrong = usage("ZK_TLS=%s: want 1 or 0", on)
	}
	s.tls = enabled
	flags.BoolFunc("tls", "talk TLS, to a secureClientPort; default: ZK_TLS", func(text string) (err error) {
		if s.tls, err = strconv.ParseBool(text); err != nil {
			return errors.New("want 1 or 0")
		}
		s.wrong = nil
		return nil
	})
	flags.StringVar(&s.ca, "ca", os.Getenv("ZK_CA"), "`file`: authorities to trust, in PEM; default: ZK_CA,\nthen those of the system")
	flags.StringVar(&s.cert, "cert", os.Getenv("ZK_CERT"), "`file`: certificate to show, in PEM; default: ZK_CERT")
	flags.StringVar(&s.key, "key", os.Getenv("ZK_KEY"), "`file`: key of -cert, in PEM; default: ZK_KEY, then the\nfile of -cert")
	flags.StringVar(&s.authFile, "auth-file", os.Getenv("ZK_AUTH_FILE"),
		"`file`: digest identities, user:password on a line; what\nzklock makes is open to these alone; default:\nZK_AUTH_FILE")
}

// options returns the options for zklocks.Connect.
func (s *security) options() (opts []zklocks.ConnectOption, err error) {
	switch {
	case s.wrong != nil:
		return nil, s.wrong
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
	if s.tls {
		if _, err := s.config(); err != nil {
			return nil, err
		}
		opts = append(opts, slot.Connect{Wire: wire.WithTLSFrom(s.config)})
	}
	return opts, nil
}

// config reads the files. It is called for each network connection, because a certificate or an
// authority may be replaced while a job runs.
func (s *security) config() (*tls.Config, error) {
	config := &tls.Config{}
	if s.ca != "" {
		text, err := os.ReadFile(s.ca)
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
	cert, err := tls.LoadX509KeyPair(s.cert, key)
	if err != nil {
		return nil, usage("-cert %s with the key of %s: %w", s.cert, key, err)
	}
	// The field Certificates would not do: the client sends only certificates whose authority the
	// server names.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return config, nil
}

// credentials returns options that authenticate with each identity in the file, and protect the
// nodes that zklock creates with these identities. The errors show nothing of the file.
func (s *security) credentials() (opts []zklocks.ConnectOption, err error) {
	text, err := os.ReadFile(s.authFile)
	switch {
	case err != nil && strings.Contains(s.authFile, ":"): // the argument may be a password
		return nil, usage("-auth-file takes the name of a file, and user:password is in the file")
	case err != nil:
		return nil, usage("-auth-file: %w", err)
	}
	var acl []zk.ACL
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		user, password, _ := strings.Cut(line, ":")
		if user == "" || password == "" {
			return nil, usage("-auth-file %s: line %d is not user:password", s.authFile, number)
		}
		opts = append(opts, zklocks.WithDigestAuth(user, password))
		acl = append(acl, zk.DigestACL(zk.PermAll, user, password)...)
	}
	if acl == nil {
		return nil, usage("-auth-file %s: it has no line user:password", s.authFile)
	}
	return append(opts, zklocks.WithACL(acl)), nil
}
