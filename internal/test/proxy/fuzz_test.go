package proxy

import (
	"bytes"
	"testing"

	"github.com/zklocks/zklocks/internal/jute"
)

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, byte(jute.OpMulti), 0, 0, 0, byte(jute.OpCreate), 0, 255, 255, 255, 255, 0, 0, 0, 1, '/'})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, byte(jute.OpGetData)})
	f.Fuzz(func(t *testing.T, body []byte) {
		r := parseRequest(body) // any input: no panic, no endless loop
		if !r.Is(r.Op) {
			t.Errorf("%v is not %v", r, r.Op)
		}
	})
}

// ReadFrame returns the first frames of any stream.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 9, 'a'})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		var again bytes.Buffer
		for {
			body, err := jute.ReadFrame(r)
			if err != nil {
				break
			}
			if err := jute.WriteFrame(&again, body); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(stream, again.Bytes()) {
			t.Errorf("%x was read as %x", stream, again.Bytes())
		}
	})
}
