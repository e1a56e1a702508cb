package zklocks_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

var saslUsers = map[string]string{"bob": "secret", "eve": `p"\ä`, "Ωmega": "π"}

// as connects a new host as a user. It fails within a second or not at all.
func as(t *testing.T, s *zktest.Server, user, password string, opts ...zklocks.ConnectOption) (*zklocks.Conn, error) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	opts = append(opts, zklocks.WithDialer(s.Host("host of "+user).Dial),
		zklocks.WithSASL(zklocks.SASLDigest(user, password)), zklocks.WithACL(zk.AuthACL(zk.PermAll)))
	conn, err := zklocks.Connect(ctx, s.Addrs(), 10*time.Second, opts...)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("Connect of %q took %v", user, took)
	}
	return conn, err
}

// Each user locks what no other user may touch. A lock is kept while servers restart and while
// connections move, because each connection authenticates again.
func TestSASLDigest(t *testing.T) {
	for _, required := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.NewServer(t, zktest.WithMembers(3), zktest.WithSASL(saslUsers, required))
			holds := map[string]*zklocks.Hold{}
			conns := map[string]*zklocks.Conn{}
			for user, password := range saslUsers {
				conn, err := as(t, s, user, password, zklocks.WithDigestAuth("ann", "x"))
				if err != nil {
					t.Fatal(err)
				}
				conns[user] = conn
				if holds[user], err = rwlock.New(conn, "/of "+user).Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				acl, _, err := conn.Client().GetACL("/of " + user)
				if err != nil || len(acl) != 2 || acl[0] != (zk.ACL{Perms: zk.PermAll, Scheme: "sasl", ID: user}) || acl[1].Scheme != "digest" {
					t.Errorf("%v, %v", acl, err)
				}
			}
			if eve, err := as(t, s, "eve", saslUsers["eve"]); err != nil {
				t.Error(err)
			} else if _, err = rwlock.New(eve, "/of bob").TryLock(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("another user's lock: %v", err)
			}
			for _, m := range s.Members() {
				m.Kill()
				m.Restart()
				time.Sleep(20 * time.Second)
			}
			for range 6 {
				for _, conn := range conns {
					conn.Rebalance()
				}
				time.Sleep(5 * time.Second)
			}
			for user, hold := range holds {
				if err := hold.Release(t.Context()); err != nil {
					t.Errorf("%s: %v", user, err)
				}
			}
		})
	}
}

// What is wrong is said at once, and matches zk.ErrAuthFailed.
func TestSASLWithoutAMechanism(t *testing.T) {
	_, err := zklocks.Connect(t.Context(), []string{"127.0.0.1:1"}, time.Second, zklocks.WithSASL(nil))
	if err == nil || !strings.Contains(err.Error(), "the mechanism is nil") {
		t.Errorf("Connect returned %v", err)
	}
	if err := new(zklocks.Conn).SetServers([]string{"zk1"}); err == nil {
		t.Error("SetServers of a Conn that Connect has not made succeeded")
	}
}

