package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A deep is a server that records through how many buffers it is read.
type deep struct {
	script
	some  *rand.Rand // how much it sends at once
	depth int
}

func (d *deep) Read(p []byte) (int, error) {
	var pcs [1000]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	buffers := 0
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasPrefix(f.Function, "bufio.(*Reader).fill") || strings.HasPrefix(f.Function, "bufio.(*Reader).Read") {
			buffers++
		}
	}
	d.depth = max(d.depth, buffers)
	return d.script.Read(p[:min(len(p), 1+d.some.IntN(100_000))])
}

// A reply that is larger than any before it gets a larger buffer. It replaces the previous buffer.
// If it read from that one, replies that grow a little each time would keep all their buffers until
// the connection ends.
func TestABufferThatGrowsReplacesTheFormerOne(t *testing.T) {
	const replies, smallest, step = 100, readBuffer / 9, 100
	hello := handshakeFrame(fakeSession, 4000, 16)
	said := slices.Clone(hello)
	for i := range replies {
		body := header(int32(i + 1))
		for range smallest + i*step {
			body = append(body, slices.Concat(word(opCheck), []byte{0}, word(0))...)
		}
		body = append(body, slices.Concat(word(-1), []byte{1}, word(-1))...)
		said = append(said, frame(body)...)
		said = append(said, frame(header(-2))...) // a small one behind it is in the buffer when that grows
	}
	c := newConn([]string{"zk:1"}, 4*time.Second, settings{})
	defer c.leave()
	server := &deep{script: script{bytes.NewReader(said)}, some: rand.New(rand.NewPCG(1, 2))}
	w := newPacketConn(c, server, "zk:1", time.Second)
	w.Write(make([]byte, 49)) // a handshake that asks for a new session
	heard := make([]byte, len(said))
	if _, err := io.ReadFull(w, heard[:len(hello)]); err != nil { // requests from before the session are not recorded
		t.Fatal(err)
	}
	for i := range replies {
		request := binary.BigEndian.AppendUint32(word(8), uint32(i+1))
		w.Write(binary.BigEndian.AppendUint32(request, opMulti))
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	if _, err := io.ReadFull(w, heard[len(hello):]); err != nil {
		t.Fatal(err)
	}
	grown := int64(heap() - before)
	if !bytes.Equal(heard, said) {
		t.Error("the client did not hear what the server said")
	}
	if server.depth > 1 {
		t.Errorf("the server is read through %d buffers", server.depth)
	}
	if most := int64(2 * 9 * (smallest + replies*step)); grown > most {
		t.Errorf("%d KiB are kept, want the last buffer: %d KiB at most", grown>>10, most>>10)
	}
	runtime.KeepAlive(w)
}
