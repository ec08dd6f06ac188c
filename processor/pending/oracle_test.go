package pending

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// fault is what must not be.
type fault string

// fail ends a life in which something is that must not be.
func (v *life) fail(format string, args ...any) { panic(fault(fmt.Sprintf(format, args...))) }

// says are the offsets that a checkpoint says are resolved: of a keyed partition, what a replay of [L, O) does not
// find pending; of a queue all below O.
func (v *life) says(c state.Checkpoint) mask { return v.saysTo(c, v.end()) }

// saysTo is what it says to a reader of the log up to there: each request of which a replay finds neither the record nor a copy that nothing has
// taken away.
func (v *life) saysTo(c state.Checkpoint, read int64) (resolved mask) {
	found, low, lost := mask(0), max(c.LowWater, v.logStart), c.GivenUp
	named := v.namedBetween(low, read)
	if c.LowWater < v.logStart {
		lost = v.logStart
	}
	for offset := low; offset < min(c.Offset, read); offset++ {
		e := &v.log[offset]
		found &^= v.namesOf(offset)
		if key := (state.Key{Due: e.due, Seq: v.seqOf(offset)}); (e.request() && (!e.naming() || e.replacement()) && e.what != unparsable || e.what == copied) && c.Watermark.Less(key) {
			found |= bit(key.Seq)
		}
	}
	taken := mask(0)
	if c.Watermark.Seq > c.Offset && low == c.Offset { // a sighting
		c.Watermark = state.Key{}
	}
	for offset := low; offset < v.end(); offset++ { // what it was made of lies below all that is read, and nothing that is has taken it away
		e := &v.log[offset]
		if offset < c.Offset {
			taken |= v.namesOf(offset)
		} else if e.what == copied && e.from < lost && taken&bit(e.of) == 0 && c.Watermark.Less(state.Key{Due: e.due, Seq: e.of}) {
			found |= bit(e.of)
		}
	}
	for offset := range c.Offset {
		if v.log[offset].request() && found&^named&bit(offset) == 0 {
			resolved |= bit(offset)
		}
	}
	return resolved
}

// named are the offsets that resolve records below an offset name.
func (v *life) named(below int64) mask { return v.namedBetween(0, below) }

// namedBetween are those that resolve records in a stretch of the log name: below a reset checkpoint nothing is read.
func (v *life) namedBetween(from, below int64) (named mask) {
	for _, e := range v.log[min(from, below):below] {
		if e.what == resolveOf {
			named |= bit(e.of)
		}
	}
	return named
}

// resolvedItself reports whether a resolve record says of a record that nothing has taken it away, whether an owner could see that or not.
func (v *life) resolvedItself(of int64) bool {
	return slices.ContainsFunc(v.log, func(e entry) bool { return e.what == resolveOf && e.of == of && e.from < 0 })
}

// conclude takes in what a record has done to the one that it names, and fails if it says what is not so.
func (v *life) conclude(it *Item) {
	if v.isCopy(it.Offset) {
		return
	}
	if it.By > 0 {
		v.takenBy[it.Offset] = it.By
	}
	e := &v.log[it.Offset]
	if !e.naming() && !e.hasID() || !it.late || v.misnames(e) { // or it is the replacement's own delivery
		return
	}
	for _, r := range v.p.removed {
		if r.by == it.Offset && !r.stub {
			if v.again&bit(r.key.Seq) != 0 && v.confirms(r.key.Seq, it.Offset) { // a resolve record from before a reset says so already
				v.again &^= bit(r.key.Seq)
			} else {
				v.deliver(r.key.Seq)
			}
			v.takenBy[r.key.Seq] = it.Offset
		}
	}
	took := false
	for of, by := range v.takenBy {
		if by == it.Offset && v.namesOf(it.Offset)&bit(of) == 0 && !v.confirms(of, by) { // else it was decided by an owner who was told otherwise
			v.fail("record %d has taken away %d, which it does not name", it.Offset, of)
		}
		took = took || by == it.Offset
	}
	if it.Effect == EffectStale { // what came of it itself was told before
		return
	}
	by, is := v.takenBy[e.of]
	switch {
	case took:
		v.note("taken away")
	case it.Effect == EffectIgnored || it.Refusal != nil && it.Refusal.Code == topics.CodeDuplicateID:
		v.note("duplicate")
	}
	if !e.naming() {
		return
	}
	if (e.what == cancelAway || it.Effect == EffectForward && e.id() == "") && (it.Effect != EffectForward || e.what != cancelAway) {
		v.fail("cancel %d is %v", it.Offset, it.Effect)
	}
	if !e.replacement() && took != (it.Effect == EffectCancelled) {
		v.fail("cancel %d says %v of %d, which was taken away by %d (%v)", it.Offset, it.Effect, e.of, by, is)
	}
	if e.replacement() && (took || v.forgiving) == (it.Refusal != nil) && e.what != replaceBad {
		v.fail("replacement %d is refused: %v, and %d was taken away by %d (%v)", it.Offset, it.Refusal, e.of, by, is)
	}
}