func TestSASLWrong(t *testing.T) {
	type server struct {
		members int
		opts    []zktest.Option
	}
	sasl := func(members int, required bool) server {
		return server{members, []zktest.Option{zktest.WithMembers(members), zktest.WithSASL(saslUsers, required)}}
	}
	for name, tc := range map[string]struct {
		server         server
		user, password string
		says           string
	}{
		"a wrong password":      {sasl(1, false), "bob", "Secret", "a wrong user or password"},
		"the same, required":    {sasl(1, true), "bob", "", "a wrong user or password"},
		"the same, of five":     {sasl(5, true), "bob", "secret ", "a wrong user or password"},
		"an unknown user":       {sasl(3, false), "nobody", "secret", "a wrong user or password"},
		"no user":               {sasl(1, false), "", "secret", "DIGEST-MD5 without a user"},
		"a server without JAAS": {server{1, nil}, "bob", "secret", "the server does not offer DIGEST-MD5"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.NewServer(t, tc.server.opts...)
				_, err := as(t, s, tc.user, tc.password)
				if !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "ecret") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// Of a program's mechanism each response is sent, an empty one too, but for a last one that is nil.
func TestSASLOfAProgram(t *testing.T) {
	for name, responses := range map[string][]string{ // "nil" is nil
		"all empty": {"", "", ""}, "no last": {"a", "", "nil"}, "nil first": {"nil", ""}, "one": {"a"}, "an empty one": {""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var received, want []string
				network := memnet.New()
				listener, err := network.Listen("zk1:2181")
				if err != nil {
					t.Fatal(err)
				}
				servers := memzk.Start(memzk.Config{SASL: &memzk.SASL{Start: func(int64) memzk.SASLStep {
					return func(token []byte) ([]byte, string, error) {
						received = append(received, string(token))
						return []byte("challenge"), "", nil
					}
				}}})
				go servers.Leader().Serve(listener)
				for i, r := range responses {
					if r != "nil" || i < len(responses)-1 {
						want = append(want, strings.TrimPrefix(r, "nil"))
					}
				}
				conn, err := zklocks.Connect(t.Context(), []string{"zk1"}, 10*time.Second, zklocks.WithDialer(network.Host("here").DialContext),
					zklocks.WithSASL(func(context.Context, string) (func([]byte) ([]byte, bool, error), error) {
						i := -1
						return func([]byte) ([]byte, bool, error) {
							i++
							if responses[i] == "nil" {
								return nil, i == len(responses)-1, nil
							}
							return []byte(responses[i]), i == len(responses)-1, nil
						}, nil
					}))
				if err != nil || !slices.Equal(received, want) {
					t.Errorf("the server has received %q, want %q; %v", received, want, err)
				}
				conn.Close()
				time.Sleep(5 * time.Second) // until its goroutines have ended
				servers.Stop()
				network.Close()
			})
		})
	}
}

// The error of a program without SASL says that the server demands SASL.
func TestSASLDemanded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithSASL(saslUsers, true))
		conn := s.Host("here").Connect(t, 10*time.Second)
		_, err := rwlock.New(conn, "/l").Lock(t.Context())
		if !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), "/l: the server demands that clients authenticate, by SASL") {
			t.Error(err)
		}
		if _, _, err = conn.Client().Get("/"); err != zk.ErrAuthFailed {
			t.Error(err)
		}
	})
}

// A password that is changed at the servers ends a hold at its deadline, and not before. The error
// of a waiting call says why there is no connection.
func TestSASLPasswordChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithSASL(saslUsers, true))
		password := "secret"
		conn, err := zklocks.Connect(t.Context(), s.Addrs(), 10*time.Second, zklocks.WithDialer(s.Host("here").Dial),
			zklocks.WithSASL(func(ctx context.Context, host string) (func([]byte) ([]byte, bool, error), error) {
				return zklocks.SASLDigest("bob", password)(ctx, host)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		hold, err := rwlock.New(conn, "/l").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		deadline := hold.ValidUntil()
		password = "old"
		s.Members()[0].Kill()
		s.Members()[0].Restart()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := rwlock.New(conn, "/other").Lock(ctx); !errors.Is(err, zk.ErrAuthFailed) || !errors.Is(err, zklocks.ErrNoAnswer) {
			t.Error(err)
		}
		<-hold.Lost()
		if early := time.Until(deadline); early > time.Millisecond || early < -2*time.Second {
			t.Errorf("lost %v before the deadline", early)
		}
	})
}

// Without MD5 the mechanism fails, and does not panic.
func TestSASLDigestWithoutMD5(t *testing.T) {
	const env = "ZKLOCKS_TEST_WITHOUT_MD5"
	if os.Getenv(env) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSASLDigestWithoutMD5$")
		cmd.Env = append(os.Environ(), env+"=1", "GODEBUG=fips140=only")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	_, err := zklocks.SASLDigest("bob", "secret")(t.Context(), "zk1")
	if !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), "fips140=only") {
		t.Error(err)
	}
}
