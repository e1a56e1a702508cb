package explore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// A machine is the network of a host: a proxy in front of all members.
type machine struct {
	network *memnet.Network
	name    string
	latency time.Duration
	packets *proxy.Proxy
	addrs   []string      // addresses of the proxy, one for each member
	process *realzk.Child // on real servers, in the process of the nemesis; nil: elsewhere
}

// servers starts the ensemble, whose members listen.
func (w *world) servers() {
	w.network = memnet.New()
	w.ensemble = memzk.Start(memzk.Config{
		Members: w.plan.members, Tick: w.plan.tick, Random: rand.New(rand.NewPCG(w.seed, 3)),
		Phase: w.plan.phase, ContainerCheck: w.plan.reap,
		SyncLimit: int(w.session / w.plan.tick), // one session: a deposed leader answers for that long
		Log:       func(text string) { w.say("", "server: %s", text) },
	})
	w.doors = make(map[int]func())
	for _, m := range w.ensemble.Members() {
		w.accept(m)
	}
}

func memberHost(m *memzk.Member) string { return fmt.Sprintf("zk%d", m.ID()) }
func memberAddr(m *memzk.Member) string { return memberHost(m) + ":2181" }

// accept makes a member listen for clients, until refuse or the end of the network.
func (w *world) accept(m *memzk.Member) {
	l, err := w.network.Listen(memberAddr(m))
	if err != nil {
		panic(err) // there is only one listener at a time
	}
	go func() { _ = m.Serve(l) }() // until l is closed
	w.doors[m.ID()] = func() { l.Close() }
}

func (w *world) refuse(m *memzk.Member) { w.doors[m.ID()]() }

func (w *world) machine(name string, latency time.Duration) *machine {
	m := &machine{network: w.network, name: name, latency: latency}
	host := w.network.Host(name)
	for _, member := range w.ensemble.Members() {
		if m.packets == nil {
			p, err := proxy.On(host, memberAddr(member))
			if err != nil {
				panic(err)
			}
			m.packets, m.addrs = p, []string{p.Addr()}
			continue
		}
		addr, err := m.packets.Open(host, memberAddr(member))
		if err != nil {
			panic(err)
		}
		m.addrs = append(m.addrs, addr)
	}
	m.heal()
	return m
}

// connect waits for a session as long as it takes.
func (m *machine) connect(session time.Duration) (*zklocks.Conn, error) {
	if m.network == nil {
		return zklocks.Connect(context.Background(), m.addrs, session)
	}
	return zklocks.Connect(context.Background(), m.addrs, session, zklocks.WithDialer(m.network.Host(m.name).DialContext))
}

// A line is the network of a host, or one direction of it.
type line interface {
	Cut()
	Partition()
	Freeze()
	Thaw()
	Delay(time.Duration)
}

func (m *machine) all() line {
	if m.process != nil {
		return proxied{m, m.packets.Mute}
	}
	return m.network.Between(m.name, memnet.Any)
}

func (m *machine) out() line {
	if m.process != nil {
		return proxied{m, m.packets.MuteRequests}
	}
	return m.network.OneWay(m.name, memnet.Any)
}

func (m *machine) in() line {
	if m.process != nil {
		return proxied{m, m.packets.MuteReplies}
	}
	return m.network.OneWay(memnet.Any, m.name)
}

// heal ends all faults of the network; the latency remains.
func (m *machine) heal() {
	if m.process != nil {
		m.packets.Unmute()
		return
	}
	all := m.network.Between(m.name, memnet.Any)
	all.Heal()
	all.Delay(m.latency)
}
