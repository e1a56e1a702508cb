package proxy

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
)

// Two test processes in one lane would take the ports of each other's servers that are down.
func TestALaneIsTakenForAsLongAsTheProcessLives(t *testing.T) {
	ports, err := FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	_, ours := lane()
	if slices.Min(ports) <= ours || slices.Max(ports) >= ours+width {
		t.Errorf("ports %v are not of the lane at %d", ports, ours)
	}
	runtime.GC() // which closes a listener that is not referred to
	runtime.GC()
	if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", Host, ours)); err == nil {
		l.Close()
		t.Error("another process can take the lane")
	}
	// The lane of a process whose number leads to ours is another.
	if l, at := freeLane(os.Getpid() + lanes); l == nil || at == ours {
		t.Errorf("the lane at %d is given twice, or none", at)
	} else {
		l.Close()
	}
}
