package ahead

import (
	"testing"
	"testing/synctest"
	"time"
)

// Patience is one for all partitions that are looked at, and is there anew when nothing was in vain for as long.
func TestPatienceIsOneForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var with trouble
		for range 2 {
			for passed := time.Duration(0); passed <= patience; passed += patience / 5 {
				if with.lasts() {
					t.Errorf("it is over after %v", passed)
				}
				time.Sleep(patience / 5)
			}
			for range 100 { // others
				if !with.lasts() {
					t.Error("it is not over for another partition")
				}
			}
			time.Sleep(patience + 1)
		}
	})
}
