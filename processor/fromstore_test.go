package processor

import (
	"errors"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/internal/disk"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// A partition of a log that has lost what is needed waits for the store that may have it, even if
// a loss is accepted.
func TestTruncatedWithoutAStore(t *testing.T) {
	var broken disk.Broken
	l := testLane(t, onDisk(&broken), func(c *Config) { c.AcceptLoss = true })
	l.loseStore(t, &broken)
	_, err := l.assign(state.Checkpoint{Offset: 20, LowWater: 5}, 10, 30, 30)
	if !errors.Is(err, ErrLogTruncated) || !errors.Is(err, local.ErrNoStore) {
		t.Errorf("got %v", err)
	}
	l.mendStore(t, &broken)
	if p, err := l.assign(state.Checkpoint{Offset: 20, LowWater: 5}, 10, 30, 30); err != nil || p.Marks().Committed.LowWater != 10 {
		t.Errorf("with a store that has nothing: %v", err)
	}
}

// What never was far from due is not in the store, and its position is, some seconds later and at the end of a process: so what was delivered does
// not come again when the group's offsets have expired.
func TestCheckpointFromAStoreThatHoldsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, l *lane, p *partition)
	}{
		{"some seconds later", func(t *testing.T, l *lane, p *partition) {
			p.syncedAt = time.Now().Add(-2 * syncInterval)
			if err := p.tidyStore(); err != nil {
				t.Fatal(err)
			}
		}},
		{"at the end", func(t *testing.T, l *lane, _ *partition) { l.storePositions(l.order) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t)
			p := livePartition(t, l)
			l.order = []*partition{p}
			l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow, "orders"), req(2, ms(1000), "orders"))
			l.happened(p.take(testNow, nil, 10, anyBytes))
			c.end(t, l, p)
			p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 3, 3)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "W", p.Marks().Judge, state.Key{Due: testNow, Seq: 1})
			equal(t, "start", p.Marks().Start, 2)
		})
	}
}

// A store that was brought to a later checkpoint, by a process that then ended, has taken out what that says is resolved, and its position is that of
// before. If the group's offsets expire by then, the log is read from its beginning: by that position a record that was carried would be lost, as the store
// holds neither it nor, yet, its copy.
func TestCheckpointFromAStoreOnTheWay(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	copied := req(3, 0, "orders")
	copied.Headers, _ = topics.AppendCopy(nil, req(0, ms(farMs), "orders").Headers, p.mark, topics.Copy{Due: ms(farMs), Timestamp: testNow}, nil)
	l.read(t, p, testNow, req(0, ms(farMs), "orders"), req(1, ms(farMs+1), "orders"), req(2, ms(farMs+2), "orders"))
	l.happened(p.part(p.Checkpoint()))
	l.read(t, p, testNow, copied) // above O
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Flush())
	l.happened(p.part(p.Checkpoint())) // O passes it, and L the record
	equal(t, "L", p.Marks().Committed.LowWater, 1)
	_, err := l.assign(p.Marks().Committed, 0, 4, 4)
	must(err)
	p, err = l.assign(state.Checkpoint{Offset: -1}, 0, 4, 4)
	must(err)
	equal(t, "O", p.Marks().Committed.Offset, 0)
}
