package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// peer is a library in its own process. It receives a line and answers with a line:
//
//	take WHO KIND PATH                         ok    WHO has begun to acquire the lock
//	holds WHO                                  holds yes, or holds no
//	await WHO                                  ok    when it holds
//	give WHO                                   ok
//	downgrade WHO                              ok    Curator only
//	leader WHO PATH KIND                       leader ID, as WHO sees it
//	ask WHO NODE                               ok    Curator only: WHO asks NODE to release
//	asked WHO                                  ok    Curator only: when WHO is asked, and listens
//	open SESSIONS                              ok    so many sessions are open, for a fight
//	fight PATH COUNTER KIND,... CYCLES         fought [hold, ...]
//	part                                       ok    all sessions are closed
type peer struct {
	driver *realzk.Child
	path   string
}

func needsPeers(t *testing.T) {
	t.Helper()
	if os.Getenv("INTEROP") == "" {
		t.Skip("needs Curator or kazoo: make interop runs it")
	}
}

func (s *story) curator() *peer {
	s.Helper()
	needsPeers(s.T)
	cmd, text := realzk.CuratorProgram(s, filepath.Join("curator", "Peer.java"), s.Server)
	return startPeer(s.T, s.Path, cmd, text)
}

func (s *story) kazoo() *peer {
	s.Helper()
	needsPeers(s.T)
	cmd, text := realzk.KazooProgram(filepath.Join("kazoo", "peer.py"), s.Server)
	return startPeer(s.T, s.Path, cmd, text)
}

func startPeer(t *testing.T, path string, cmd *exec.Cmd, text string) *peer {
	t.Helper()
	if cmd == nil {
		t.Fatal(text)
	}
	return &peer{driver: realzk.StartProgram(t, cmd), path: path}
}

func (p *peer) do(words ...string) {
	p.driver.Say(strings.Join(words, " "))
	p.driver.Hears("ok")
}

func (p *peer) party(who string) party { return peerParty{p, who} }

func (p *peer) part() { p.do("part") }

func (p *peer) open(sessions int) { p.do("open", strconv.Itoa(sessions)) }

func (p *peer) fight(counter string, kinds []string) (ended func() []history.Hold) {
	p.driver.Say(fmt.Sprintf("fight %s %s %s %d", p.path, counter, strings.Join(kinds, ","), cycles))
	return func() []history.Hold {
		var holds []history.Hold
		if err := json.Unmarshal([]byte(p.driver.Hears("fought")), &holds); err != nil {
			panic(err)
		}
		return holds
	}
}

// leader returns the leader as a peer sees it.
func (p *peer) leader(who, kind string) string {
	p.driver.Say("leader " + who + " " + p.path + " " + kind)
	return p.driver.Hears("leader")
}

// peerParty is a session and a thread of a peer.
type peerParty struct {
	*peer
	who string
}

func (p peerParty) take(kind string) { p.do("take", p.who, kind, p.path) }
func (p peerParty) await()           { p.do("await", p.who) }
func (p peerParty) give()            { p.do("give", p.who) }
func (p peerParty) downgrade()       { p.do("downgrade", p.who) }

func (p peerParty) holds() bool {
	p.driver.Say("holds " + p.who)
	return p.driver.Hears("holds") == "yes"
}
