package zktest

import (
	"fmt"
	"math/rand/v2"
	"net"
)

const host = "127.0.0.1"

// freePorts finds n ports that nobody listens on. They lie below the range
// from which systems take the ports of outgoing connections: there, a client
// that keeps dialling a killed server's port can be given that very port as
// its own, connects to itself, and the server can never come back to it.
//
// All are held open until the last is found, so that they differ; in the
// moment between closing and the server's bind one can still be stolen, which
// is why starting retries.
func freePorts(n int) ([]int, error) {
	const low, high = 15000, 32000
	var ports []int
	for range 1000 {
		port := low + rand.IntN(high-low)
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
		if err != nil {
			continue
		}
		defer l.Close()
		ports = append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("zktest: no %d free ports on %s", n, host)
}
