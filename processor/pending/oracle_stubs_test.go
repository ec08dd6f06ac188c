package pending

import (
	"slices"

	"github.com/duewheel/duewheel/state"
)

// left are the offsets of what has left a stub, by the log and W: what a turn delivers, or has delivered, and what no cancel or
// replacement names that was decided.
func (v *life) left() (all mask) { return v.leftUnless(v.p.position) }

// leftUnless counts only cancels and replacements below an offset.
func (v *life) leftUnless(below int64) (all mask) {
	if !v.remembers() {
		return 0
	}
	gone := v.named(v.end())
	for offset := v.begun; offset < below; offset++ {
		if e := &v.log[offset]; (e.naming() || v.replaces(e)) && !slices.ContainsFunc(v.p.questions, func(a question) bool { return a.offset == offset }) {
			gone |= v.namesOf(offset)
		}
	}
	sent := v.resolved &^ v.again &^ v.given
	for _, parts := range [][]*Part{v.taken, v.p.again.parts} {
		for _, pt := range parts {
			for i := range pt.Items {
				switch it := &pt.Items[i]; {
				case it.Effect.Pending(), it.Effect == EffectForgotten, it.Effect == EffectStale:
				case it.Refusal == nil && it.By == 0 && it.Effect == EffectNone:
					sent |= bit(v.seqOf(it.Offset))
				default: // refused, and its resolve record will say so
					gone |= bit(v.seqOf(it.Offset))
				}
			}
		}
	}
	for offset := range (sent &^ gone).within(v.p.position) {
		e := &v.log[offset]
		if key := (state.Key{Due: e.due, Seq: offset}); e.hasID() && !v.p.lateUpTo.Less(key) && v.p.lateUpTo.Less(v.stubOf(offset)) {
			all |= bit(offset)
		}
	}
	return all
}

func (v *life) stubOf(offset int64) state.Key {
	ms := v.settled(offset).remember.Milliseconds()
	if ms == 0 {
		return state.Key{}
	}
	return state.Key{Due: (v.log[offset].due + ms + 999) / 1000 * 1000, Seq: offset}
}

// checkForgotten: a stub whose time has come is that of a delivered record.
func (v *life) checkForgotten(it *Item) {
	v.note("forgotten")
	if it.Key != v.stubOf(v.seqOf(it.Offset)) || it.Key.Due > v.latest {
		v.fail("the stub of %d is taken with %v at %s", it.Offset, it.Key, at(v.latest))
	}
}

// checkStubs fails unless a partition holds the stubs of some records, and none else.
func (v *life) checkStubs(p *Partition, want mask) {
	got, n := mask(0), p.ledger.Len()-p.ledger.Waiting()
	if want != 0 {
		v.note("remembered")
	}
	if v.atLeastOnce {
		return // what comes again after a crash may be said to be resolved
	}
	if p.store == nil && p.horizon != farthest {
		if n < want.len() {
			v.fail("%d stubs are counted, want %b", n, want)
		}
		return
	}
	v.must(p.commit())
	for _, id := range []string{"id", "other"} {
		for _, x := range v.found(p, id) {
			if x.stub {
				got |= bit(x.key.Seq)
			}
		}
	}
	for offset := range (want &^ got).within(v.logStart) {
		if v.stubOf(offset).Due <= v.latest {
			want &^= bit(offset) // retention has taken it after its time, and no part yet, so it may be gone with the store
		}
	}
	for _, a := range p.questions { // of what was given up nothing is there before its copy is judged
		if a.copied != nil && a.copied.from < p.lost.below && got&bit(a.copied.key.Seq) == 0 {
			want &^= bit(a.copied.key.Seq)
		}
	}
	if got != want || n != want.len() {
		v.fail("the stubs of %b are found and %d are counted, want %b", got, n, want)
	}
}

// found is what a partition finds by an id, in memory and in the store.
func (v *life) found(p *Partition, id string) []indexEntry {
	all := p.ids.find([]byte(id))
	v.must(p.inStore(func(yield func(int, []byte) bool) { yield(0, []byte(id)) }, func(_ int, x indexEntry) { all = append(all, x) }))
	return all
}

func (m mask) len() (n int) {
	for ; m != 0; m &= m - 1 {
		n++
	}
	return n
}

// checkFound fails unless what is pending is found by its id, or what has left a stub, and nothing else is.
func (v *life) checkFound() {
	p := v.p
	if v.atLeastOnce || p.Ordered() || p.blind || !p.live || p.leaving || p.drops.any() || v.been.resets > 0 || v.been.losses > 0 {
		return // what comes again after a crash may be said to be resolved
	}
	for _, a := range p.questions {
		if a.copied != nil {
			return
		}
	}
	there := v.there() | v.left()
	for _, a := range p.questions {
		there &^= bit(a.offset)
	}
	for _, id := range []string{"id", "other"} {
		got, want := mask(0), mask(0)
		for _, x := range v.found(p, id) {
			if _, gone := p.gone[x.key]; !gone {
				got |= bit(x.key.Seq)
			}
		}
		for offset := range there.within(v.end()) {
			if e := &v.log[offset]; e.hasID() && e.id() == id {
				want |= bit(offset)
			}
		}
		if got != want {
			v.fail("by the id %q is found %b, want %b", id, got, want)
		}
	}
}
