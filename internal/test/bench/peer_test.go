package bench

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

type peer struct {
	name    string
	library string // the library that it drives, if that is not its name
	version string
	driver  *realzk.Child
}

// startPeers starts all available peers, and describes the others.
func startPeers(t *testing.T, names ...string) (peers map[string]*peer, skipped []string) {
	t.Helper()
	peers = map[string]*peer{}
	for _, name := range names {
		p := &peer{name: name}
		switch name {
		case curator:
			cmd, missing := realzk.CuratorProgram(t, filepath.Join("curator", "Driver.java"))
			if missing != "" {
				skipped = append(skipped, missing)
				continue
			}
			p.driver = realzk.StartProgram(t, cmd)
		case kazoo:
			cmd, missing := realzk.KazooProgram(filepath.Join("kazoo", "driver.py"))
			if missing != "" {
				skipped = append(skipped, missing)
				continue
			}
			p.driver = realzk.StartProgram(t, cmd)
		default:
			p.driver = realzk.StartChild(t, childEnv, name)
		}
		p.version = p.driver.Hears("hello")
		peers[name] = p
	}
	return peers, skipped
}

// do runs a job on the peer; before and after are called around its cycles.
func (p *peer) do(t *testing.T, j job, before, after func()) answer {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	p.driver.Say(string(text))
	p.driver.Hears("ready")
	before()
	p.driver.Say("go")
	var a answer
	if err := json.Unmarshal([]byte(p.driver.Hears("done")), &a); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	after()
	p.driver.Say("end")
	p.driver.Hears("closed")
	return a
}
