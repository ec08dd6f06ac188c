package pending

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// However records come and go, a fifo gives back what a plain list would.
func TestFIFO(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, f := newNear(), fifo{}
		var want []Item
		var bytes, offset int64
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			for range rapid.SampledFrom([]int{0, 1, 3, fifoBlock - 1, fifoBlock, 3 * fifoBlock}).Draw(rt, "added") {
				h := held{key: state.Key{Due: offset % 7, Seq: offset}, offset: offset, resolve: offset%3 == 0}
				if offset%5 == 0 {
					h.refusal = &topics.Refusal{}
				}
				run := make([]byte, offset%11+1)
				h.ref, h.size = n.put(h.key.Due, run, false), int32(len(run))
				f.add(h)
				want = append(want, Item{ref: h.ref, Key: h.key, Offset: offset, Refusal: h.refusal, Resolve: h.resolve, Run: run})
				bytes, offset = bytes+int64(len(run)), offset+1
			}
			clock := rapid.Int64Range(0, 7).Draw(rt, "clock")
			most, mostBytes := rapid.SampledFrom([]int{0, 1, 2, fifoBlock, 1 << 20}).Draw(rt, "records"), rapid.SampledFrom([]int64{0, 1, 100, 1 << 30}).Draw(rt, "bytes")
			due := int64(0)
			for i := range want {
				if want[i].due() <= clock {
					due++
				}
			}
			if got := f.due(clock); got != due {
				rt.Fatalf("%d are due, want %d", got, due)
			}
			got, took := f.take(clock, n, nil, most, mostBytes)
			var k int
			var size int64
			for k < len(want) && k < most && (k == 0 || size < mostBytes) && want[k].due() <= clock {
				size += int64(len(want[k].Run))
				k++
			}
			if len(got) != k || took != size {
				rt.Fatalf("%d records of %d bytes were taken, want %d of %d", len(got), took, k, size)
			}
			for i := range got {
				g, w := &got[i], &want[i]
				if g.ref != w.ref || g.Key != w.Key || g.Offset != w.Offset || g.Refusal != w.Refusal || g.Resolve != w.Resolve || len(g.Run) != len(w.Run) {
					rt.Fatalf("taken is %+v, want %+v", g, w)
				}
			}
			want, bytes = want[k:], bytes-size
			if f.len() != len(want) || f.bytes != bytes {
				rt.Fatalf("%d records of %d bytes are left, want %d of %d", f.len(), f.bytes, len(want), bytes)
			}
			if len(want) > 0 && (f.head().offset != want[0].Offset || f.tail().offset != want[len(want)-1].Offset) {
				rt.Fatalf("%d to %d are left, want %d to %d", f.head().offset, f.tail().offset, want[0].Offset, want[len(want)-1].Offset)
			}
		}
	})
}

// A cancel by an id that goes to all other partitions counts as many records as it makes, however many partitions there are, also when it is tried again;
// one of a handle counts as one. Where the partitions are not known yet a turn has one.
func TestCancelsForAllCountAsTheyAreWritten(t *testing.T) {
	for _, c := range []struct {
		others    int
		ids, took int // took: of ten cancels, where a turn has a hundred records
	}{{1, 10, 10}, {30, 10, 3}, {999, 10, 1}, {UnknownOthers, 10, 1}, {999, 0, 10}} {
		l := testOwner(t)
		p := l.live(t)
		Among{p}.Others(c.others)
		for offset := range int64(10) {
			r := &kgo.Record{Offset: offset, Timestamp: time.UnixMilli(testNow), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte("x")}}}
			if c.ids == 0 {
				r.Headers[0].Value = []byte(topics.Handle{Partition: testID.Partition + 1, Offset: 7, Due: ms(farMs)}.String())
			}
			l.read(t, p, testNow, r)
		}
		must(t, p.Load(testNow, l.room))
		pt := p.Take(testNow, nil, 100, anyBytes)
		what := fmt.Sprintf("%d of ten by ids, with %d other partitions: ", c.ids, c.others)
		equal(t, what+"taken", len(pt.Items), c.took)
		equal(t, what+"fit once more", pt.fit(100, anyBytes), c.took)
		if c.others < UnknownOthers && c.ids > 0 {
			records, _ := pt.Weigh()
			equal(t, what+"written", records, c.took*c.others)
			equal(t, what+"fit into a little", pt.fit(1, anyBytes), 1)
			equal(t, what+"fit into half of that", pt.fit(c.took*c.others/2, anyBytes), max(c.took/2, 1))
		}
	}
}
