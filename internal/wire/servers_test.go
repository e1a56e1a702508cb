package wire

import (
	"slices"
	"testing"
)

func TestParseConfig(t *testing.T) {
	const names = `server.1=zk1:2888:3888:participant;0.0.0.0:2181
server.2=zk2:2888:3888:observer;10.0.0.2:2182
server.3=[2001:db8::3]:2888:3888;2183
server.4=zk4:2888:3888|zk4b:2888:3888:participant;[::]:2184
server.5=zk5:2888:3888:participant;zk5.example.com:2185;0.0.0.0:2285
version=100000000`
	for _, c := range []struct {
		text   string
		secure bool
		want   []string // nil: an error
	}{
		{names, false, []string{"10.0.0.2:2182", "[2001:db8::3]:2183", "zk1:2181", "zk4:2184", "zk5.example.com:2185"}},
		{"server.1=zk1:2888:3888;2181\r\nserver.2=zk2:2888:3888;2181\r\n", false, []string{"zk1:2181", "zk2:2181"}},
		{"server.1=zk1:2888:3888:participant;2181;2281\nserver.2=zk2:2888:3888:participant;;[::1]:2282", true, []string{"[::1]:2282", "zk1:2281"}},
		{"server.1=zk1:2888:3888:participant;;2281", false, nil},
		{names, true, nil},
		{"server.1=zk1:2888:3888;2181\nserver.2=zk2:2888:3888:participant\nversion=0", false, nil},
		{"server.1=zk1:2888:3888;port", false, nil},
		{"version=0", false, nil},
		{"", false, nil},
	} {
		got, err := parseConfig(c.text, c.secure)
		if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(got, c.want) {
			t.Errorf("%q, secure %v: got %q, %v, want %q", c.text, c.secure, got, err, c.want)
		}
	}
}
