package memnet_test

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/memnet"
)

func TestPartitionIsABlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		other, otherB := p.connect(t) // sends nothing during the partition
		half := p.Between("a", "b")
		half.Partition()
		write(t, p.a, "lost")
		write(t, p.b, "lost")
		silent(t, p.b)
		silent(t, p.a)
		must(t, p.a.CloseWrite())
		silent(t, p.b) // not even the end arrives

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := p.Host("a").DialContext(ctx, "tcp", "b:1")
		if time.Since(began) != time.Hour || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("dial: %v after %v", err, time.Since(began))
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v is no timeout", err)
		}

		half.Heal()
		readError(t, p.a, syscall.ECONNRESET) // a stream has no gap
		readError(t, p.b, syscall.ECONNRESET)
		write(t, other, "x")
		read(t, otherB, "x")
	})
}

func TestWhatIsUnderWayIsLostInABlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.OneWay("a", "b").Delay(2 * time.Second)
		write(t, p.a, "one")
		time.Sleep(time.Second)
		write(t, p.a, "two")
		time.Sleep(1500 * time.Millisecond)
		p.Between("a", "b").Partition()
		read(t, p.b, "one")
		time.Sleep(time.Hour)
		silent(t, p.b)
		p.Between("a", "b").Heal()
		readError(t, p.b, syscall.ECONNRESET)
	})
}

func TestFaultsOfManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		for _, host := range []string{"a", "b", "c"} {
			l, err := n.Listen(host + ":1")
			must(t, err)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					c.Close()
				}
			}()
		}
		defer n.Close()
		reach := func(from, to string) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := n.Host(from).DialContext(ctx, "tcp", to+":1")
			if err != nil {
				return false
			}
			return c.Close() == nil
		}
		for _, c := range []struct {
			what        string
			do          func()
			ab, ac, bc  bool
			loopbackOfA bool
		}{
			{"nothing", func() {}, true, true, true, true},
			{"a apart", n.Between("a", memnet.Any).Partition, false, false, true, true},
			{"a to b again", n.Between("b", "a").Heal, true, false, true, true},
			{"a healed", n.Between("a", memnet.Any).Heal, true, true, true, true},
			{"all apart", n.Between(memnet.Any, memnet.Any).Partition, false, false, false, true},
			{"b healed", n.Between(memnet.Any, "b").Heal, true, false, true, true},
			{"c frozen", n.OneWay(memnet.Any, "c").Freeze, true, false, false, true},
			{"c healed, still apart from none", n.Between("c", memnet.Any).Heal, true, true, true, true},
			{"a apart from itself", n.OneWay("a", "a").Partition, true, true, true, false},
			{"all healed", n.Between(memnet.Any, memnet.Any).Heal, true, true, true, false},
			{"a itself healed", n.Between("a", "a").Heal, true, true, true, true},
		} {
			c.do()
			ab, ac, bc, aa := reach("a", "b"), reach("a", "c"), reach("b", "c"), reach("a", "a")
			if ab != c.ab || ac != c.ac || bc != c.bc || aa != c.loopbackOfA {
				t.Errorf("%s: a reaches b %v, c %v, itself %v; b reaches c %v", c.what, ab, ac, aa, bc)
			}
		}
	})
}
