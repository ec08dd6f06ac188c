package wheel

import (
	"slices"
	"testing"
)

// Nothing is lost behind what was merged: what comes for the cursor's due is appended to the end of all of it.
func TestAppendedBehindWhatWasMerged(t *testing.T) {
	const due, long, short = Tick(5), 8 * chunkLen, 2 * chunkLen
	w := New(0)
	for i := range int64(long) {
		w.Add(due, short+i, 0)
	}
	for i := range int64(short) {
		w.Add(due, i, 0)
	}
	got := w.Take(due, nil, 1)
	w.Add(due, long+short, 0)
	if err := check(w); err != nil {
		t.Error(err)
	}
	got = w.Take(due, got, long+short)
	for i, e := range got {
		if e.Seq != int64(i) {
			t.Fatalf("%d comes at place %d", e.Seq, i)
		}
	}
	if len(got) != long+short+1 || w.Len() != 0 {
		t.Errorf("%d were taken, and %d are left", len(got), w.Len())
	}
}

// What was taken of the first chunk is neither given, nor updated, nor taken out once more.
func TestTakenOfAChunkIsGone(t *testing.T) {
	const due = Tick(5)
	some := func() *Wheel { // two chunks, of which half of the first has been taken
		w := New(0)
		for i := range int64(2 * chunkLen) {
			w.Add(due, i, 0)
		}
		w.Take(due, nil, chunkLen/2)
		return w
	}
	var want, got []int64
	for i := int64(chunkLen / 2); i < 2*chunkLen; i++ {
		want = append(want, i)
	}
	note := func(e Entry) { got = append(got, e.Seq) }
	some().TakeFrom(due, note)
	if !slices.Equal(got, want) {
		t.Errorf("TakeFrom gives %d", got)
	}
	got = nil
	if all := some().Update(due, func(e Entry) (uint64, bool) { note(e); return 0, true }); !all || !slices.Equal(got, want) {
		t.Errorf("Update calls for %d, all of it: %v", got, all)
	}
	w := some()
	if _, ok := w.Remove(due, 0); ok || w.Len() != len(want) {
		t.Errorf("what was taken is taken out: %v, and %d are left", ok, w.Len())
	}
}

// A heap of which anything was taken out gives the others in order.
func TestLateInOrderWhateverWasTakenOut(t *testing.T) {
	for name, remove := range map[string]func(h *lateHeap, seq int64){
		"alone":    func(h *lateHeap, seq int64) { h.remove(seq) },
		"together": func(h *lateHeap, seq int64) { h.removeAll([]Entry{{Due: 5, Seq: seq}}, 5, func(Entry) {}) },
	} {
		for out := range int64(17) {
			var h lateHeap
			for _, seq := range []int64{0, 10, 1, 12, 11, 2, 3, 14, 13, 16, 15, 5, 7, 4, 9} { // on one side all are below 10, and on the other none is
				h.push(item{seq: seq})
			}
			remove(&h, out)
			for last := int64(-1); len(h) > 0; {
				if it := h.pop(); it.seq <= last || it.seq == out {
					t.Fatalf("%s, without %d: %d comes after %d", name, out, it.seq, last)
				} else {
					last = it.seq
				}
			}
		}
	}
}

// At the cursor's due what came late is among what is due from then on, and so far as fn wants it.
func TestLateIsDueFromNowOn(t *testing.T) {
	const due = Tick(5)
	some := func() *Wheel {
		w := New(0)
		for _, seq := range []int64{0, 10, 20} {
			w.Add(due, seq, 0)
		}
		w.Take(due, nil, 1)
		w.Add(due, 5, 0)
		w.Add(due, 6, 0)
		return w
	}
	n := 0
	w := some()
	if all := w.Update(due, func(Entry) (uint64, bool) { n++; return 7, n < 4 }); all || n != 4 {
		t.Errorf("it calls %d times although 3 were wanted more, and says that it was all: %v", n, all)
	}
	n = 0
	if w.TakeFrom(due, func(Entry) { n++ }); n != 4 || w.Len() != 0 {
		t.Errorf("%d are taken, and %d are left", n, w.Len())
	}
	n = 0
	if w := some(); !w.Update(due+1, func(Entry) (uint64, bool) { n++; return 0, true }) || n != 0 {
		t.Errorf("%d are updated that are due before", n)
	}
}

// Memory is given back by whatever is taken out, wherever it lay.
func TestChunksThatAreHalfEmptyAreJoined(t *testing.T) {
	const n = 100 * slabLen * chunkLen / 10
	for name, remove := range map[string]func(w *Wheel, keys []Entry){
		"one by one": func(w *Wheel, keys []Entry) {
			for _, k := range keys {
				w.Remove(k.Due, k.Seq)
			}
		},
		"together": func(w *Wheel, keys []Entry) { w.RemoveAll(keys, func(Entry) {}) },
	} {
		w := New(0)
		var keys []Entry
		for i := range int64(n) {
			due := Tick(1<<16 + i/400) // slots of 15 chunks each
			w.Add(due, i, 0)
			if i%16 != 0 {
				keys = append(keys, Entry{Due: due, Seq: i})
			}
		}
		full := w.Bytes()
		remove(w, keys)
		if err := check(w); err != nil {
			t.Error(err)
		}
		if got := w.Bytes(); w.Len() != n/16 || got > full/3 {
			t.Errorf("%s: %d bytes of %d are held for a sixteenth of the entries", name, got, full)
		}
	}
}

// What came late counts as memory, and is given back when it was taken.
func TestLateIsMemory(t *testing.T) {
	const due, n = Tick(5), 10_000
	w := New(0)
	w.Add(due, 2*n, 0)
	w.Take(due, nil, 0)
	w.Add(0, 1, 0)
	w.Take(0, nil, 1)
	w.Add(due, 3*n, 0)
	w.Add(due, n, 0)
	w.Take(due, nil, 1)
	before := w.Bytes()
	for i := range int64(n) {
		w.Add(due, n+1+i%(n-2), 0)
	}
	if got := w.Bytes() - before; got < n*16 {
		t.Errorf("%d late ones are %d bytes", n, got)
	}
	w.Take(due, nil, 2*n)
	if got := w.Bytes() - before; got > keepLate*16 {
		t.Errorf("%d bytes more than before are held for nothing", got)
	}
}
