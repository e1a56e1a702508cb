package realzk

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// Ensemble is a ZooKeeper cluster of several server processes.
type Ensemble struct {
	servers []*Server
	links   []*link // with Options.Partitions
}

// StartEnsemble runs n servers (usually 3), and returns when all of them serve.
func StartEnsemble(n int, opts Options) (*Ensemble, error) {
	if n < 2 {
		return nil, fmt.Errorf("realzk: an ensemble of %d: use Start", n)
	}
	if _, err := findJava(); err != nil {
		return nil, err
	}
	var err error
	for range startTries {
		var e *Ensemble
		if e, err = newEnsemble(n, opts); err != nil {
			return nil, err
		}
		if err = e.all((*Server).launch); err == nil {
			if err = e.ready(startTimeout); err == nil {
				return e, nil
			}
		}
		_ = e.Stop()
	}
	return nil, err
}

func newEnsemble(n int, opts Options) (*Ensemble, error) {
	ports, err := proxy.FreePorts(3 * n) // client, quorum, election
	if err != nil {
		return nil, err
	}
	e := &Ensemble{}
	for i := range n {
		s, err := newServer(opts, ports[i])
		if err != nil {
			_ = e.Stop()
			return nil, err
		}
		s.id = i + 1
		e.servers = append(e.servers, s)
	}
	quorum, election := ports[n:2*n], ports[2*n:]
	if opts.Partitions {
		if e.links, err = newLinks(quorum, election); err != nil {
			_ = e.Stop()
			return nil, err
		}
	}
	for _, s := range e.servers {
		for j, o := range e.servers {
			s.cluster = append(s.cluster, o.line(quorum[j], election[j]))
		}
	}
	for _, l := range e.links { // a member has the addresses of our proxies for the others
		e.servers[l.from-1].cluster[l.to-1] = fmt.Sprintf("server.%d=%s:%s", l.to, l.quorum.Addr(), port(l.election))
	}
	return e, nil
}

// line returns the server's line in the configuration.
func (s *Server) line(quorum, election int) string {
	line := fmt.Sprintf("server.%d=%s:%d:%d", s.id, proxy.Host, quorum, election)
	if s.opts.Dynamic {
		line += ":participant;" + s.addr
	}
	return line
}

// Add starts one more member of an ensemble with Options.Dynamic, and returns it with its line of
// the configuration. The member serves when a client has added the line by a reconfiguration.
func (e *Ensemble) Add() (s *Server, line string, err error) {
	ports, err := proxy.FreePorts(3)
	if err != nil {
		return nil, "", err
	}
	first := e.servers[0]
	if s, err = newServer(first.opts, ports[0]); err != nil {
		return nil, "", err
	}
	s.id = len(e.servers) + 1
	line = s.line(ports[1], ports[2])
	s.cluster = append(slices.Clone(first.cluster), line)
	e.servers = append(e.servers, s) // Stop stops it, too
	return s, line, s.launch()
}

func (e *Ensemble) ready(within time.Duration) error {
	if err := e.all(func(s *Server) error { return s.ready(within) }); err != nil {
		return err
	}
	_, err := e.Leader()
	return err
}

// all calls f for all servers concurrently.
func (e *Ensemble) all(do func(*Server) error) error {
	errs := make([]error, len(e.servers))
	var wg sync.WaitGroup
	for i, s := range e.servers {
		wg.Go(func() { errs[i] = do(s) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Servers returns the members, in the order of their ids.
func (e *Ensemble) Servers() []*Server { return slices.Clone(e.servers) }

// Addrs returns the members' client addresses.
func (e *Ensemble) Addrs() []string {
	var addrs []string
	for _, s := range e.servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Leader returns the member that leads. It waits for an election, as long as for a start: the
// members wait for each other for initLimit, up to 20 seconds, before they begin another election.
func (e *Ensemble) Leader() (*Server, error) {
	var leader *Server
	test.Poll(startTimeout, func() bool {
		if leaders := e.inState("leader"); len(leaders) == 1 {
			leader = leaders[0]
		}
		return leader != nil
	})
	if leader == nil {
		return nil, errors.New("realzk: the ensemble has no leader")
	}
	return leader, nil
}

// Followers returns the members that follow, without dead members.
func (e *Ensemble) Followers() ([]*Server, error) {
	if _, err := e.Leader(); err != nil {
		return nil, err
	}
	followers := e.inState("follower")
	if len(followers) == 0 {
		return nil, errors.New("realzk: the ensemble has no followers")
	}
	return followers, nil
}

// inState skips paused members, which would not answer.
func (e *Ensemble) inState(state string) []*Server {
	var in []*Server
	for _, s := range e.servers {
		if s.paused.Load() || !s.Alive() {
			continue
		}
		if mntr, err := s.Mntr(); err == nil && mntr["zk_server_state"] == state {
			in = append(in, s)
		}
	}
	return in
}

// Stop ends all members and removes their data.
func (e *Ensemble) Stop() error {
	err := e.all((*Server).Stop)
	for _, l := range e.links {
		l.close()
	}
	return err
}
