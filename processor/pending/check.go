package pending

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/duewheel/duewheel/state"
)

// Check returns an error if an invariant does not hold. Tests call it after each step.
func Check(p *Partition) error {
	return errors.Join(checkMarks(p), checkStoreless(p), checkLate(p), checkConfirmed(p), checkStubs(p), checkIDs(p), checkNothing(p), checkCounts(p), checkLines(p), checkEarly(p), checkScouted(p))
}

// checkStoreless finds what only a partition with a store can know, or has to write.
func checkStoreless(p *Partition) error {
	if p.store != nil {
		if p.sure {
			return errors.New("there is a store, and what it has taken away in a catch-up is kept in memory")
		}
		return nil
	}
	first, some := p.ledger.First()
	switch {
	case p.identified:
		return errors.New("there is no store, and some of what it holds has an id")
	case p.dirty:
		return errors.New("there is no store, and it has an open batch")
	case p.spent > 0 || len(p.passed) > 0:
		return fmt.Errorf("there is no store, and it holds %d records that are delivered, and counts %d", p.spent, len(p.passed))
	case p.late.away > 0 && !(p.blind && p.late.failed):
		return fmt.Errorf("there is no store, and %d bytes that it keeps are awaited", p.late.away)
	case some && first < p.committed.LowWater:
		return fmt.Errorf("there is no store, and record %d below L %d is pending or remembered", first, p.committed.LowWater)
	}
	return nil
}

func checkMarks(p *Partition) error {
	switch {
	case p.lateUpTo.Less(p.done.Watermark):
		return fmt.Errorf("late is decided against %v, and W is %v", p.lateUpTo, p.done.Watermark)
	case p.done.Watermark.Less(p.committed.Watermark), p.done.Offset < p.committed.Offset:
		return fmt.Errorf("committed is %+v, and decided %+v", p.committed, p.done)
	case p.wheel.Len() > p.ledger.Len():
		return fmt.Errorf("%d records are in the wheel, and %d are pending", p.wheel.Len(), p.ledger.Len())
	}
	return nil
}

func checkLate(p *Partition) error {
	var bytes int64
	notes := 0
	before := int64(-1)
	for h := range p.late.all() {
		if h.effect.Pending() {
			bytes += int64(heldBytes)
			if h.hasID {
				bytes += int64(len(p.near.get(h.ref)))
			}
		} else {
			bytes += int64(len(p.near.get(h.ref)))
		}
		if h.effect.Pending() {
			notes++
		}
		if h.refusal == nil && h.effect == EffectNone && p.lateUpTo.Less(h.key) {
			return fmt.Errorf("record %d is late, with key %v above %v", h.offset, h.key, p.lateUpTo)
		}
		if h.offset <= before {
			return fmt.Errorf("late record %d comes after %d", h.offset, before)
		}
		before = h.offset
	}
	if notes != p.late.notes {
		return fmt.Errorf("%d notes are on the list, and %d are counted", notes, p.late.notes)
	}
	if bytes != p.late.bytes {
		return fmt.Errorf("late records take %d bytes, and %d are counted", bytes, p.late.bytes)
	}
	return nil
}

// checkStubs finds stubs where no parser leaves any.
func checkStubs(p *Partition) error {
	if n := p.ledger.Len() - p.ledger.Waiting(); n > 0 && p.parsers.memory() == 0 {
		return fmt.Errorf("%d records are remembered, and no parser of the checkpoint remembers any", n)
	}
	return nil
}

// checkIDs finds what is found twice by its id: when it is pending no more it would be found still.
func checkIDs(p *Partition) error {
	for h, more := range p.ids.more {
		first, has := p.ids.first.find(h)
		if !has || len(more) == 0 {
			return fmt.Errorf("%d more records have an id than the first, which is known: %v", len(more), has)
		}
		for i, e := range more {
			if e.key == first.key || slices.ContainsFunc(more[:i], func(m indexEntry) bool { return m.key == e.key }) {
				return fmt.Errorf("record %v is found twice by its id", e.key)
			}
		}
	}
	return nil
}

// checkConfirmed finds what is kept for a question that is not open.
func checkConfirmed(p *Partition) error {
	for by := range p.confirmed {
		if !slices.ContainsFunc(p.questions, func(q question) bool { return q.offset == by }) {
			return fmt.Errorf("record %d is confirmed to have taken one away, and there is no question about it", by)
		}
	}
	for offset := range p.resolved {
		if !slices.ContainsFunc(p.questions, func(q question) bool { return q.offset == offset }) {
			return fmt.Errorf("record %d is said to be resolved, and there is no question about it", offset)
		}
	}
	return nil
}

// checkNothing finds what is kept although nothing is pending and all is committed.
func checkNothing(p *Partition) error {
	if !p.live || p.Pending() > 0 || p.ledger.Len() > 0 || !p.Settled() {
		return nil
	}
	left := 0 // and in gone lies what a partition without a store was not sure of, until it is read again
	if p.store != nil && !p.dirty {
		if err := p.store.Scan(p.lateUpTo, func(state.Key, []byte) bool { left++; return true }); err != nil {
			return err
		}
	}
	gone := 0
	if p.store != nil {
		gone = len(p.gone) - len(p.deleted)
	}
	for _, kept := range []struct {
		what string
		n    int64
	}{
		{"bytes in memory", p.near.bytes}, {"bytes of the largest record in memory", p.near.largest}, {"bytes in the ledger", p.ledger.Bytes()},
		{"offsets below which the store resumes", math.MaxInt64 - p.ledger.Resume(math.MaxInt64)}, {"offsets that are held", int64(len(p.releases))},
		{"records that were taken away", int64(len(p.removed))}, {"keys of such that the store does not delete", int64(gone)},
		{"ids", int64(p.ids.len())}, {"ids in questions", int64(len(p.ids.questions))}, {"records in the store", int64(left)},
	} {
		if kept.n != 0 {
			return fmt.Errorf("nothing is pending, and kept are %d %s", kept.n, kept.what)
		}
	}
	return nil
}

