package proxy

import (
	"context"
	"fmt"
	"net"
)

// A Network is where a Proxy listens and dials: TCP, or a host of internal/memnet.
type Network interface {
	// Listen listens on an address of the network's choice if addr is empty.
	Listen(addr string) (net.Listener, error)
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

// TCP is the loopback interface of this machine.
type TCP struct{}

// DialContext dials as package net does.
func (TCP) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// Listen takes a port of FreePorts if addr is empty.
func (TCP) Listen(addr string) (net.Listener, error) {
	if addr != "" {
		return net.Listen("tcp", addr)
	}
	var err error
	for range 3 { // another process may take the port before it is bound
		var ports []int
		if ports, err = FreePorts(1); err != nil {
			return nil, err
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("%s:%d", Host, ports[0])); err == nil {
			return l, nil
		}
	}
	return nil, err
}
