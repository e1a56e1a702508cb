package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

// What the keeper decides after grants and keeps: a row has the steps of one lock value, in order.
func TestWhenAGrantIsWorthAKeep(t *testing.T) {
	t.Parallel()
	const d = time.Minute
	type step func(*keeper)
	grant := func(mark, next int64, pause time.Duration) step {
		return func(k *keeper) { time.Sleep(pause); k.granted(mark, next, d) } // virtual
	}
	kept := func(cost float64, uses int64) step { return func(k *keeper) { k.kept(cost, uses) } }
	left := func(k *keeper) { k.keeps() }
	// alone are grants between which nobody else came.
	alone := func(n int) (steps []step) {
		for i := range n {
			steps = append(steps, func(k *keeper) { k.granted(k.mark+1, k.mark+1, d) })
			if i < n-1 {
				steps = append(steps, left)
			}
		}
		return steps
	}
	after := func(all []step, more ...step) []step { return append(append([]step{}, all...), more...) }
	for name, c := range map[string]struct {
		steps []step
		want  bool
	}{
		"the first grant":                         {alone(1), false},
		"the second":                              {alone(2), false},
		"the third: two in a row":                 {alone(3), true},
		"somebody else came before the last":      {after(alone(5), left, grant(9, 7, 0)), false},
		"somebody else came, and two in a row":    {after(alone(5), left, grant(9, 7, 0), left, grant(10, 10, 0), left, grant(11, 11, 0)), true},
		"the last came as soon as may be":         {after(alone(3), left, grant(4, 4, d)), true},
		"the last came too late":                  {after(alone(9), left, grant(10, 10, d+1)), false},
		"late, and one more":                      {after(alone(9), left, grant(10, 10, d+1), left, grant(11, 11, 0)), false},
		"late, and two more":                      {after(alone(9), left, grant(10, 10, d+1), left, grant(11, 11, 0), left, grant(12, 12, 0)), true},
		"soon after a keep":                       {after(alone(3), left, grant(4, 4, d/2), kept(0, 0), grant(5, 5, d)), true},
		"a keep has cost three: five in a row":    {after(alone(3), kept(3, 0), grant(9, 4, 0), left, grant(10, 10, 0), left, grant(11, 11, 0), left, grant(12, 12, 0), left, grant(13, 13, 0)), false},
		"and one more":                            {after(alone(3), kept(3, 0), grant(9, 4, 0), left, grant(10, 10, 0), left, grant(11, 11, 0), left, grant(12, 12, 0), left, grant(13, 13, 0), left, grant(14, 14, 0)), true},
		"a keep has cost three, and saved two":    {after(alone(3), kept(3, 1), grant(9, 4, 0), left, grant(10, 10, 0), left, grant(11, 11, 0)), false},
		"and one more, that is three":             {after(alone(3), kept(3, 1), grant(9, 4, 0), left, grant(10, 10, 0), left, grant(11, 11, 0), left, grant(12, 12, 0)), true},
		"a fraction of a request does not count":  {after(alone(3), kept(0.9, 0)), true},
		"one request does":                        {after(alone(3), kept(1, 0)), false},
		"it has paid: at once, if it is soon":     {after(alone(3), kept(3, 100), grant(9, 4, 0)), true},
		"it has paid, but the last came too late": {after(alone(3), kept(3, 100), grant(4, 4, d+1)), false},
		"credit for one keep without a use":       {after(alone(3), kept(3, 1e9), kept(6, 0), grant(9, 4, 0)), true},
		"and not for more":                        {after(alone(3), kept(3, 1e9), kept(7, 0), grant(9, 4, 0)), false},
		"64 are enough after any cost":            {after(alone(3), kept(1e9, 0), grant(9, 4, 0)), false},
		"any cost: 64 in a row":                   {after([]step{kept(1e9, 0), kept(1e9, 0)}, alone(64)...), true},
		"any cost: 63 in a row":                   {after([]step{kept(1e9, 0), kept(1e9, 0)}, alone(63)...), false},
		"any cost and any uses":                   {after([]step{kept(1e300, 1<<62)}, alone(1)...), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := keeper{debt: firstDebt}
				for _, step := range c.steps {
					step(&k)
				}
				if got := k.keeps(); got != c.want {
					t.Errorf("it keeps: %v, want %v: %+v", got, c.want, k)
				}
			})
		})
	}
}
