package proxy

import (
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
