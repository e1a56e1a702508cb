package proxy

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

const Host = "127.0.0.1"

var lastPort atomic.Uint32

// FreePorts finds n ports on which no program listens. They lie below the range from which systems
// take the ports of outgoing connections: there, a client that keeps dialing a killed server's port
// can be given that very port as its own, connects to itself, and the server can never come back to
// it.
//
// All are held open until the last is found, so that they differ; between closing and the server's
// bind another process can still take one, which is why starting retries.
//
// No program listens on the port of a server that is down, or of a proxy that refuses. So that no
// other process takes it, each process mostly keeps to a range of its own, and goes once around it
// before it takes a port again.
func FreePorts(n int) ([]int, error) {
	const low, high, lanes = 15000, 32000, 50
	const width = (high - low) / lanes
	lane := low + os.Getpid()%lanes*width
	var ports []int
	for range 2 * width {
		port := lane + int(lastPort.Add(1)%width)
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
