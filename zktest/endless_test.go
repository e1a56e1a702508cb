package zktest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// A test whose job never ends fails, in another process, and names the hold and the job. A test that
// takes days of its bubble in little real time passes, and so does one of much real time and few
// hours.
func TestEndless(t *testing.T) {
	const env = "ZKTEST_ENDLESS"
	play := map[string]func(t *testing.T, s *zktest.Server){
		"a job that ignores its context": func(t *testing.T, s *zktest.Server) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			mu := rwlock.New(s.Host("left").Connect(t, 10*time.Second), "/x")
			go func() {
				defer close(done)
				ignores(ctx, mu)
			}()
			cancel()
			<-done
		},
		"days": func(t *testing.T, s *zktest.Server) {
			zktest.Impatient(time.Hour)
			s.Host("left").Connect(t, 10*time.Second)
			time.Sleep(2 * 24 * time.Hour) // virtual
		},
		"hours": func(t *testing.T, s *zktest.Server) {
			s.Host("left").Connect(t, 10*time.Second)
			time.Sleep(23 * time.Hour) // virtual
		},
	}
	if name := os.Getenv(env); name != "" {
		zktest.Impatient(time.Millisecond)
		synctest.Test(t, func(t *testing.T) { play[name](t, zktest.NewServer(t)) })
		return
	}
	t.Parallel()
	for name := range play {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestEndless$")
			cmd.Env = append(os.Environ(), env+"="+name)
			out, err := cmd.CombinedOutput()
			if name != "a job that ignores its context" {
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			for _, says := range []string{
				"zktest: TestEndless does not end: it has run for ", "s, and for 25h0m0s in its bubble", "held: write /x, token ", "acquired at endless_test.go:",
				"node of a session: /x/", "zktest_test.ignores(",
			} {
				if err == nil || !strings.Contains(string(out), says) {
					t.Errorf("%v, does not say %q:\n%s", err, says, out)
				}
			}
			if strings.Contains(string(out), "internal/memnet.(*Conn).Read(") {
				t.Errorf("it shows goroutines of the server:\n%s", out)
			}
		})
	}
}

func ignores(ctx context.Context, mu *rwlock.RWMutex) {
	if hold, err := mu.Lock(context.WithoutCancel(ctx)); err == nil {
		<-hold.Lost()
	}
}
