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
	if slices.Min(ports) <= lane() || slices.Max(ports) >= lane()+width {
		t.Errorf("ports %v are not of the lane at %d", ports, lane())
	}
	runtime.GC() // which closes a listener that is not referred to
	runtime.GC()
	if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", Host, lane())); err == nil {
		l.Close()
		t.Error("another process can take the lane")
	}
	// The lane of a process whose number leads to ours is another.
	if l, at := freeLane(os.Getpid() + lanes); l == nil || at == lane() {
		t.Errorf("the lane at %d is given twice, or none", at)
	} else {
		l.Close()
	}
}
