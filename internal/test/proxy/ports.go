package proxy

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

const Host = "127.0.0.1"

// The ports of tests are split into lanes below the range for outgoing connections. In that range a
// client that dials a killed server's port repeatedly could be given that port for its own end. It
// would connect to itself, and the server could not listen there again.
const (
	lowest  = 15000
	highest = 32000
	lanes   = 50
	width   = (highest - lowest) / lanes
)

var (
	lastPort atomic.Uint32
	// lane is the lane of this process. Its listener is kept while the process lives.
	lane = sync.OnceValues(func() (net.Listener, int) { return freeLane(os.Getpid()) })
)

// freeLane finds a free lane, and takes it by listening on its first port. If no lane is free, it
// returns a lane to share, and a nil listener.
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
// It keeps all of them open until the last is found, so that they differ. Before the server binds a
// port, another program can still take it, so starting a server retries.
//
// No program listens on the port of a dead server, or of a proxy that refuses. So that no other
// test process takes it, each process has a lane of its own, and uses all ports of the lane before
// it uses a port again.
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