// checkCounts finds what the store counts above W and does not hold, or holds and does not count.
func checkCounts(p *Partition) error {
	if p.store == nil || p.dirty {
		return nil
	}
	counts, err := p.store.Counts()
	if err != nil {
		return err
	}
	n, bytes := 0, int64(0)
	scanned := p.store.Scan(p.committed.Watermark, func(k state.Key, run []byte) bool {
		x := counted(k, run)
		if n++; !x.Stub {
			bytes += int64(x.Bytes)
		}
		if !counts.Has(x.Offset, x.Stub) {
			err = fmt.Errorf("the store holds %d with key %v (a stub: %v), and does not count it", x.Offset, k, x.Stub)
		}
		return err == nil
	})
	if scanned != nil || err != nil {
		return errors.Join(scanned, err)
	}
	if n != counts.Len() || bytes != counts.Bytes() {
		return fmt.Errorf("the store holds %d records and stubs with %d bytes above %v, and counts %d with %d", n, bytes, p.committed.Watermark, counts.Len(), counts.Bytes())
	}
	return nil
}

// checkEarly finds what memory holds above the horizon and does not know of, and what the store alone holds at or below it.
func checkEarly(p *Partition) error {
	t := &p.wheel
	found, bytes := 0, int64(0)
	for _, l := range append(slices.Clone(t.lines), &t.waiting) {
		for _, e := range slices.Concat(l.blocks...) {
			key := keyOfEntry(e)
			if t.has(key) != p.horizon.Less(key) || t.has(key) && !ref(e.Ref).stored() {
				return fmt.Errorf("record %v is early: %v, above the horizon: %v, in the store: %v", key, t.has(key), p.horizon.Less(key), ref(e.Ref).stored())
			}
			if t.has(key) {
				found, bytes = found+1, bytes+int64(len(p.near.get(ref(e.Ref))))
			}
		}
	}
	if t.keys.n != len(t.above) {
		return fmt.Errorf("%d keys are early, and %d in order", len(t.above), t.keys.n)
	}
	if found != len(t.above) || bytes != t.bytes {
		return fmt.Errorf("%d early records have %d bytes, and %d with %d are known of", found, bytes, len(t.above), t.bytes)
	}
	if !p.HasStore() || !p.live || p.dirty || p.drops.any() {
		return nil
	}
	far := 0
	err := p.store.Scan(scouting{&p.window}.first(), func(k state.Key, run []byte) bool {
		if _, gone := p.gone[k]; !gone && !t.has(k) {
			far++
		}
		return true
	})
	if err == nil && far != p.Far() {
		err = fmt.Errorf("the store alone holds %d records and stubs above the horizon, and %d are counted", far, p.Far())
	}
	return err
}

// checkLines finds lines that are counted wrongly, hold what goes elsewhere, or are left behind something that is not known of.
func checkLines(p *Partition) error {
	t, queued := &p.wheel, 0
	if t.scouted != (state.Key{}) && !p.horizon.Less(t.scouted) {
		return fmt.Errorf("it is looked for other targets up to %v, and the horizon is %v", t.scouted, p.horizon)
	}
	for _, l := range t.lines {
		for _, e := range slices.Concat(l.blocks...) {
			if n := t.goesTo(int64(e.Due), p.near.get(ref(e.Ref))); t.line(n) != l || ref(e.Ref).number() > 0 && ref(e.Ref).number() != n {
				return fmt.Errorf("record %v goes to target %d, is known to go to %d, and is in another line: %v", keyOfEntry(e), n, ref(e.Ref).number(), t.line(n) != l)
			}
		}
		if queued += l.n; l.left != (state.Key{}) && !l.left.Less(t.scouted) {
			return fmt.Errorf("a line is left behind %v, and it was looked up to %v", l.left, t.scouted)
		}
	}
	if queued != t.queued {
		return fmt.Errorf("%d records are in lines, and %d are counted", queued, t.queued)
	}
	return nil
}

// checkScouted finds what the store has where it was looked, and neither is early nor comes behind what was left.
func checkScouted(p *Partition) error {
	t := &p.wheel
	if t.scouted == (state.Key{}) || !p.HasStore() || !p.live || p.dirty || p.drops.any() {
		return nil
	}
	var wrong error
	err := p.store.Scan(scouting{&p.window}.first(), func(k state.Key, run []byte) bool {
		if _, gone := p.gone[k]; t.scouted.Less(k) || gone || t.has(k) || isStub(run) {
			return !t.scouted.Less(k)
		}
		if l := t.line(t.goesTo(k.Due, run)); l.left == (state.Key{}) || !l.left.Less(k) {
			wrong = fmt.Errorf("record %v is neither early nor left behind: it was looked up to %v, and its line is left behind %v", k, t.scouted, l.left)
		}
		return wrong == nil
	})
	return errors.Join(err, wrong)
}