// audited takes in what a resolved item tells the audit topic: once that a request was accepted, and what it has taken away.
func (v *life) audited(it *Item) {
	if !v.env.Audit || v.isCopy(it.Offset) && it.late {
		return
	}
	var r removal
	n := slices.IndexFunc(v.p.removed, func(r removal) bool { return r.by == it.Offset && !r.stub })
	if n >= 0 {
		r = v.p.removed[n]
	}
	took, _ := it.Took()
	if has := n >= 0 && it.late; has != (took != nil) || has && *took != v.toldAs(&r) {
		v.fail("record %d has taken away %v (%v), and tells %v", it.Offset, r.key, has, took)
	}
	switch {
	case it.Effect.Pending():
		if v.accepted&bit(it.Offset) != 0 {
			v.fail("record %d is accepted twice", it.Offset)
		}
		v.accepted |= bit(it.Offset)
		v.note("accepted")
	case it.late:
		v.atOnce |= bit(it.Offset)
	}
}

// toldAs is the key by which the audit topic tells of what was taken away: that of the request that a retry stands for, unless only the log has it.
func (v *life) toldAs(r *removal) state.Key {
	if r.kind == releaseRecord {
		if _, of, is := testMark.Written(v.log[r.key.Seq].Headers, r.key.Seq); is {
			return state.Key{Due: cmp.Or(v.log[of.Origin.Offset].asked, v.log[of.Origin.Offset].until), Seq: of.Origin.Offset} // by whatever names it is read now
		}
	}
	return r.key
}

// requests are the offsets below one that have to be resolved.
func (v *life) requests(below int64) (all mask) {
	for offset := range below {
		if v.log[offset].request() {
			all |= bit(offset)
		}
	}
	return all
}

// inFlight are the offsets in undecided parts, and in those that are to be tried again.
func (v *life) inFlight() (all mask) {
	for _, parts := range [][]*Part{v.taken, v.p.again.parts} {
		for _, pt := range parts {
			for i := range pt.Items {
				offset := v.seqOf(pt.Items[i].Offset)
				if e := pt.Items[i].Effect; e.Pending() || e == EffectForgotten || e == EffectStale && v.isCopy(pt.Items[i].Offset) {
					continue
				}
				if all&bit(offset) != 0 {
					v.fail("record %d is in flight twice", offset)
				}
				all |= bit(offset)
			}
		}
	}
	return all
}

// deliver resolves a record: once, but for what a crash has left behind the checkpoint (at least once).
func (v *life) deliver(offset int64) {
	if v.says(v.committed)&^(v.again&v.deadLettered)&bit(offset) != 0 {
		v.fail("record %d is delivered, and the checkpoint %s says that it was", offset, checkpointed(v.committed))
	}
	if v.resolved&^v.again&bit(offset) != 0 {
		v.fail("record %d is delivered twice", offset)
	}
	v.resolved |= bit(offset)
	v.again &^= bit(offset)
}

