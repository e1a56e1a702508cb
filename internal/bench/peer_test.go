package bench

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/zktest"
)

// peer is a driver that has been started.
type peer struct {
	name    string
	version string
	driver  *zktest.Child
}

// startPeers starts all that can be had, and tells in words which cannot.
func startPeers(t *testing.T, names ...string) (peers map[string]*peer, skipped []string) {
	t.Helper()
	peers = map[string]*peer{}
	for _, name := range names {
		p := &peer{name: name}
		switch name {
		case curator:
			cmd, missing := curatorDriver(t)
			if missing != "" {
				skipped = append(skipped, missing)
				continue
			}
			p.driver = zktest.StartProgram(t, cmd)
		case kazoo:
			cmd, missing := kazooDriver()
			if missing != "" {
				skipped = append(skipped, missing)
				continue
			}
			p.driver = zktest.StartProgram(t, cmd)
		default:
			p.driver = zktest.StartChild(t, childEnv, name)
		}
		p.version = p.driver.Hears("hello")
		peers[name] = p
	}
	return peers, skipped
}

// curatorDriver compiles it. Debian's jar names what it depends on.
func curatorDriver(t *testing.T) (cmd *exec.Cmd, missing string) {
	t.Helper()
	const jar = "/usr/share/java/curator-recipes.jar"
	java, err := exec.LookPath("java")
	javac, err2 := exec.LookPath("javac")
	if _, err3 := os.Stat(jar); err != nil || err2 != nil || err3 != nil {
		return nil, "Curator is skipped: apt-get install libcurator-recipes-java default-jdk-headless"
	}
	classes := t.TempDir()
	source := filepath.Join("curator", "Driver.java")
	if out, err := exec.Command(javac, "-d", classes, "-cp", jar, source).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", source, err, out)
	}
	path := strings.Join([]string{classes, jar, "/usr/share/java/slf4j-nop.jar"}, string(os.PathListSeparator))
	return exec.Command(java, "-cp", path, "Driver"), ""
}

// kazooDriver takes Debian's Python, for another that comes first on PATH does
// not see Debian's packages.
func kazooDriver() (cmd *exec.Cmd, missing string) {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import kazoo.client").Run() == nil {
			return exec.Command(python, filepath.Join("kazoo", "driver.py")), ""
		}
	}
	return nil, "kazoo is skipped: apt-get install python3-kazoo"
}

// do has the peer do one job; before and after are called around its cycles.
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
