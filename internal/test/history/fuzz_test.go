package history

import (
	"bytes"
	"testing"
)

// Whatever is left of a record, it is read as holds, no more than it has lines, which can be
// checked; or it is refused.
func FuzzRead(f *testing.F) {
	var record bytes.Buffer
	r := NewRecorder("a client", &record)
	h := r.Begin(Hold{Path: "/a", Kind: Exclusive, Token: 7})
	r.Begin(Hold{Path: "/b"})
	h.End()
	f.Add(record.Bytes(), int64(0))
	f.Add(record.Bytes()[:record.Len()-3], int64(5)) // cut short by the kill
	f.Add([]byte("{\"id\":0,\"begin\":{}}\n{\"id\":0,\"end\":-1}\n"), int64(1))
	f.Add([]byte("{\"id\":1,\"end\":3}\n"), int64(0))
	f.Add([]byte("{\"id\":-1,\"begin\":{}}\nnull\n"), int64(0))
	f.Fuzz(func(t *testing.T, record []byte, died int64) {
		holds, err := Read(bytes.NewReader(record), died)
		if err != nil {
			if holds != nil {
				t.Errorf("%d holds and %v", len(holds), err)
			}
			return
		}
		if lines := bytes.Count(record, []byte("\n")); len(holds) > lines {
			t.Errorf("%d holds in %d lines", len(holds), lines)
		}
		Check(Rules{}, holds)
	})
}