// write commits a checkpoint. It never goes back, and says of each record that it is resolved if that is so, and only
// then: at least once, of what was delivered since it need not know.
func (v *life) write(c state.Checkpoint) {
	was := v.committed
	o, l := max(was.Offset, c.GivenUp), max(was.LowWater, c.GivenUp) // where its owner found them, once that was given up
	if c.Offset < was.Offset || c.Watermark.Less(was.Watermark) && (c.GivenUp == 0 || l != o || was.Watermark.Seq <= o) || c.LowWater < was.LowWater || c.Offset > v.end() || c.LowWater > c.Offset {
		v.fail("the checkpoint goes from %s to %s", checkpointed(was), checkpointed(c))
	}
	v.committed = c
	v.sightedIn(c)
	if unaudited := v.requests(c.Offset) &^ v.accepted &^ v.atOnce &^ v.soon; v.env.Audit && unaudited != 0 {
		v.fail("the checkpoint %s passes %b, and they were not audited as accepted", checkpointed(c), unaudited)
	}
	said, resolved := v.says(c), v.resolved&^v.again
	// At least once, what was resolved before a crash may be pending again, until the resolve record is read that names it.
	if lost := said &^ resolved &^ (v.resolved & v.named(v.end())); lost != 0 {
		v.fail("the checkpoint %s says of %b that they are resolved, and they are not", checkpointed(c), lost)
	}
	if more := resolved &^ said; more != 0 && !v.atLeastOnce {
		v.fail("the checkpoint %s says of %b that they are pending, and they are resolved", checkpointed(c), more)
	}
}

// checkPart is what holds for a part when it is taken.
func (v *life) checkPart(pt *Part, wants, records int, repeat bool) {
	n := 0
	for i := range pt.Items {
		if pt.Items[i].Effect != EffectForgotten {
			n++
		}
	}
	if n > records || len(pt.Items) > wants {
		v.fail("%d records in a part of at most %d, of %d that it wants", n, records, wants)
	}
	last := Item{Offset: -1}
	for i := range pt.Items {
		it := &pt.Items[i]
		e := &v.log[v.seqOf(it.Offset)]
		var rec Record
		if it.Effect.Pending() || it.Effect == EffectStale {
			last = *it
			continue
		}
		if it.Effect == EffectForgotten {
			v.checkForgotten(it)
			continue
		}
		if it.Overtakes() {
			v.note("overtakes")
		}
		if v.p.horizon.Less(it.Key) {
			v.note("early")
		}
		if err := rec.Decode(it.Run); err != nil || rec.Place != it.Offset || rec.Offset != v.seqOf(it.Offset) {
			v.fail("record %d has the bytes of %d at %d (%v)", it.Offset, rec.Offset, rec.Place, err)
		}
		asked := cmp.Or(e.tried, e.what) // what is tried again says how it was read
		bad := asked == notAllowed || asked == hasIDBad
		carried := v.p.Ordered() && v.isCopy(it.Offset)
		if refused := bad && it.Offset >= v.p.accepted || e.what == unparsable || carried; !e.replacement() && refused != (it.Refusal != nil && it.Refusal.Code != topics.CodeDuplicateID) {
			v.fail("record %d is refused: %v", it.Offset, it.Refusal)
		}
		if it.Refusal == nil && it.By == 0 && it.Effect == EffectNone && v.due(e) > v.latest {
			v.fail("record %d is early: it is %s", it.Offset, at(v.latest))
		}
		if it.Refusal == nil && it.By == 0 && it.Effect == EffectNone && !repeat && v.takenBefore(v.p.position)&bit(v.seqOf(it.Offset)) != 0 {
			v.fail("record %d is delivered, and what cancels or replaces it has been read", it.Offset)
		}
		late := v.p.Ordered() || it.Refusal != nil || it.Effect != EffectNone || !pt.from.Less(it.Key)
		if late != it.late {
			v.fail("record %d is late: %v", it.Offset, it.late)
		}
		switch {
		case i > 0 && late && (it.Offset < last.Offset || !last.late):
			v.fail("late record %d comes after %d", it.Offset, last.Offset)
		case i > 0 && !late && !last.late && (!last.Key.Less(it.Key) || last.Overtakes() && !it.Overtakes()):
			v.fail("record %d comes after %d", it.Offset, last.Offset)
		case !late && it.Overtakes() != pt.To.Watermark.Less(it.Key):
			v.fail("record %d overtakes: %v", it.Offset, it.Overtakes())
		}
		last = *it
	}
	v.inFlight()
}

