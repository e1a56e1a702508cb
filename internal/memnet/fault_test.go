package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/memnet"
)

func TestCutEndsConnectionsAtOnce(t *testing.T) {
	both(t, func(t *testing.T) {
		p := newPair(t)
		write(t, p.a, "arrived")
		p.Between("a", "b").Cut()
		read(t, p.b, "arrived")
		readError(t, p.a, syscall.ECONNRESET)
		readError(t, p.b, syscall.ECONNRESET)
		if _, err := p.a.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: %v", err)
		}
		a, b := p.connect(t) // the network itself is well
		write(t, a, "x")
		read(t, b, "x")
	})
}

func TestCutInOneDirectionLeavesTheOtherEndOpen(t *testing.T) {
	both(t, func(t *testing.T) {
		p := newPair(t)
		p.OneWay("a", "b").Cut()
		readError(t, p.b, syscall.ECONNRESET)
		silent(t, p.a)
		write(t, p.a, "x")
		readError(t, p.a, syscall.ECONNRESET)
	})
}

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

func TestDialWaitsForTheNetworkToHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		for _, fault := range []func(){p.Between("a", "b").Partition, p.OneWay("b", "a").Freeze} {
			fault()
			began := time.Now()
			time.AfterFunc(time.Minute, p.Between(memnet.Any, "b").Heal)
			a, b := p.connect(t)
			if d := time.Since(began); d != time.Minute {
				t.Errorf("connected after %v", d)
			}
			write(t, a, "x")
			read(t, b, "x")
		}
		p.Between("a", "b").Partition()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := p.Host("a").DialContext(ctx, "tcp", "b:1"); !errors.Is(err, context.Canceled) {
			t.Errorf("dial: %v", err)
		}
	})
}

func TestDelayKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		began := time.Now()
		p.OneWay("a", "b").Delay(3 * time.Second)
		write(t, p.a, "one")
		time.Sleep(time.Second)
		write(t, p.a, "two")
		p.OneWay("a", "b").Delay(0)
		write(t, p.a, "three") // not in front of two
		must(t, p.a.Close())
		for _, want := range []struct {
			text  string
			after time.Duration
		}{{"one", 3 * time.Second}, {"two", 4 * time.Second}, {"three", 4 * time.Second}} {
			read(t, p.b, want.text)
			if d := time.Since(began); d != want.after {
				t.Errorf("%s after %v, want %v", want.text, d, want.after)
			}
		}
		readError(t, p.b, io.EOF)
	})
}

func TestLatencyIsNotHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.SetLatency(time.Second)
		p.Between("a", "b").Delay(time.Second)
		began := time.Now()
		p.connect(t)
		if d := time.Since(began); d != 4*time.Second {
			t.Errorf("connected after %v, want the delays of both directions", d)
		}
		for _, want := range []time.Duration{2 * time.Second, time.Second} {
			began := time.Now()
			write(t, p.a, "x")
			read(t, p.b, "x")
			if d := time.Since(began); d != want {
				t.Errorf("read after %v, want %v", d, want)
			}
			p.Between("a", memnet.Any).Heal()
		}
		// A goroutine that polls does not stop the clock.
		go func() { _, _ = io.Copy(p.b, p.b) }()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			write(t, p.a, "x")
			read(t, p.a, "x")
		}
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

func TestFreezeDeliversAllAtTheThaw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		for _, end := range []func(){p.OneWay("a", "b").Thaw, p.Between(memnet.Any, "a").Heal} {
			p.OneWay("a", memnet.Any).Freeze()
			write(t, p.a, "one")
			time.Sleep(time.Hour)
			write(t, p.a, "two")
			write(t, p.b, "back")
			read(t, p.a, "back")
			silent(t, p.b)
			end()
			began := time.Now()
			read(t, p.b, "onetwo")
			if d := time.Since(began); d != 0 {
				t.Errorf("%v after the thaw", d)
			}
		}
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
		if got := n.Rules(); got != 0 {
			t.Errorf("%d rules are left after all is healed", got)
		}
	})
}

func TestNoGoroutinesAndNoConnectionsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		for range 100 {
			a, b := p.connect(t)
			write(t, a, "x")
			read(t, b, "x")
			must(t, a.Close())
			must(t, b.Close())
		}
		if n := p.Ends(); n != 2 { // the ends of the pair itself
			t.Errorf("the network keeps %d ends", n)
		}
	})
}
