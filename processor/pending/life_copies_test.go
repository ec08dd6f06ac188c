package pending

import (
	"iter"
	"maps"
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// cancelledOnTheWay: while a record is carried a cancel of it comes.
func cancelledOnTheWay(v *life) {
	v.produce(v.carriedSort())
	v.writeOne()
	v.carries(false)
	v.produce(v.cancelSort())
	v.happen(false)
}

// cancelledFirst is that, and the copy has been read, which the cancel lies before.
func cancelledFirst(v *life) {
	cancelledOnTheWay(v)
	v.mark()
	v.readUpTo(v.stable)
}

// resumesBelow: since the store was flushed, what lies first in the log was carried, and what only memory held. So L is above where the store resumes.
func resumesBelow(v *life) {
	v.produce(v.carriedSort())
	v.produce(dueNow)
	v.produce(dueAhead)
	v.produce(dueAhead)
	v.writeOne()
	v.must(v.p.Flush())
	v.flush()
	v.carriesAndReads()
	v.carriesAndReads()
	v.writeOne()
}

// carriedSince: since the store was flushed, which resumes at its end, what lies first in the log was carried. So the store holds it below L.
func carriedSince(v *life) {
	v.produce(v.carriedSort())
	v.produce(dueAhead)
	v.produce(dueAhead)
	v.writeOne()
	v.must(v.p.Flush())
	v.flush()
	v.carriesAndReads()
	v.writeOne()
}

// followedBelow: the other replica has owned the partition before, and its store resumes below L.
func followedBelow(v *life) {
	v.produce(v.carriedSort())
	v.produce(dueNow)
	v.produce(dueAhead)
	v.produce(dueAhead)
	v.writeOne()
	v.must(v.p.Flush())
	v.follow()
	v.takeOver(false)
	v.live()
	v.carriesAndReads()
	v.carriesAndReads()
	v.writeOne()
}

func (v *life) carriesAndReads() {
	v.carries(false)
	v.happen(false)
	v.mark()
	v.readUpTo(v.stable)
}

// stale: O passes a record that was resolved before, or a copy of one.
func (v *life) stale(it *Item) {
	v.note("stale")
	v.conclude(it)
	if v.atLeastOnce {
		v.deadLettered |= bit(v.seqOf(it.Offset))
	}
	if !v.isCopy(it.Offset) {
		v.again &^= bit(it.Offset)
	}
}

// carriedSort is the first sort of requests, and cancelSort the last.
func (v *life) carriedSort() rune { return rune(v.sorts[0]) }

func (v *life) cancelSort() rune { return rune(v.sorts[len(v.sorts)-1]) }

// writeOne has a checkpoint written.
func (v *life) writeOne() {
	if v.checkpoint(); v.beside != nil {
		v.wrote()
	}
}

// carries makes a part that carries one record: that which lies first in the log, or last. Another turn may have taken nothing.
func (v *life) carries(last bool) {
	from := int64(-1)
	for offset := range v.end() {
		if _, _, is := (Carrying{v.p}).Copy(v.log[offset].Record); is && (last || from < 0) {
			from = offset
		}
	}
	if v.nothing = from < 0; !v.nothing {
		v.copy(from)
	}
}

// carriesAll is the same of all that may be carried.
func (v *life) carriesAll() {
	var all []int64
	for offset := range v.end() {
		if _, _, is := (Carrying{v.p}).Copy(v.log[offset].Record); is {
			all = append(all, offset)
		}
	}
	if v.nothing = len(all) < 2; !v.nothing {
		v.note("carries several")
		v.copy(all...)
	}
}

// copy makes a part that carries what lies at some offsets.
func (v *life) copy(from ...int64) {
	var all []topics.Copy
	for _, offset := range from {
		v.carry = append(v.carry, v.copyOf(offset, v.end()+1)) // anywhere ahead: its offset is known when it is appended
		_, c, _ := Carrying{v.p}.Copy(v.log[offset].Record)
		all = append(all, c)
	}
	v.been.carries++
	v.taken = append(v.taken, Carrying{v.p}.Take(slices.Values(all)))
	v.p.Begin()
	v.note("carried")
}

// leaveCopies: an owner is gone, and has left copies that no reader sees yet. What is made of what lies below L when it is read, or below that of a checkpoint on its
// way, does not count.
func (v *life) leaveCopies() {
	for offset := v.stable; offset < v.end(); offset++ {
		if v.log[offset].what == copied {
			v.orphans |= bit(offset)
		}
	}
}

// checkHeld: L stays at or below what copies were made of until O has passed them, whatever has become of that, unless W has passed it.
func (v *life) checkHeld() {
	if v.been.resets > 0 || v.committed.GivenUp > 0 || v.p.Ordered() {
		return
	}
	low := max(v.committed.LowWater, v.p.planned.LowWater) // which may be about to be committed
	if v.beside != nil {
		low = max(low, v.beside.To.LowWater)
	}
	for offset := v.committed.Offset; offset < v.stable; offset++ {
		e := &v.log[offset]
		switch {
		case e.what != copied || !v.committed.Watermark.Less(state.Key{Due: e.due, Seq: e.of}):
		case v.orphans&bit(offset) != 0 && offset >= v.p.position:
			if e.from < low {
				v.unseen |= bit(offset)
			}
		case e.from < v.committed.LowWater && v.unseen&bit(offset) == 0:
			v.fail("L is %d and O %d, and the copy at %d was made of what lies at %d", v.committed.LowWater, v.committed.Offset, offset, e.from)
		}
	}
}

// loseCarried has the log lose all below the last place of which the log has a copy that O has not passed.
func (v *life) loseCarried() {
	start, covered := v.logStart, mask(0)
	for offset := v.committed.Offset; offset < v.stable; offset++ {
		if e := &v.log[offset]; e.what == copied {
			covered |= bit(e.of)
			start = max(start, e.from+1)
		}
	}
	lost, was, said := v.requests(start)&^v.resolved&^covered, v.logStart, v.says(v.committed)
	for offset := range v.leftUnless(v.committed.Offset).within(start) { // nothing but the log tells of what was delivered, and retention is long enough for that
		last := offset
		for at := range v.stable {
			if e := &v.log[at]; e.what == copied && e.of == offset {
				last = at
			}
		}
		if last < start {
			lost |= bit(offset)
		}
	}
	if start == was || start > v.committed.Offset || lost != 0 || v.remembers() && !v.p.live {
		v.nothing = true
		return
	}
	if v.logStart = start; v.says(v.committed) != said { // with what it has lost it has lost what had become of that
		v.logStart, v.nothing = was, true
		return
	}
	v.been.losses++
	v.note("lost")
}

// reset has a person set the checkpoint back, or ahead, to between a record and its last copy: all below is done with, and nothing that lies there or behind.
func (v *life) reset(to func(copy *entry) int64) {
	at := int64(-1)
	for offset := range v.end() {
		if e := &v.log[offset]; e.what == copied {
			at = to(e)
		}
	}
	if v.nothing = at < v.logStart; v.nothing {
		return
	}
	v.note("reset")
	v.beginAt(state.Checkpoint{TopicID: v.committed.TopicID, Offset: at, LowWater: at, Appended: true, GivenUp: at})
}

// forget has the group lose its checkpoint, and the owner its store: all that is left in the log is taken for pending.
func (v *life) forget() {
	v.note("forgets")
	v.newStore(v.own)
	v.beginAt(state.Checkpoint{TopicID: v.committed.TopicID, Offset: v.logStart, LowWater: v.logStart, GivenUp: v.logStart})
}

// goByStore has the group lose its checkpoint, and the owner go on from the one that its store bears, if the log has what that needs.
func (v *life) goByStore() {
	pos, ok := v.p.store.Position()
	if v.nothing = !ok || !pos.IsCheckpoint() || min(pos.Offset, pos.Resume, pos.LowWater) < v.logStart; v.nothing {
		return
	}
	parsers, err := state.ParseParserList(pos.Parsers)
	v.must(err)
	v.note("goes by its store")
	v.heldBy(parsers) // the store knows of none that was told later, also from where one was told before
	begun, given := v.begun, v.given
	v.supersede(state.Checkpoint{TopicID: v.committed.TopicID, Offset: pos.Offset, Watermark: pos.Watermark, LowWater: pos.LowWater, Parsers: parsers, Appended: true})
	v.begun, v.given = begun, v.given&given
	v.restore(nil)
}

// beginAt has another checkpoint hold, in which nothing is resolved from O on.
func (v *life) beginAt(c state.Checkpoint) {
	v.supersede(c)
	v.restore(nil)
}

// supersede has another checkpoint hold for whoever comes next.
func (v *life) supersede(c state.Checkpoint) {
	v.been.resets++
	v.committed, v.outdated = c, true
	at := c.Offset
	for i := range v.log {
		v.log[i].known = 0
	}
	said, named := v.says(v.committed), v.resolved&v.namedBetween(max(c.LowWater, v.logStart), v.end()) // of what lies there resolve records say that it is resolved, and it is not delivered again
	v.begun, v.given = at, said
	v.resolved, v.again = said|named, named&^said
	v.atOnce, v.accepted = v.atOnce|v.requests(at)|named, v.accepted&(bit(at)-1) // what became of those named was told, and nothing comes of them again
	maps.DeleteFunc(v.takenBy, func(of, by int64) bool { return v.resolved&bit(of) == 0 || by >= at && !v.confirms(of, by) })
}

// confirms reports whether a resolve record says that one has taken another away.
func (v *life) confirms(of, by int64) bool {
	return slices.ContainsFunc(v.log, func(e entry) bool { return e.what == resolveOf && e.of == of && e.from == by })
}

// takenBetween are the offsets that cancels and replacements in a stretch of the log name.
func (v *life) takenBetween(from, to int64) (taken mask) {
	for offset := from; offset < to; offset++ {
		taken |= v.namesOf(offset)
	}
	return taken
}

// takenBefore are the offsets that something names which lies below an offset: all of it, or what lies there since a person has reset the checkpoint.
func (v *life) takenBefore(below int64) mask {
	if v.been.resets > 0 {
		return v.takenBetween(v.begun, below)
	}
	return v.takenAway(below)
}

// covers reports whether the owner's store has all that the log has lost.
func (v *life) covers(c state.Checkpoint) bool {
	if v.storeless {
		return false
	}
	pos, ok := v.storeOf(v.own).Position()
	return ok && min(pos.Offset, pos.Resume) >= v.logStart && pos.Offset <= c.Offset && !c.Watermark.Less(pos.Watermark)
}

// takenAway are the offsets that cancels and replacements below an offset name.
func (v *life) takenAway(below int64) (taken mask) {
	for offset := range below {
		taken |= v.namesOf(offset)
	}
	return taken
}

// within are the offsets of a mask below one.
func (m mask) within(end int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for offset := range end {
			if m&bit(offset) != 0 && !yield(offset) {
				return
			}
		}
	}
}

func bit(offset int64) mask {
	if offset >= 64 {
		panic("the log is too long")
	}
	return 1 << offset
}
