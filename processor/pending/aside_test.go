package pending

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// lateOwner is a partition that catches up, and has so many late records in its log, with so little memory for them.
func lateOwner(t *testing.T, many, budget int64) (*owner, *Partition) {
	t.Helper()
	return lateOwnerBehind(t, 0, many, budget)
}

// lateOwnerBehind has so many records before the late ones that are due 5 ms from now.
func lateOwnerBehind(t *testing.T, before, many, budget int64) (*owner, *Partition) {
	t.Helper()
	l := testOwner(t)
	l.room.Budget, l.room.Share = budget, budget
	p, err := l.assign(state.Checkpoint{Watermark: state.Key{Due: ms(0), Seq: 0}}, 0, many, many)
	must(t, err)
	rec := req(0, ms(-1000), "orders")
	rec.Value = make([]byte, 100)
	most := int64(0)
	for offset := range many {
		rec.Offset, rec.Headers[1].Value = offset, []byte("orders")
		if offset50(offset) {
			rec.Headers[1].Value = []byte("elsewhere")
		}
		if rec.Headers[0].Value = req(offset, ms(-1000), "orders").Headers[0].Value; offset < before {
			rec.Headers[0].Value = req(offset, testNow+5, "orders").Headers[0].Value
			rec.Headers[1].Value = []byte([]string{"orders", "bills"}[offset%2])
		}
		_, err := p.Accept(rec, testNow)
		must(t, err)
		if offset%1000 == 999 {
			must(t, p.Sync())
			l.balance(t, p)
			most = max(most, p.Memory())
		}
	}
	if most > 2*budget {
		t.Errorf("late records take %d bytes, and there is room for %d", most, budget)
	}
	must(t, p.goLive(l.room))
	return l, p
}

// offset50 is where lateOwner has put one that is refused.
func offset50(offset int64) bool { return offset%100 == 50 }

// The late list of a catch-up takes no more memory than there is, and all of it is delivered in the order of the log.
func TestLateListIsBounded(t *testing.T) {
	many := int64(2_000_000)
	if testing.Short() {
		many = 60_000
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l, p := lateOwner(t, many, 4<<20)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got, most := int64(after.HeapAlloc)-int64(before.HeapAlloc), 24<<20+many*300; testing.Short() && got > most { // the store's files are in memory
		t.Errorf("the heap has grown by %d", got)
	}
	if p.late.away == 0 {
		t.Fatal("nothing was laid aside")
	}
	equal(t, "pending", p.Pending(), many)
	items, next := make([]Item, 0, 20_000), int64(0)
	var rec Record
	for pt := p.Take(testNow, items, 20_000, anyBytes); pt != nil; pt = p.Take(testNow, items, 20_000, anyBytes) {
		for i := range pt.Items {
			it := &pt.Items[i]
			must(t, rec.Decode(it.Run))
			if it.Offset != next || rec.Offset != next || !it.late || it.stored {
				t.Fatalf("record %d comes after %d, with the bytes of %d", it.Offset, next-1, rec.Offset)
			}
			if known := it.ref.number() > 0; known == offset50(it.Offset) {
				t.Fatalf("of record %d it is known where it goes: %v", it.Offset, known)
			}
			if refused := offset50(it.Offset); refused != (it.Refusal != nil) || refused && (it.Refusal.Code != topics.CodeTargetNotAllowed || it.Resolve) {
				t.Fatalf("record %d is refused: %v", it.Offset, it.Refusal)
			}
			next++
		}
		l.happened(pt)
		if p.late.bytes > 8<<20 {
			t.Fatalf("%d bytes are brought back at once", p.late.bytes)
		}
	}
	equal(t, "delivered", next, many)
	must(t, p.Flush())
	must(t, Check(p))
}

// What was laid aside is found by those that name it.
func TestCancelOfWhatWasLaidAside(t *testing.T) {
	const many = 10_000
	l, p := lateOwner(t, many, 1<<20)
	if p.late.at(5000); p.late.away == 0 {
		t.Fatal("nothing is left aside")
	}
	h := topics.Handle{Partition: testID.Partition, Offset: 3000, Due: ms(-1000)}
	l.read(t, p, testNow, &kgo.Record{Offset: many, Timestamp: time.UnixMilli(testNow), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}})
	must(t, p.Load(testNow, l.room))
	room := l.room
	room.Budget, room.Used = 1<<16, 1<<16
	fit(t, p, testNow, room) // what comes back is given back
	var got []int64
	for pt := p.Take(testNow, nil, 20_000, anyBytes); pt != nil; pt = p.Take(testNow, nil, 20_000, anyBytes) {
		for _, it := range pt.Items {
			if it.By > 0 {
				got = append(got, it.Offset)
			}
		}
		l.happened(pt)
	}
	if !slices.Equal(got, []int64{3000}) {
		t.Errorf("taken away are %v", got)
	}
	must(t, Check(p))
}

