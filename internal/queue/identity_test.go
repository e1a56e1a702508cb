package queue

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestIdentify(t *testing.T) {
	for data, want := range map[string]identity{
		`{"host":"db7","pid":4711}`:            {"db7", 4711},
		` {"pid":1, "host":"a.b", "more":[1]}`: {"a.b", 1}, // of a later version
		`{"pid":12}`:                           {"", 12},
		`{"host":"db7"}`:                       {"db7", 0},
		`{}`:                                   {},
		``:                                     {},
		`10.0.0.7`:                             {}, // Curator's
		`db7|kazoo`:                            {}, // kazoo's, if its user says so
		`4711`:                                 {},
		`null`:                                 {},
		`["db7",4711]`:                         {},
		`{"host":7,"pid":"x"}`:                 {},
		`{"host":"db7","pid":1e99}`:            {},
		`{"host":"db7","pid":-3}`:              {"db7", 0},
		`{"host":"a b\u001b[2J","pid":1}`:      {"", 1}, // would clear a terminal
		`{"host":"db7","pid":1}{}`:             {},
		`{"host":"` + strings.Repeat("x", 300) + `","pid":1}`:   {"", 1},
		`{"pid":1,"more":"` + strings.Repeat("x", 5<<10) + `"}`: {},
		"\x00\x01\xff": {},
	} {
		if host, pid := identify([]byte(data)); host != want.Host || pid != want.Pid {
			t.Errorf("%q: host %q, pid %d, want %+v", data, host, pid, want)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	for _, seed := range []string{
		`{"host":"db7","pid":4711}`, `{"host":"","pid":0}`, `{"pid":-1}`, `{"host":"\u0000"}`, `{"host":"a","host":"b"}`,
		`{"HOST":"x"}`, `10.0.0.7`, ``, `null`, `[]`, `"db7"`, `{"host":{}}`, `{"pid":1e3}`, `{"pid":99999999999999999999}`, "\xff\xfe", `{"host":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		host, pid := identify(data)
		if !bytes.Equal(data, before) {
			t.Error("the data were changed")
		}
		if pid < 0 || len(host) > 255 || strings.ContainsFunc(host, unicode.IsControl) {
			t.Errorf("host %q, pid %d", host, pid)
		}
		if (host != "" || pid != 0) && !json.Valid(data) {
			t.Errorf("read %q, %d from what is no JSON", host, pid)
		}
		// What was read can be written, and reads the same.
		written, err := json.Marshal(identity{host, pid})
		if err != nil {
			t.Fatal(err)
		}
		if h, p := identify(written); h != host || p != pid {
			t.Errorf("%s reads as %q, %d", written, h, p)
		}
	})
}
