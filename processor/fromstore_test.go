package processor

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
			equal(t, "W", p.Marks().LateUpTo, state.Key{Due: testNow, Seq: 1})
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
	copied.Headers, _ = topics.AppendCopy(nil, req(0, ms(farMs), "orders").Headers, p.Mark, topics.Copy{Due: ms(farMs), Timestamp: testNow}, nil)
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

// A group without a checkpoint goes on from what its store knows of the topic.
func TestCheckpointFromTheStore(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, testNow, "orders"), req(1, ms(farMs), "orders"))
	l.happened(p.take(testNow, nil, 10, anyBytes))
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "W", p.Marks().LateUpTo, state.Key{Due: testNow, Seq: 0})
	if p.Marks().Committed.Offset > 2 || p.Marks().Committed.LowWater > 1 {
		t.Errorf("it goes on from %+v", p.Marks().Committed)
	}
	if _, err := l.assign(state.Checkpoint{Offset: -1}, 0, 1, 1); !errors.Is(err, ErrBeyondLog) {
		t.Errorf("a log that ends below what the store knows: %v", err)
	}
	equal(t, "given up", p.Marks().Committed.GivenUp, 0)
	if p, err = l.assign(state.Checkpoint{Offset: -1}, 3, 3, 3); err != nil || p.Marks().Committed.Offset != 3 || p.Marks().LateUpTo != (state.Key{}) {
		t.Errorf("a store below the log is used: %+v, %v", p.Marks().Committed, err)
	}
}

// A store that resumes below its O, since only memory held what lies there or a crash came on the way, is a whole checkpoint: what was carried has its copy below
// that O and its record below that L, and the store alone may have what the log has lost.
func TestCopiesFromTheStore(t *testing.T) {
	for _, c := range []struct {
		name     string
		logStart int64
		onTheWay bool // the next owner has read a part of the log
	}{
		{"the log has all", 0, false},
		{"the log has lost some", 2, false},
		{"in the middle of a catch-up", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t)
			p := livePartition(t, l)
			copied := req(3, 0, "orders")
			copied.Headers, _ = topics.AppendCopy(nil, req(0, ms(farMs), "orders").Headers, p.Mark, topics.Copy{Due: ms(farMs), Timestamp: testNow}, nil)
			log := []*kgo.Record{req(0, ms(farMs), "orders"), req(1, ms(farMs+1), "orders"), req(2, ms(1000), "orders"), copied, req(4, ms(500), "orders")}
			l.read(t, p, testNow, log...)
			l.happened(p.take(ms(500), nil, 10, anyBytes))
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(p.Flush())
			if c.onTheWay {
				part, err := l.store.Partition(l.store.ID(testTP, testID))
				must(err)
				must(part.Drop())
				p, err = l.assign(p.Marks().Committed, c.logStart, 5, 5)
				must(err)
				l.read(t, p, ms(500), log[1:3]...)
				must(p.Flush())
			}
			p, err := l.assign(state.Checkpoint{Offset: -1}, c.logStart, 5, 6)
			must(err)
			equal(t, "end", p.logEnd, 6)
			for _, r := range log[max(c.logStart, p.Marks().Position):] {
				_, err := p.Accept(r, ms(500))
				must(err)
			}
			must(p.goLive(l.memory.room(len(l.order))))
			must(p.Load(ms(farMs+1), l.memory.room(len(l.order))))
			equals(t, "delivered", offsetsIn(p.take(ms(farMs+1), nil, 10, anyBytes)), []int64{2, 3, 1})
		})
	}
}
