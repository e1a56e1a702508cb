package differ

import (
	"encoding/binary"
	"testing"

	"github.com/zklocks/zklocks/internal/jute"
)

func xidOf(packet []byte) int32  { return int32(binary.BigEndian.Uint32(packet)) }
func codeOf(packet []byte) int32 { return int32(binary.BigEndian.Uint32(packet[12:])) }

// TestBugsAreFound: a few hundred sequences find each of these bugs, and report it in a few steps.
func TestBugsAreFound(t *testing.T) {
	t.Parallel()
	for name, bug := range map[string]func() func(packet []byte) [][]byte{
		"NotEmpty is said to be NoNode": func() func([]byte) [][]byte {
			return func(packet []byte) [][]byte {
				if codeOf(packet) == jute.CodeNotEmpty {
					code := jute.CodeNoNode
					binary.BigEndian.PutUint32(packet[12:], uint32(code))
				}
				return [][]byte{packet}
			}
		},
		"events of children are lost": func() func([]byte) [][]byte {
			return func(packet []byte) [][]byte {
				if xidOf(packet) == jute.XidEvent && binary.BigEndian.Uint32(packet[16:]) == 4 {
					return nil
				}
				return [][]byte{packet}
			}
		},
		"an event comes after the reply of its cause": func() func([]byte) [][]byte {
			var late [][]byte
			return func(packet []byte) [][]byte {
				if xidOf(packet) == jute.XidEvent {
					late = append(late, packet)
					return nil
				}
				packets := append([][]byte{packet}, late...)
				late = nil
				return packets
			}
		},
		"a failed write takes no zxid": func() func([]byte) [][]byte {
			failed := uint64(0)
			return func(packet []byte) [][]byte {
				if xidOf(packet) > 0 {
					if codeOf(packet) == jute.CodeNoNode {
						failed++
					}
					binary.BigEndian.PutUint64(packet[4:], binary.BigEndian.Uint64(packet[4:])-failed)
				}
				return [][]byte{packet}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pair{memory(t, "3.9.3", calm), memory(t, "3.9.3", calm)}
			p[1].Bug = bug
			for i := range int64(usualCount) {
				if d := p.compare(t, Generate(1, i)); d != nil {
					short := p.shrink(t, d, 400)
					if len(short.Sequence) > 6 {
						t.Errorf("sequence %d, %d steps of %d:\n%s", i, len(short.Sequence), len(d.Sequence), short)
					}
					if p.compare(t, short.Sequence) == nil {
						t.Errorf("this does not differ:\n%s", short)
					}
					return
				}
			}
			t.Errorf("not found in %d sequences", usualCount)
		})
	}
}
