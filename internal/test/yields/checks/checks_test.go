package checks

import (
	"strings"
	"testing"
)

func TestOrder(t *testing.T) {
	upper, lower := Tiers[0][0], Tiers[len(Tiers)-1][0]
	const me = -1 // not the number of a goroutine
	for name, c := range map[string]struct {
		take []string
		want string
	}{
		"downwards":              {[]string{upper, lower}, ""},
		"upwards":                {[]string{lower, upper}, "takes " + upper + " and holds " + lower},
		"two of a tier":          {[]string{upper, upper}, "takes " + upper + " and holds " + upper},
		"without a place":        {[]string{"wire.new.mu"}, "no place"},
		"one that may be nested": {[]string{nests[0], nests[0]}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			defer delete(held.by, me)
			defer func() {
				got, _ := recover().(string)
				if c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("panics with %q, want %q", got, c.want)
				}
			}()
			for _, name := range c.take {
				take(me, name)
			}
			for _, name := range c.take {
				give(me, name)
			}
			if len(held.by[me]) > 0 {
				t.Errorf("still holds %q", held.by[me])
			}
		})
	}
}

func TestNoGoroutineWaitsWithAMutex(t *testing.T) {
	Waits()
	var me int64
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, Tiers[0][0]) {
			t.Errorf("panics with %q", got)
		}
		give(me, Tiers[0][0])
	}()
	me = current()
	take(me, Tiers[0][0])
	Waits()
}