// What is refused, and a replay would take for pending, has its resolve record when it comes back, and is counted meanwhile.
func TestRefusedIsLaidAside(t *testing.T) {
	const many = 10_000
	l := testOwner(t)
	p, err := l.assign(state.Checkpoint{Watermark: state.Key{Due: ms(0), Seq: 0}}, 0, many, many)
	must(t, err)
	for offset := range int64(many) {
		_, err := p.Accept(req(offset, ms(farMs), "elsewhere"), testNow)
		must(t, err)
	}
	must(t, p.Sync())
	before := p.Figures(testNow).Bytes
	room := l.room
	room.Budget, room.Used = 1<<20, 1<<20
	fit(t, p, testNow, room)
	if p.late.away == 0 {
		t.Fatal("nothing was laid aside")
	}
	equal(t, "bytes that are pending", p.Figures(testNow).Bytes, before)
	must(t, p.goLive(l.room))
	n := 0
	for pt := p.Take(testNow, nil, 20_000, anyBytes); pt != nil; pt = p.Take(testNow, nil, 20_000, anyBytes) {
		for i := range pt.Items {
			if it := &pt.Items[i]; it.Refusal == nil || !it.Resolve {
				t.Fatalf("record %d is refused: %v; it has a resolve record: %v", it.Offset, it.Refusal, it.Resolve)
			}
			n++
		}
		l.happened(pt)
	}
	equal(t, "dead-lettered", n, many)
	must(t, Check(p))
}

// A store that fails takes what it has kept of the list along: nothing behind that is delivered before the partition has been read again.
func TestStoreFailsWithWhatWasLaidAside(t *testing.T) {
	const many = 10_000
	l, p := lateOwnerBehind(t, 2, many, 1<<20)
	p.Forgo()
	taken := 0
	for pt := p.Take(testNow, nil, 20_000, anyBytes); pt != nil; pt = p.Take(testNow, nil, 20_000, anyBytes) {
		taken += len(pt.Items)
		l.happened(pt)
	}
	if taken == 0 || taken >= many {
		t.Errorf("%d are taken", taken)
	}
	equal(t, "O", p.Marks().Committed.Offset, int64(taken)+2)
	equal(t, "it is to be read again", p.UsedUp(testNow, l.room), true)
	_, awake := p.Next()
	equal(t, "it has something to do", awake, false)
	equal(t, "it wants", p.Wants(testNow+5), 0)
	equal(t, "it takes what is due", p.Take(testNow+5, nil, 20_000, anyBytes) != nil, false)
}

// What one owner has laid aside is no business of the next.
func TestLaidAsideIsForgotten(t *testing.T) {
	const many = 10_000
	l, p := lateOwner(t, many, 1<<20)
	must(t, p.Flush())
	p, err := l.assign(state.Checkpoint{Watermark: state.Key{Due: ms(0), Seq: 0}}, 0, many, many)
	must(t, err)
	equal(t, "pending", p.Pending(), 0)
	equal(t, "start", p.start, 0)
}
