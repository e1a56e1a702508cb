package test

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestALimitIsExactInVirtualTimeAlone(t *testing.T) {
	if d := limit(time.Second); d != patience {
		t.Errorf("in real time: %v", d)
	}
	if d := limit(2 * patience); d != 2*patience {
		t.Errorf("in real time: %v", d)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if Poll(time.Second, func() bool { return false }) || time.Since(began) > time.Second+20*time.Millisecond {
			t.Errorf("it ends after %v", time.Since(began))
		}
	})
}
