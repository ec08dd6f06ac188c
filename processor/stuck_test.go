package processor

import (
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/internal/disk"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// The disk fails while it has what comes first of the late list: the lane learns it, although the partition has nothing else in the store.
func TestStoreFailsWithTheLateList(t *testing.T) {
	var broken disk.Broken
	l := testLane(t, onDisk(&broken))
	const many = 3000
	p, err := l.assign(state.Checkpoint{Watermark: state.Key{Due: testNow}}, 0, many, many)
	if err != nil {
		t.Fatal(err)
	}
	for offset := range int64(many) {
		l.read(t, p, testNow, req(offset, ms(-1000), "orders"))
	}
	if _, err := p.Fit(testNow, pending.Room{Window: pending.LeastWindow, Most: 4000, Budget: 1 << 10, Used: 1 << 10, Share: 1 << 10}); err != nil {
		t.Fatal(err)
	}
	if err := p.goLive(l.memory.room(1)); err != nil {
		t.Fatal(err)
	}
	broken.Fail(syscall.ENOSPC)
	if err := l.store.Opened().Flush(); err == nil {
		t.Fatal("the disk works")
	}
	for pt := p.take(testNow, nil, 100, anyBytes); pt != nil; pt = p.take(testNow, nil, 100, anyBytes) {
		l.happened(pt)
	}
	if p.Pending() == 0 {
		t.Fatal("nothing was laid aside")
	}
	if failed, err := l.memory.load(l.order, testNow, l.turns.isDecided); err != nil {
		l.restart(t.Context(), failed, err)
	}
	equal(t, "it has a store", p.HasStore(), false)
	equal(t, "it is to be read again", p.UsedUp(testNow, l.memory.room(1)), true)
}

// The disk fails while a record is taken in that has to be looked for in the store: it is taken in without it, and not passed over.
func TestStoreFailsWhileARecordIsTakenIn(t *testing.T) {
	var broken disk.Broken
	l := testLane(t, onDisk(&broken))
	p := livePartition(t, l)
	l.partitions = map[kafka.TopicPartition]*partition{testTP: p}
	const farMs = 1 << 40
	far := req(0, ms(farMs), "orders")
	copyAt := func(offset int64) *kgo.Record {
		r := req(offset, ms(farMs), "orders")
		r.Headers, _ = topics.AppendCopy(nil, far.Headers, p.Mark, topics.Copy{Due: ms(farMs), Timestamp: testNow}, nil)
		return r
	}
	l.read(t, p, testNow, far, copyAt(1))
	broken.Fail(syscall.ENOSPC)
	if err := l.store.Opened().Flush(); err == nil {
		t.Fatal("the disk works")
	}
	l.reading.endPoll = func() {}
	l.acceptAll(t.Context(), kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: testTopic, Partitions: []kgo.FetchPartition{{Partition: testTP.Partition, Records: []*kgo.Record{copyAt(2)}}}}}}})
	equal(t, "it has a store", p.HasStore(), false)
	equal(t, "what is read next", p.Marks().Position, 3)
	equal(t, "it is to be read again", p.UsedUp(testNow, l.memory.room(1)), true) // nothing here knows whether the copy stands for the record
}
