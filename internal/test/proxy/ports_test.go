package proxy

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
)

func TestALaneIsTakenForAsLongAsTheProcessLives(t *testing.T) {
	ports, err := FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	_, ours := lane()
	if slices.Min(ports) <= ours || slices.Max(ports) >= ours+width {
		t.Errorf("ports %v are not of the lane at %d", ports, ours)
	}
	runtime.GC() // would close a listener without references
	runtime.GC()
	if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", Host, ours)); err == nil {
		l.Close()
		t.Error("another process can take the lane")
	}
	// A process whose id leads to our lane finds another lane.
	if l, at := freeLane(os.Getpid() + lanes); l == nil || at == ours {
		t.Errorf("the lane at %d is given twice, or none", at)
	} else {
		l.Close()
	}
}
