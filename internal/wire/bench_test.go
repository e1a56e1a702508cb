package wire_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// The cost of a packetConn per call: compare with the bare client.
func BenchmarkExists(b *testing.B) {
	for _, tc := range []struct {
		name    string
		connect func(b *testing.B) *zk.Conn
	}{
		{"wire", func(b *testing.B) *zk.Conn { return realzk.Connect(b, 10*time.Second).Conn }},
		{"bare", func(b *testing.B) *zk.Conn {
			conn, _, err := zk.Connect(realzk.Servers(b), 10*time.Second, zk.WithLogInfo(false))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(conn.Close)
			return conn
		}},
	} {
		conn := tc.connect(b)
		call := func(b *testing.B) {
			if _, _, err := conn.Exists("/"); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(tc.name+"/1", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call(b)
			}
		})
		b.Run(tc.name+"/64", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call(b)
				}
			})
		})
	}
}
