package state

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// counted are a record that is where it was, two that were carried from before it, and what is left of one that lies before it.
func counted() *Counts {
	c := newCounts()
	c.add(Counted{Key: Key{7000, 9}, Offset: 9, Bytes: 10})
	c.add(Counted{Key: Key{8000, 2}, Offset: 21, Bytes: 5})
	c.add(Counted{Key: Key{8000, 3}, Offset: 20, Bytes: 20})
	c.add(Counted{Key: Key{9000, 5}, Offset: 5, Stub: true})
	return c
}

// The ledger that counts begin has all of them, and takes nothing from them.
func TestLedgerOfCounts(t *testing.T) {
	c := counted()
	if first, ok := c.First(); first != 5 || !ok {
		t.Errorf("the first is at %d, %v", first, ok)
	}
	if first, last, ok := c.Copies(); first != 2 || last != 3 || !ok {
		t.Errorf("copies lie between %d and %d, %v", first, last, ok)
	}
	l := c.Ledger(4)
	if got := fmt.Sprint(l.Len(), l.Waiting(), l.Bytes(), l.Low(30), l.Resume(30)); got != "4 3 35 5 30" {
		t.Errorf("the ledger has %s", got)
	}
	if !l.Displaced.Has(4-longAgo) || l.Displaced.Has(5-longAgo) {
		t.Error("what was displaced very long ago is not taken for displaced, or more is")
	}
	if got := c.Ledger(6).Low(30); got != 6 {
		t.Errorf("the low water goes back to %d", got)
	}
	l.Expire(5)
	l.Remove(Key{7000, 9}, 9, 10, true)
	l.Remove(Key{8000, 3}, 20, 20, true)
	l.Remove(Key{8000, 2}, 21, 5, true)
	again := c.Ledger(4)
	if got := fmt.Sprint(c.Len(), c.Has(9, false), c.Has(5, true), again.Len(), again.Agenda(20_000, time.Second)[0].Records); got != "4 true true 4 3" {
		t.Errorf("after that the counts have %s", got)
	}
}

// A record that moves to where it is counted already is counted once.
func TestMovedToWhereItIs(t *testing.T) {
	l := NewLedger(0)
	l.Add(Key{7000, 1}, 1, 10, false)
	l.Add(Key{7000, 1}, 5, 10, true)
	l.Move(Key{7000, 1}, 1, 5, 10, true)
	if got := fmt.Sprint(l.Len(), l.Bytes(), l.Low(9), l.Resume(9), l.Agenda(9000, 0)[0].Records); got != "1 10 5 9 1" {
		t.Errorf("the ledger has %s", got)
	}
	l.Add(Key{9000, 3}, 3, 10, false)
	l.Move(Key{9000, 3}, 3, 6, 10, true)
	if got := l.Resume(9); got != 9 {
		t.Errorf("what the store has had moved is read again from %d on", got)
	}
	l.Add(Key{8000, 2}, 2, 10, false)
	l.Move(Key{8000, 2}, 2, 7, 10, false)
	if got := l.Resume(9); got != 7 {
		t.Errorf("what only memory has is read again from %d on", got)
	}
}

// What a batch has changed is read as it was written.
func TestChangesAsWritten(t *testing.T) {
	c := changes{highest: -1}
	want := []Counted{{Key: Key{7000, 9}, Offset: 9, Bytes: 10}, {Key: Key{8000, 3}, Offset: 20, Bytes: 20}, {Key: Key{9000, 1}, Offset: 5, Stub: true}}
	for i, x := range want {
		c.append(x, i == 1)
	}
	var got []Counted
	err := eachChange(c.b, func(x Counted, removes bool) {
		if removes != (len(got) == 1) {
			t.Errorf("%+v: it removes: %v", x, removes)
		}
		got = append(got, x)
	})
	if err != nil || !slices.Equal(got, want) || c.highest != 9 {
		t.Errorf("%+v, %v; the highest is %d", got, err, c.highest)
	}
	c.reset()
	c.append(Counted{Key: Key{7000, -2}, Offset: -2, Bytes: 1}, false)
	if err := eachChange(c.b, func(Counted, bool) {}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("below the log: %v", err)
	}
}

