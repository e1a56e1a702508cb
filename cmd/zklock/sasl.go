package main

import (
	"cmp"
	"context"
	"flag"
	"os"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/kerberos"
)

// sasl holds the flags for servers that demand SASL.
type sasl struct {
	files
	file                       string
	kerberos                   bool // with kinit's ticket, unless there is a keytab
	keytab, principal, service string
}

// define defines the flags but -kerberos.
func (s *sasl) define(flags *flag.FlagSet) {
	flags.StringVar(&s.keytab, "keytab", os.Getenv("ZK_KEYTAB"), "`file`: Kerberos, with a keytab; default: ZK_KEYTAB")
	flags.StringVar(&s.principal, "principal", os.Getenv("ZK_PRINCIPAL"), "`name`: whose key -keytab has; default: ZK_PRINCIPAL")
	flags.StringVar(&s.service, "service", os.Getenv("ZK_SERVICE"), "`name`: Kerberos service; default: ZK_SERVICE, zookeeper")
	flags.StringVar(&s.file, "sasl-file", os.Getenv("ZK_SASL_FILE"), "`file`: user:password, DIGEST-MD5; default: ZK_SASL_FILE")
}

// mechanism returns the mechanism of SASL; nil: none.
func (s *sasl) mechanism() (zklocks.SASLMechanism, error) {
	byKerberos := s.kerberos || s.keytab != ""
	switch {
	case s.file != "" && byKerberos:
		return nil, usage("-sasl-file (ZK_SASL_FILE) does not go with -kerberos and -keytab (ZK_KERBEROS, ZK_KEYTAB)")
	case (s.keytab == "") != (s.principal == ""):
		return nil, usage("-keytab (ZK_KEYTAB) and -principal (ZK_PRINCIPAL) go together")
	case s.service != "" && !byKerberos:
		return nil, usage("-service (ZK_SERVICE) needs -keytab or -kerberos (ZK_KEYTAB, ZK_KERBEROS)")
	}
	service := kerberos.WithService(cmp.Or(s.service, "zookeeper"))
	switch {
	case s.keytab != "":
		return kerberos.Keytab(s.keytab, s.principal, service), nil
	case s.kerberos:
		return kerberos.Cache("", service), nil
	case s.file != "":
		if _, err := s.user(); err != nil {
			return nil, err
		}
		return s.digest, nil
	}
	return nil, nil
}

// digest is a zklocks.SASLMechanism.
func (s *sasl) digest(ctx context.Context, host string) (func([]byte) ([]byte, bool, error), error) {
	u, err := s.user()
	if err != nil {
		return nil, err
	}
	return zklocks.SASLDigest(u.name, u.password)(ctx, host)
}

// user returns the user in the file.
func (s *sasl) user() (user, error) {
	users, err := s.users("-sasl-file", s.file)
	if err != nil {
		return user{}, err
	}
	if len(users) > 1 {
		return user{}, usage("-sasl-file %s: it has %d users, and a client is one", s.file, len(users))
	}
	return users[0], nil
}
