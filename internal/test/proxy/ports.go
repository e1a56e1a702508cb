package proxy

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

const Host = "127.0.0.1"

// The ports of tests are split into lanes. They lie below the range from which systems take the
// ports of outgoing connections: there, a client that keeps dialing a killed server's port can be
// given that very port as its own, connects to itself, and the server can never come back to it.
const (
	lowest  = 15000
	highest = 32000
	lanes   = 50
	width   = (highest - lowest) / lanes
)

var (
	lastPort atomic.Uint32
	// lane is that of this process. It keeps the listener for as long as the process lives.
	lane = sync.OnceValues(func() (net.Listener, int) { return freeLane(os.Getpid()) })
)

// freeLane finds a lane that no process has taken, and takes it by a listener on its first port. If
// all are taken it is shared, and the listener nil.
func freeLane(pid int) (net.Listener, int) {
	for i := range lanes {
		at := lowest + (pid+i)%lanes*width
		if l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", Host, at)); err == nil {
			return l, at
		}
	}
	return nil, lowest + pid%lanes*width
}

// FreePorts finds n ports on which no program listens.
//
// All are held open until the last is found, so that they differ; between closing and the server's
// bind a program that is no test can still take one, which is why starting retries.
//
// No program listens on the port of a server that is down, or of a proxy that refuses. So that no
// other test process takes it, each has a lane of its own, and goes once around it before it takes
// a port again.
func FreePorts(n int) ([]int, error) {
	_, at := lane()
	var ports []int
	for range 2 * width {
		port := at + 1 + int(lastPort.Add(1)%(width-1))
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", Host, port))
		if err != nil {
			continue
		}
		defer l.Close()
		ports = append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("proxy: no %d free ports on %s", n, Host)
}
