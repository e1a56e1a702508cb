package memzk

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// What one request does is compared with real servers: internal/test/differ.

// A container is deleted if it has had a child and has none. There is a pause between two deletes.
func TestContainersAreSwept(t *testing.T) {
	bubble(t, Config{Members: 3, ContainerCheck: 10 * time.Second}, func(t *testing.T, e *Ensemble) {
		r := rawSession(t, e.Members()[0], 40*time.Second)
		for _, path := range []string{"/fresh", "/used", "/worn", "/worn2"} {
			r.must(jute.OpCreateContainer, createBody(path, jute.FlagContainer))
		}
		for _, path := range []string{"/used/n", "/worn/n", "/worn2/n"} {
			r.mustCreate(path, 0)
		}
		after := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			if nodes := e.Nodes(); len(nodes) != want {
				t.Errorf("after %v: nodes %v, want %d", e.now(), nodes, want)
			}
		}
		after(11*time.Second, 7)
		r.must(jute.OpDelete, deleteBody("/worn/n", -1))
		r.must(jute.OpDelete, deleteBody("/worn2/n", -1))
		after(8*time.Second, 5)
		after(time.Second+sweepPause/2, 4)
		after(sweepPause, 3)
		if _, there := e.Nodes()["/fresh"]; !there {
			t.Error("a container that has had no child is deleted")
		}
	})
}

// At the end of the numbers the number does not grow, so the next name exists already.
func TestTheEndOfTheSequence(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, e *Ensemble) {
		r := rawSession(t, e.Members()[0], 10*time.Second)
		r.mustCreate("/a", 0)
		if !e.SetSequence("/a", 1<<31-2) || e.SetSequence("/none", 0) {
			t.Error("SetSequence")
		}
		next := func(want string) {
			t.Helper()
			if p := r.call(jute.OpCreate, createBody("/a/n-", jute.FlagSequential)); p.string() != want {
				t.Errorf("%d %q, want %q", p.code, p.string(), want)
			}
		}
		next("/a/n-2147483646")
		next("/a/n-2147483647")
		next("") // it exists
		e.SetSequence("/a", -5)
		next("/a/n--000000005")
	})
}

func TestACLsOfIPv6Addresses(t *testing.T) {
	for version, want := range map[string]int32{"3.9.3": jute.CodeInvalidACL, "3.9.4": jute.CodeOK} {
		bubble(t, Config{Version: version}, func(t *testing.T, e *Ensemble) {
			r := rawSession(t, e.Members()[0], 10*time.Second)
			body := jute.AppendBytes(jute.AppendText(nil, "/a"), []byte{})
			body = jute.AppendInt32(appendACL(body, []acl{{31, ident{"ip", "::/0"}}}), 0)
			if p := r.call(jute.OpCreate, body); p.code != want {
				t.Errorf("%s: %d, want %d", version, p.code, want)
			}
			if p := r.call(jute.OpGetData, pathBody("/a", false)); p.code == jute.CodeOK {
				t.Errorf("%s: a client with an IPv4 address reads the node", version)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]behavior{
		"3.8.0": {readForEvents: true, checkAlone: true},
		"3.8.3": {checkAlone: true, create2InMulti: true},
		"3.8.4": {readForEvents: true, readForExists: true, checkAlone: true, create2InMulti: true},
		"3.8.6": {readForEvents: true, readForExists: true, create2InMulti: true},
		"3.9.0": {zxidInEvents: true, checkAlone: true, create2InMulti: true, watchModes: true, readOnlyAlways: true},
		"3.9.3": {zxidInEvents: true, readForEvents: true, readForExists: true, create2InMulti: true, watchModes: true},
		"3.9.5": {zxidInEvents: true, readForEvents: true, readForExists: true, create2InMulti: true, watchModes: true, ipv6: true},
	} {
		if got := behaviorOf(version); got != want {
			t.Errorf("%s: %+v, want %+v", version, got, want)
		}
	}
	for _, version := range []string{"3", "3.9", "3.9.x", "3.9.-1", "3.9.3.1", "3.7.2"} {
		if IsVersion(version) {
			t.Errorf("%q is taken for a version", version)
		}
	}
}
