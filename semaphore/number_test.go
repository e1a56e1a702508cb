package semaphore

import (
	"errors"
	"strings"
	"testing"
)

// Any data are either parsed as a number that formats to the same data, or are a mismatch. The
// error does not contain the data.
func FuzzNumber(f *testing.F) {
	for _, data := range []string{"", "0", "1", "4", "007", "+4", "-1", "4\n", " 4", "4.0", "1e3", "٣", "99999999999999999999", "password"} {
		f.Add([]byte(data))
	}
	c := &permitCount{path: "/jobs/convert"}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := c.parse(data)
		if err != nil {
			if !errors.Is(err, ErrMismatch) || len(data) > 4 && strings.Contains(strings.TrimPrefix(err.Error(), ErrMismatch.Error()), string(data)) &&
				!strings.Contains("/jobs/convert holds bytes that are no number of permits", string(data)) {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		if again, err := c.parse(format(n)); n < 1 || again != n || err != nil {
			t.Errorf("%q is %d, which is written %q and read as %d, %v", data, n, format(n), again, err)
		}
	})
}
