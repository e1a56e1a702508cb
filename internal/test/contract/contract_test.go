package contract

import (
	"maps"
	"slices"
	"testing"
)

// Every scenario that fits a recipe runs in memory, and most on real servers, too.
func TestScenariosSayWhatTheyNeed(t *testing.T) {
	count := map[needs]int{}
	seen := map[string]bool{}
	for _, sc := range suite {
		if sc.name == "" || seen[sc.name] {
			t.Errorf("two scenarios are called %q", sc.name)
		}
		seen[sc.name] = true
		count[sc.needs]++
		if shared, single := sc.fits(Recipe{Nodes: 1, Shared: true}), sc.fits(Recipe{Nodes: 1}); !single || shared != (sc.needs&exclusive == 0) {
			t.Errorf("%s: fits shared locks: %v, others: %v", sc.name, shared, single)
		}
		if sc.needs != 0 && sc.needs.String() == "" {
			t.Errorf("%s has a need without a name", sc.name)
		}
	}
	t.Logf("%d scenarios", len(suite))
	for _, n := range slices.Sorted(maps.Keys(count)) {
		if n != 0 {
			t.Logf("%d need %v", count[n], n)
		}
	}
	if count[restarts] == 0 || count[speaksTLS] == 0 || count[alone] == 0 {
		t.Errorf("no scenario restarts a server, speaks TLS or counts: %v", count)
	}
}