// due is before which time a record may not be delivered. One whose timestamp is ahead of the clock counts as written
// when it was first seen.
func (v *life) due(e *entry) int64 {
	if e.what == fromFuture && v.p.Ordered() {
		return min(e.due, e.seen+secondDue)
	}
	return e.due
}

// check is what holds after each step. Of a live partition each record that was read is in exactly one of resolved, in
// flight and pending.
func (v *life) check() {
	v.must(Check(v.p))
	v.checkHeld()
	if len(v.p.resolved) > 0 && !v.atLeastOnce && v.been.resets == 0 { // else a transaction resolves what its O does not pass
		v.fail("resolve records name %v, which are not decided yet", v.p.resolved)
	}
	if v.f != nil && !v.outdated {
		v.checkFollower()
	}
	if !v.p.live {
		return
	}
	if c := v.p.done; c.GivenUp > 0 && c.Offset > v.p.accepted && c.Offset >= v.p.foundEnd {
		v.fail("%s has passed all copies of what was given up, and says %d", checkpointed(c), c.GivenUp)
	}
	flying, resolved := v.inFlight(), v.resolved&^v.again
	if both := flying & resolved; both != 0 && !v.atLeastOnce {
		v.fail("%b are in flight and resolved", both)
	}
	pending := v.requests(v.p.position) &^ resolved &^ flying
	for _, r := range v.p.removed {
		if !r.stub && r.key.Due == v.log[r.key.Seq].due { // else it names nothing that is there, which is not known while it may be in the store
			pending &^= bit(r.key.Seq)
		}
	}
	v.checkStubs(v.p, v.left())
	v.checkFound()
	copies, undecided := int64(0), v.deadLettered
	if v.atLeastOnce || v.been.resets > 0 { // it was resolved, and is so again when that has been read
		undecided |= v.resolved & v.named(v.p.position)
	}
	for h := range v.p.late.all() {
		if e := &v.log[h.offset]; e.what == copied && !h.effect.Pending() {
			copies++
			if e.from < v.committed.GivenUp {
				undecided |= bit(e.of)
			}
		}
	}
	if q, is := v.p.order.(*queue); is {
		for h := range q.all() {
			if v.isCopy(h.offset) && (h.effect == EffectStale || pending&bit(h.key.Seq) == 0) { // or the resolve record is still on its way
				copies++
			}
		}
	}
	got, want := v.p.Pending()-copies, int64((pending &^ undecided).len())
	if most := int64(pending.len()) + v.uncertain(); got < want || got > most {
		v.fail("%d records are pending, want %d (%b)", got, want, pending)
	}
	if !v.p.Ordered() { // else resolve records say nothing
		pending &^= undecided
	}
	v.checkWake(pending)
}

// there is what is pending, or late and in no turn: what may be taken away.
func (v *life) there() mask {
	all := v.requests(v.p.position) &^ (v.resolved &^ v.again) &^ v.inFlight()
	if v.been.resets > 0 { // a resolve record says so
		all &^= v.resolved & v.named(v.p.position)
	}
	for _, r := range v.p.removed {
		if !r.stub && r.key.Due == v.log[r.key.Seq].due { // else it names nothing that is there
			all &^= bit(r.key.Seq)
		}
	}
	all &^= v.refusedAside
	for h := range v.p.late.all() {
		if v.isCopy(h.offset) {
			continue
		}
		if h.refusal != nil || h.by > 0 || h.effect != EffectNone && !h.effect.Pending() {
			all &^= bit(h.offset)
		}
	}
	return all
}