// The head of the counts is read as it was written, and no width of it is taken for another one.
func TestHeadAsWritten(t *testing.T) {
	c := counted()
	c.identified = true
	got := newCounts()
	next, err := got.readHead(c.appendHead(nil, 7))
	first, last, copies := got.Copies()
	if err != nil || next != 7 || !got.Identified() || got.Bytes() != 35 || fmt.Sprint(first, last, copies) != "2 3 true" || !slices.Equal(got.due.list, c.due.list) {
		t.Errorf("%d, %v: %+v", next, err, got)
	}
	wide := newCounts()
	if _, err := wide.readHead([]byte{7, 0, 0, 0, 200, 1, 1, 1}); err != nil || wide.due.list[0].width != 1<<62 {
		t.Errorf("%v: %+v", err, wide.due.list)
	}
	c.due.list = append(c.due.list, bucket{from: 0, width: 1024, records: 0})
	if c.whole() {
		t.Error("buckets out of order are taken for whole")
	}
}

// Stretches of due time hold something, and do not overlap, whatever a head says.
func TestHeadsThatAreNone(t *testing.T) {
	head := func(of ...bucket) []byte {
		c := newCounts()
		c.due.list = of
		return c.appendHead(nil, 7)
	}
	for what, b := range map[string][]byte{
		"one twice":         head(bucket{1024, 1024, 1, 5}, bucket{1024, 1024, 1, 5}),
		"one within":        head(bucket{0, 4096, 1, 5}, bucket{1024, 1024, 1, 5}),
		"one before":        head(bucket{4096, 1024, 1, 5}, bucket{1024, 1024, 1, 5}),
		"one of nothing":    head(bucket{0, 1024, 0, 5}),
		"one of less":       head(bucket{0, 1024, -1, 5}),
		"one of less bytes": head(bucket{0, 1024, 1, -5}),
	} {
		if _, err := newCounts().readHead(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := newCounts().readHead(head(bucket{-4096, 4096, 1, 0}, bucket{0, 1024, 1, 5}, bucket{4096, 1024, 1, 5})); err != nil {
		t.Error(err)
	}
}

// A page holds something, and each stretch of it once, and each offset of that.
func TestPagesThatAreNone(t *testing.T) {
	for what, b := range map[string][]byte{"nothing": {}, "a stretch twice": {3, 1, 5, 0, 3, 1, 6, 0}, "a stretch after a later one": {3, 1, 5, 0, 2, 1, 6, 0}, "a stretch of nothing": {3, 0}, "half a stretch": {3, 2, 5, 0}, "an offset twice": {3, 2, 5, 0, 5, 0}, "an offset of no stretch": {3, 1, 0, 4}} {
		if _, _, err := readPage(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, n, err := readPage([]byte{3, 2, 5, 0, 6, 0, 4, 1, 7, 0}); n != 3 || err != nil {
		t.Errorf("%d offsets, %v", n, err)
	}
}

// What was counted above O is named in the order of keys, without what was taken away, and not at all where it is too much.
func TestAboveNamesSome(t *testing.T) {
	p := openPartition(t, memStore(t), orders(0))
	for i, at := range []int64{9000, 7000, 8000, 6000} {
		x := Counted{Key: Key{at, 20 + int64(i)}, Offset: 20 + int64(i), Bytes: 1}
		p.Count(x)
		must(t, p.Commit(Position{Offset: 20, Resume: 20}))
		if at == 8000 {
			p.Uncount(x)
			must(t, p.Commit(Position{Offset: 20, Resume: 20}))
		}
	}
	all, ok, err := p.Above(3)
	if err != nil || !ok || len(all) != 3 || all[0].Key.Due != 6000 || all[1].Key.Due != 7000 || all[2].Key.Due != 9000 {
		t.Errorf("%+v, %v, %v", all, ok, err)
	}
	if all, ok, err := p.Above(2); ok || err != nil {
		t.Errorf("of two it names %+v, %v", all, err)
	}
}

// What a database cannot help is no reason to drop it.
func TestSurroundings(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, fs.ErrPermission, syscall.EACCES, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if !isSurroundings(fmt.Errorf("open: %w", err)) {
			t.Errorf("%v drops the store", err)
		}
	}
	for _, err := range []error{ErrCorrupt, syscall.EIO, fs.ErrNotExist} {
		if isSurroundings(fmt.Errorf("open: %w", err)) {
			t.Errorf("%v does not", err)
		}
	}
}

// Metadata that is longer than any that is written was not written so.
func TestMetadataThatIsTooLong(t *testing.T) {
	short, err := Checkpoint{Identity: "n"}.Metadata()
	must(t, err)
	if _, err := ParseCheckpoint(0, NoEpoch, short+strings.Repeat("n", MaxMetadata)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}
