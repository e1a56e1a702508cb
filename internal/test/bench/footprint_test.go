package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
)

// BenchmarkFootprint reports the memory and the goroutines of a connection, a hold and a waiter, on a
// server of another process: B/each is heap and stacks after a collection, goroutines/each includes
// the goroutine that the waiter itself blocks.
func BenchmarkFootprint(b *testing.B) {
	const many = 50 // a server accepts 60 connections from an address, unless it is configured otherwise
	servers := realzk.Servers(b)
	connect := func(b *testing.B) *zklocks.Conn {
		conn, err := zklocks.Connect(b.Context(), servers, sessionTimeout)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	waiters := func(b *testing.B, path string, value func() *rwlock.RWMutex) func() {
		holder := connect(b)
		if _, err := rwlock.New(holder, path).Lock(b.Context()); err != nil {
			b.Fatal(err)
		}
		list := func() int { return len(test.Children(b, holder.Client(), path)) }
		list() // makes the client
		var all sync.WaitGroup
		b.Cleanup(all.Wait)
		return func() {
			for range many {
				all.Go(func() { _, _ = value().Lock(b.Context()) }) // until the context is canceled
			}
			test.Eventually(b, time.Minute, "all wait", func() bool { return list() == many+1 })
		}
	}
	for _, row := range []struct {
		name    string
		prepare func(b *testing.B, path string) (take func())
	}{
		{"Conn", func(b *testing.B, _ string) func() {
			return func() {
				for range many {
					connect(b)
				}
			}
		}},
		{"Conn and its Client", func(b *testing.B, _ string) func() {
			return func() {
				for range many {
					connect(b).Client()
				}
			}
		}},
		{"zk.Conn", func(b *testing.B, _ string) func() {
			return func() {
				for range many {
					conn, events, err := zk.Connect(servers, sessionTimeout, zk.WithLogInfo(false))
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(conn.Close)
					for e := range events {
						if e.State == zk.StateHasSession {
							break
						}
					}
				}
			}
		}},
		{"hold", func(b *testing.B, path string) func() {
			conn, holds := connect(b), make([]*zklocks.Hold, many)
			b.Cleanup(func() { runtime.KeepAlive(holds) })
			return func() {
				for i := range holds {
					var err error
					if holds[i], err = rwlock.New(conn, lockOf(path, i)).Lock(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
		}},
		{"waiter, one lock value", func(b *testing.B, path string) func() {
			shared := rwlock.New(connect(b), path)
			return waiters(b, path, func() *rwlock.RWMutex { return shared })
		}},
		{"waiter, a lock value each", func(b *testing.B, path string) func() {
			conn := connect(b)
			return waiters(b, path, func() *rwlock.RWMutex { return rwlock.New(conn, path) })
		}},
	} {
		b.Run(row.name, func(b *testing.B) {
			take := row.prepare(b, test.Path(b))
			memory, goroutines := footprint()
			take()
			memory2, goroutines2 := footprint()
			b.ReportMetric(float64(memory2-memory)/many, "B/each")
			b.ReportMetric(float64(goroutines2-goroutines)/many, "goroutines/each")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func footprint() (memory int64, goroutines int) {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// BenchmarkStart reports the time from the start of a program to the start of the command that it
// runs with a lock, as the command's clock says.
func BenchmarkStart(b *testing.B) {
	zklock := filepath.Join(b.TempDir(), "zklock")
	build := exec.Command("go", "build", "-o", zklock, ".")
	build.Dir = filepath.Join("..", "..", "..", "cmd", "zklock")
	if text, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
	servers := strings.Join(realzk.Servers(b), ",")
	for _, row := range []struct {
		name    string
		program []string
	}{
		{"no lock", nil},
		{"flock", []string{"flock", filepath.Join(b.TempDir(), "lock")}},
		{"zklock run", []string{zklock, "run", "-servers", servers, test.Path(b), "--"}},
		{"etcdctl lock", etcdctlLock(b)},
	} {
		b.Run(row.name, func(b *testing.B) {
			if len(row.program) > 0 {
				if _, err := exec.LookPath(row.program[0]); err != nil {
					b.Skip(err)
				}
			}
			var took []float64 // milliseconds
			for range b.N {
				args := append(slices.Clone(row.program), "date", "+%s%N")
				began := time.Now()
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Stderr = os.Stderr
				text, err := cmd.Output()
				if err != nil {
					b.Fatal(err)
				}
				at, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
				if err != nil {
					b.Fatal(fmt.Errorf("date has no nanoseconds: %w", err))
				}
				took = append(took, float64(time.Unix(0, at).Sub(began))/float64(time.Millisecond))
			}
			b.ReportMetric(median(took), "ms/median")
			b.ReportMetric(took[len(took)*9/10], "ms/p90") // median has sorted it
			b.ReportMetric(0, "ns/op")
		})
	}
}

// etcdctlLock returns etcdctl lock, with a server of its own if Debian's etcd-server is installed.
func etcdctlLock(b *testing.B) []string {
	lock := []string{"etcdctl", "lock", "/start"}
	if _, err := exec.LookPath("etcd"); err != nil {
		return lock
	}
	urls := make([]string, 2)
	for i := range urls {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		urls[i] = "http://" + l.Addr().String()
		l.Close()
	}
	server := exec.Command("etcd", "--data-dir", b.TempDir(), "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0],
		"--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--initial-cluster", "default="+urls[1])
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	test.Eventually(b, time.Minute, "etcd serves", func() bool {
		return exec.Command("etcdctl", "--endpoints", urls[0], "get", "/start").Run() == nil
	})
	return append(lock, "--endpoints", urls[0], "--")
}
