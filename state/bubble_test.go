package state

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
)

// A store starts and ends with all that it started, however often.
func TestOpenAndCloseLeaveNothingRunning(t *testing.T) {
	defer goleak.VerifyNone(t)
	fs := vfs.NewMem()
	h := history{seed: 11}
	for n := int64(0); n < 20; n++ {
		s, err := Open(Options{Dir: "store", FS: fs, MemoryBudget: 4 << 20})
		must(t, err)
		if got := h.checkPrefix(t, s, n); got != n {
			t.Fatalf("%d batches after %d lives of one", got, n)
		}
		must(t, h.run(n+1, h.open(t, s)))
		must(t, s.Close())
		must(t, s.Close())
	}
}

// The store lives in a bubble, where simulated days must pass quickly: an idle one wakes up for nothing.
func TestIdleStoreSleepsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{Dir: "store", FS: vfs.NewCrashableMem(), MemoryBudget: 4 << 20})
		must(t, err)
		p := openPartition(t, s, orders(0))
		fill(t, p, 2000)
		must(t, p.Trim(Key{1000, 0}))
		time.Sleep(30 * 24 * time.Hour)
		synctest.Wait()
		must(t, s.Close())
	})
}
