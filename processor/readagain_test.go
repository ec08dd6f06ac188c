package processor

import (
	"fmt"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/internal/disk"
	"github.com/duewheel/duewheel/state"
)

// A store that fails takes nothing from a live partition: it goes on as it is.
func TestStoreFails(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(10), "orders"), req(1, ms(farMs), "orders"))
	l.storeFailed(t.Context(), fmt.Errorf("write: %w", state.ErrFailed))
	equal(t, "the partition", l.partitions[testTP], p)
	equal(t, "it has a store", p.HasStore(), false)
	equal(t, "pending", p.Pending(), 2)
}

// A partition whose memory is used up is not read again at the moment at which it has become live.
func TestReadAgainRests(t *testing.T) {
	var broken disk.Broken
	l := testLane(t, onDisk(&broken))
	l.memory.budget = 1 << 20
	l.loseStore(t, &broken)
	p := livePartition(t, l)
	for offset := range int64(2000) {
		l.read(t, p, testNow, heavy(offset, ms(2000+offset*1000), 1000))
		if err := l.balance(testNow); err != nil {
			t.Fatal(err)
		}
	}
	l.happened(p.take(ms(2_000_000), nil, 2000, anyBytes))
	clock := p.Horizon().Due
	p.liveAt = time.Now()
	equal(t, "it is to be read again at the same moment", p.usedUp(clock, l.memory.room(len(l.order))), false)
	p.liveAt = time.Now().Add(-readAgainRest)
	equal(t, "it is to be read again", p.usedUp(clock, l.memory.room(len(l.order))), true)
}