// decide has the partition answer the open questions, and fails unless that is what follows from what is there.
func (v *life) decide() {
	v.must(v.p.Sync()) // what a replay takes away
	there, left, want := v.there(), v.left(), map[int64]string{}
	for _, a := range v.p.questions {
		e, names := &v.log[a.offset], v.namesOf(a.offset)
		if a.copied != nil {
			want[a.offset] = "stale"
			if (there|left)&bit(e.of) != 0 || e.from < v.p.lost.below && v.takenBetween(v.p.start, a.offset)&bit(e.of) == 0 && v.namedBetween(v.p.start, v.end())&bit(e.of) == 0 {
				want[a.offset] = "carried"
			}
			continue
		}
		_, confirmed := v.p.confirmed[a.offset]
		hit := there&names != 0 || confirmed
		if there &^= names; e.naming() || v.replaces(e) {
			left &^= names
		}
		_, resolved := v.p.resolved[a.offset] // before a person has reset the checkpoint
		switch bad := v.p.late.at(a.offset).refusal != nil; {
		case resolved && v.been.resets > 0:
			want[a.offset] = "stale"
		case bad:
			want[a.offset] = "refused"
		case e.hasID() && !e.naming() && !v.replaces(e) && (there|left)&v.withID(a.offset) != 0:
			want[a.offset] = "duplicate"
		case e.naming() && !hit && e.replacement() && !v.forgiving:
			want[a.offset] = "refused"
		case e.naming() && !e.replacement():
			want[a.offset] = v.answerTo(e, hit)
		default:
			want[a.offset] = "accepted"
			there |= bit(a.offset)
		}
	}
	v.must(v.p.decide())
	if v.atLeastOnce || v.p.blind {
		return // what comes again after a crash may be said to be resolved
	}
	for offset, want := range want {
		h := v.p.late.at(offset)
		got := "accepted"
		switch {
		case h.effect == EffectCarried:
			got = "carried"
		case h.effect == EffectStale:
			got = "stale"
		case h.effect == EffectIgnored || h.refusal != nil && h.refusal.Code == topics.CodeDuplicateID:
			got = "duplicate"
		case h.refusal != nil:
			got = "refused"
		case h.effect != EffectNone && !h.effect.Pending():
			if got = h.effect.String(); h.effect == EffectTooLate {
				got = EffectUnknown.String() // W alone tells them apart
			}
		}
		if got != want && !v.misnames(&v.log[offset]) {
			v.fail("record %d is %s (%v), want %s", offset, got, h.effect, want)
		}
	}
}

// uncertain is how many records a partition without a store counts that something names, or counts where several copies of them lie.
func (v *life) uncertain() (n int64) {
	if v.p.HasStore() || v.p.Ordered() {
		return 0
	}
	all := v.takenAway(v.end())
	for _, e := range v.log {
		if e.what == copied && v.p.horizon.Less(state.Key{Due: e.due, Seq: e.of}) {
			n++
		}
		if e.what == resolveOf {
			all |= bit(e.of)
		}
	}
	for offset := range all.within(v.end()) {
		if v.p.horizon.Less(state.Key{Due: v.log[offset].due, Seq: offset}) {
			n++
		}
	}
	return n
}

// checkWake fails when an owner would sleep although something is due.
func (v *life) checkWake(pending mask) {
	if v.p.turns > 0 || v.p.again.any() || v.p.leaving {
		return
	}
	if v.p.blind && (len(v.p.questions) > 0 || v.p.late.stuck()) { // it is read again first, whatever it says of its time
		if v.p.live && !v.p.UsedUp(v.now, roomy) {
			v.fail("nothing can be decided, and it is not to be read again")
		}
		return
	}
	first, near := int64(math.MaxInt64), false
	for offset := range v.p.position {
		e := &v.log[offset]
		if pending&bit(offset) == 0 || v.p.Ordered() && offset < v.committed.Offset { // its copy comes later
			continue
		}
		if !v.p.HasStore() && !v.p.Ordered() && v.p.horizon.Less(state.Key{Due: e.due, Seq: offset}) { // else it is read again first
			continue
		}
		near = near || e.due <= v.now && !v.p.horizon.Less(state.Key{Due: e.due, Seq: offset})
		if first = min(first, e.due); v.p.Ordered() {
			if e.what == fromFuture {
				first = min(e.due, v.known(e)+secondDue)
			}
			break // the others wait for it
		}
	}
	due, ok := v.p.Next()
	if first < math.MaxInt64 && (!ok || due > max(first, v.p.lateUpTo.Due)) {
		v.fail("the owner sleeps until %s (%v), and a record is due at %s", at(due), ok, at(first))
	}
	if near && v.p.Wants(v.now) == 0 && len(v.p.questions) == 0 && !v.p.drops.any() {
		v.fail("a record is due at %s, and the partition wants nothing", at(first))
	}
}
