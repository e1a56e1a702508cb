package kerberos

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"
)

// An outage is the error of a KDC that cannot be reached, or cannot answer now.
type outage struct{ error }

func (o outage) Unwrap() error { return o.error }

// guard calls f, and returns its error: an outage as it is, any other as a refusal. gokrb5 panics
// where a file or a packet ends too early, and where GODEBUG=fips140=only forbids its SHA-1.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: malformed input, or a hash that GODEBUG=fips140=only forbids: %v", zk.ErrAuthFailed, p)
		}
	}()
	err = f()
	if err == nil || errors.As(err, new(outage)) {
		return err
	}
	return fmt.Errorf("%w: %w", zk.ErrAuthFailed, err)
}

// hints are what to check, by words in the KDC's answer.
var hints = []struct{ word, hint string }{
	{"clock skew with KDC too large", skewed},
	{"KRB_AP_ERR_SKEW", skewed},
	{"KDC_ERR_C_PRINCIPAL_UNKNOWN", "the KDC does not know the principal"},
	{"KDC_ERR_S_PRINCIPAL_UNKNOWN", "the KDC does not know the service: give Connect the servers' full host names, and not their addresses, or name the principal and its realm by WithService"},
	{"matching key not found in keytab", "the keytab has no key of the principal for the KDC's encryption type: see klist -ke"},
	{"KDC_ERR_PREAUTH_FAILED", "the key does not fit the KDC's: compare the key numbers of klist -k and of kvno"},
	{"Decrypting_Error", "the key does not fit the KDC's: compare the key numbers of klist -k and of kvno"},
	{"KDC_ERR_ETYPE_NOSUPP", "no encryption type in common: see klist -ke, and default_tkt_enctypes in krb5.conf"},
	{"no KDCs defined", "krb5.conf names no KDC"},
}

const skewed = "the clocks of this machine and of the KDC differ by more than five minutes (clockskew in krb5.conf): set both by NTP"

// explain returns an error of gokrb5 with what was asked for, and what to check. gokrb5's errors
// have no types. realm is the realm whose KDC was asked.
func explain(err error, asked, realm string) error {
	text := err.Error()
	for _, h := range hints {
		if strings.Contains(text, h.word) {
			return fmt.Errorf("%s: %s: %w", asked, h.hint, err)
		}
	}
	if strings.Contains(text, "Networking_Error") || strings.Contains(text, "KDC_ERR_SVC_UNAVAILABLE") {
		return outage{fmt.Errorf("%s: no KDC of realm %s answers: check that it runs, its address in [realms] of krb5.conf, and TCP and UDP port 88 in firewalls: %w", asked, realm, err)}
	}
	return fmt.Errorf("%s: %w", asked, err)
}
