package processor

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
)

// What is loaded in one step is bounded for all partitions of a lane together, counts at once, and goes on soon where some is left.
func TestLoadIsShared(t *testing.T) {
	const each = pending.LoadRecords * 3 / 4
	l := testLane(t)
	var ps []*partition
	for n := range int32(2) {
		r := &restore{kit: &l.kit}
		p, _, err := r.make(kafka.TopicPartition{Topic: testTopic, Partition: n}, found{id: testID, fetched: kafka.Fetched{Offset: -1}, bounds: kafka.Bounds{Asked: time.Now()}})
		if err == nil {
			err = r.open(t.Context(), p)
		}
		if err == nil {
			err = p.goLive(l.memory.room(2))
		}
		if err != nil {
			t.Fatal(err)
		}
		for offset := range int64(each) {
			if _, err := p.Accept(req(offset, ms(2*testWindow.Milliseconds()), "orders"), testNow); err != nil {
				t.Fatal(err)
			}
		}
		ps = append(ps, p)
	}
	now := ms(2 * testWindow.Milliseconds())
	load := func() (near int64) {
		t.Helper()
		if failed, err := l.memory.load(ps, now); failed != nil || err != nil {
			t.Fatal(err)
		}
		held := int64(0)
		for _, p := range ps {
			near, held = near+p.Figures(now).Near, held+p.Memory()
		}
		equal(t, "memory that counts as used", l.memory.used, held)
		return near
	}
	if err := l.memory.fit(ps, now); err != nil {
		t.Fatal(err)
	}
	equal(t, "records that one step loads", load(), pending.LoadRecords)
	equal(t, "pause", l.memory.pause(), leastPause)
	equal(t, "records that two steps load", load(), 2*each)
	equal(t, "pause where nothing is left", l.memory.pause() > time.Minute, true)
}
