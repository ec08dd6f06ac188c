package processor

import (
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/internal/disk"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/topics"
)

// withID is a request with an id.
func withID(r *kgo.Record, id string) *kgo.Record {
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte(id)})
	return r
}

// The disk fails; the lane learns it when it looks up the id of a record that it accepts. The record must not be passed over.
func TestStoreFailsAsAnIDIsLookedUp(t *testing.T) {
	var broken disk.Broken
	l := testLane(t, onDisk(&broken))
	p := livePartition(t, l)
	l.read(t, p, testNow, withID(req(0, ms(farMs), "orders"), "a"), cancelOf(1, testTP.Partition, 0, ms(farMs)))
	if err := p.Load(testNow, pending.Room{}); err != nil {
		t.Fatal(err)
	}
	l.happened(p.take(testNow, nil, 1000, anyBytes))
	broken.Fail(syscall.ENOSPC)
	if err := l.store.Opened().Flush(); err == nil {
		t.Fatal("the disk works")
	}
	equal(t, "the partition has its store still", p.HasStore(), true)
	l.reading.poll(t.Context(), true)
	l.acceptAll(t.Context(), kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: testTopic, Partitions: []kgo.FetchPartition{{
		Partition: testTP.Partition, Records: []*kgo.Record{withID(req(2, ms(500), "orders"), "b"), req(3, testNow, "orders")},
	}}}}}})
	equal(t, "the partition goes on", l.partitions[testTP] == p && p.live(), true)
	if err := p.Load(testNow, pending.Room{}); err != nil {
		t.Fatal(err)
	}
	pt := p.take(testNow, nil, 1000, anyBytes)
	if pt == nil {
		return
	}
	delivered := offsetsIn(pt)
	l.happened(pt)
	c := p.Marks().Committed
	t.Logf("delivered %v; committed O=%d L=%d, pending %d", delivered, c.Offset, c.LowWater, p.Pending())
	if c.LowWater > 2 && p.Pending() == 0 {
		t.Errorf("O=%d and L=%d have passed record 2, which is neither pending nor resolved: no replay finds it", c.Offset, c.LowWater)
	}
}

// The disk fails between two answers to questions that were read together: what was answered stays so.
func TestStoreFailsAsCancelsAreDecided(t *testing.T) {
	var broken disk.Broken
	l := testLane(t, onDisk(&broken))
	p := livePartition(t, l)
	replace := req(2, ms(600), "orders")
	replace.Headers = append(replace.Headers, kgo.RecordHeader{Key: topics.HeaderReplace, Value: []byte(topics.Handle{Partition: testTP.Partition, Offset: 0, Due: ms(500)}.String())})
	l.read(t, p, testNow, req(0, ms(500), "orders"), req(1, ms(farMs), "orders"), replace, cancelOf(3, testTP.Partition, 1, ms(farMs)))
	broken.Fail(syscall.ENOSPC)
	if err := l.store.Opened().Flush(); err == nil {
		t.Fatal("the disk works")
	}
	if err := p.Load(testNow, l.memory.room(1)); err != nil { // lane.step
		t.Log(err)
		l.restart(t.Context(), p, err)
	}
	equal(t, "the partition goes on", l.partitions[testTP] == p && p.live(), true)
	if err := p.Load(testNow, l.memory.room(1)); err != nil {
		t.Fatal(err)
	}
	outcomes := 0
	for _, now := range []int64{testNow, ms(700)} {
		pt := p.take(now, nil, 1000, anyBytes)
		if pt == nil {
			continue
		}
		for _, it := range pt.Items {
			t.Logf("record %d: %v, refused %v", it.Offset, it.Effect, it.Refusal)
			if it.Offset == 2 && !it.Effect.Pending() {
				outcomes++
			}
		}
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("panic: %v", r)
				}
			}()
			l.happened(pt)
		}()
	}
	equal(t, "outcomes of the replacement", outcomes, 1)
}
