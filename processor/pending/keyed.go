package pending

import (
	"bytes"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// keyed resolves records in the order of their keys. What comes with a key at or below W, and what is refused, is late: it is resolved
// when O passes it.
//
// Invariants: done.Watermark <= lateUpTo. Every pending record has a key above lateUpTo, or belongs to
// the turn in flight. What is in late to be delivered has a key at or below lateUpTo; refusals, notes and open questions may lie above it.
type keyed struct {
	window
	env  *Env
	late fifo // what is resolved when O passes it: with a key at or below W, refused, or about another record

	naming
}

func (k *keyed) written(r *kgo.Record, _ int64) topics.Stamp { return topics.StampOf(r) }

func (k *keyed) admit(r *kgo.Record, req *topics.Request, now int64) (a Accepted, err error) {
	key, replay, who := state.Key{Due: req.Due, Seq: r.Offset}, r.Offset < k.accepted, identityOf(req)
	judged := topics.JudgedAt(r, now, k.env.Skew)
	if req.Replaces {
		if !replay {
			a.Target = req.Target
			k.wheel.sees(req.Target)
			k.addQuestion(r, held{key: key, refusal: k.env.Route.Refuse(req, judged)}, questionOf(r.Offset, req), who.at)
			return a, nil
		}
		k.replay(r.Offset, req)
	} else if req.ID != nil && k.mayDuplicate(r.Offset, req, replay) {
		a.Target = req.Target
		k.wheel.sees(req.Target)
		k.addQuestion(r, held{key: key, refusal: k.env.Route.Refuse(req, judged)}, questionOf(r.Offset, req), who.at)
		return a, nil
	}
	switch late := !k.lateUpTo.Less(key); { // at or below W
	case late && replay:
		return a, copying{k}.replayStub(key, r.Offset, r.Timestamp.UnixMilli(), who.id)
	case late:
		a.Late = !req.AtOnce
		k.admitLate(r, req, key, judged, who)
		return a, nil
	}
	// What was accepted below O may have been judged by another configuration: a replay never
	// refuses (design rule 10).
	if !replay {
		if refusal := k.env.Route.Refuse(req, judged); refusal != nil {
			k.addLate(r, refused(refusal, key), who.at)
			return a, nil
		}
		a.Target = req.Target
	}
	if err := k.keep(r, key, who, k.wheel.sees(req.Target)); err != nil || replay || !k.env.Audit || req.Retry || req.AtOnce || key.Due-now < k.env.Soon {
		return a, err
	}
	h := held{key: key, offset: r.Offset, effect: EffectAccepted}
	h.keepID(k.near, who.id)
	k.late.add(h)
	return a, nil
}

// mayDuplicate reports whether it is to be decided what a record with an id does to those that have the same one. A replay has it do at once what
// it did. Where nothing has that id, nothing is to be decided, unless a resolve record, or a copy of what was given up, that is not read yet might say
// otherwise.
func (k *keyed) mayDuplicate(offset int64, req *topics.Request, replay bool) bool {
	if replay {
		if req.OnDuplicate == topics.DuplicateReplaces {
			k.drops.addWanted(&k.window, wanted{req.ID, offset, 0})
		}
		return false
	}
	if k.undecidable() || !k.live && k.lost.waits(len(k.questions)) || k.ids.inQuestion(req.ID) {
		return true
	}
	found, failed := k.has(req.ID)
	return found || failed // a store that has failed says so when it is to be decided
}

// admitLate is admit for a request whose key the watermark has passed.
func (k *keyed) admitLate(r *kgo.Record, req *topics.Request, key state.Key, judged int64, who identity) {
	if refusal := k.env.Route.Refuse(req, judged); refusal != nil {
		if s := (stubs{&k.window}); !s.isLeft(key, who.id) {
			key = state.Key{}
		}
		k.addLate(r, refused(refusal, key), who.at)
		return
	}
	k.addLate(r, held{key: key}, who.at)
	late := k.late.tail()
	if to := k.wheel.sees(req.Target); !req.AtOnce { // else it is written again, to be due later
		late.ref = late.ref.to(to)
	}
	k.lateID(late, who, r.Timestamp.UnixMilli())
}

// refuse puts a record on the list of what is resolved when O passes it; it will be dead-lettered then. A replay cannot understand it either.
func (k *keyed) refuse(r *kgo.Record, refusal *topics.Refusal) {
	k.addLate(r, refused(refusal, state.Key{}), 0)
}

// refused is a record that is dead-lettered when O passes it. key is its key when that, or that of its stub, is above the watermark: a replay
// could take it for pending or delivered, so a resolve record has to say that it is not.
func refused(refusal *topics.Refusal, key state.Key) held {
	return held{key: key, refusal: refusal, resolve: key != state.Key{}}
}

func (k *keyed) addLate(r *kgo.Record, h held, at idPlace) {
	k.near.hold(r, &h, at)
	k.late.add(h)
	k.ledger.Hold(r.Offset)
}

func (k *keyed) part(now int64, items []Item, most ration) ([]Item, state.Checkpoint) {
	to := k.planned
	if mustDecide(k) || k.late.stuck() {
		return items, to
	}
	clock := k.clock(now)
	items, over := takeLate(k, clock, items, &most)
	n := len(items)
	for i := range items {
		k.removeID(items[i].Run, items[i].Key) // it is too late for those that name it
	}
	if k.env.Audit {
		k.tookAway(items)
	}
	if to.Offset = k.offset(); k.late.len() > 0 || len(over) > 0 {
		// The list is capped, by offset: O stops short of the rest, so W stays (design rule 3).
		items = taking{&k.window}.overtaking(over, items)
	} else if !k.awaits {
		items = taking{&k.window}.due(clock, items, most)
		if last := lastInOrder(items); last >= n {
			to.Watermark = items[last].Key
		}
	}
	stubs{&k.window}.leaveAll(items, to.Watermark)
	return items, to
}

// takeLate takes what is late, and returns what is taken beside it: where more is late than fits, a quarter of a part is for what is due of other
// targets than what is late next, which would have to wait for the end of the list. That overtakes, and lets W stay. Beside another part, which has
// taken of the list, it is all of a part.
func takeLate(k *keyed, clock int64, items []Item, left *ration) ([]Item, []wheel.Entry) {
	take := func(records int, bytes int64) {
		before, took := len(items), int64(0)
		items, took = k.late.take(clock, k.near, items, records, bytes)
		for i := range items[before:] {
			if left.records--; items[before+i].Effect == EffectForward {
				left.records -= forwardCounts - 1
			}
		}
		left.bytes -= took
	}
	most := ration{records: left.records * 3 / 4, bytes: left.bytes * 3 / 4}
	fits := k.late.len() <= most.records && k.late.bytes+k.late.away <= most.bytes
	waits := ripe(k, clock) && left.records > 1
	switch {
	case left.beside && !fits:
	case waits:
		take(most.records, most.bytes)
	default:
		take(left.records, left.bytes)
	}
	if !waits || k.late.len() == 0 || k.late.stuck() {
		return items, nil
	}
	var over []wheel.Entry
	if mayOvertake(k) {
		over = overtakers(&k.wheel, wheel.Tick(clock), *left, k.late.head())
		for _, e := range over {
			k.wheel.count(e, left)
		}
	}
	if !left.beside && left.left() {
		take(left.records, left.bytes)
	}
	return items, over
}

// mayOvertake reports whether anything in memory goes elsewhere than what is late next.
func mayOvertake(k *keyed) bool {
	return k.wheel.Len() > 0 && (k.wheel.several || k.late.head().goesTo() == 0)
}

// ripe reports whether something in memory is due, and may go.
func ripe(k *keyed, clock int64) bool {
	due, ok := k.wheel.Next()
	return ok && int64(due) <= clock && !k.awaits
}

// mustDecide reports whether it has to be decided first what is not delivered.
func mustDecide(k *keyed) bool { return len(k.questions) > 0 || k.drops.any() }

func (k *keyed) next() (int64, bool) {
	switch {
	case k.late.stuck(), k.blind && len(k.questions) > 0: // until it is read again
		return 0, false
	case k.late.len() > 0 && k.Ahead():
		return k.late.head().due(), true
	case k.late.len() > 0:
		return 0, true
	case k.awaits:
		return 0, false
	}
	due, ok := k.wheel.Next()
	if k.HasFar() && (!ok || int64(due) > k.horizon.Due) {
		return k.horizon.Due, true // the store may have something right above it
	}
	return int64(due), ok
}

// wants is 0 where part takes nothing: a turn that has no room for all partitions would give its place to this one, in vain.
func (k *keyed) wants(now int64) int {
	if k.late.stuck() || mustDecide(k) || k.late.len() > 0 && k.late.head().due() > k.clock(now) {
		return 0
	}
	n := k.late.len()
	if ripe(k, k.clock(now)) && (k.wheel.upToHorizon() > 0 || n > 0 && mayOvertake(k)) {
		n += k.wheel.Len()
	}
	return n
}

func (k *keyed) offset() int64 {
	if k.late.len() > 0 {
		return k.late.head().offset
	}
	return k.position
}

func (k *keyed) low(offset int64) int64 {
	return max(min(k.ledger.Low(offset), k.heldLow(offset)), k.planned.LowWater, k.done.LowWater)
}

func (k *keyed) settle(items []Item) {
	stubs{&k.window}.forgetAll(items)
	for i := range items {
		it := &items[i]
		if it.late {
			k.conclude(it)
		}
		if it.Effect.Pending() {
			if it.noted() != nil {
				k.near.release(it.ref)
			}
			continue
		}
		if _, gone := k.gone[it.Key]; gone && it.Overtakes() {
			k.releases = append(k.releases, release{kind: releaseOvertaker, offset: it.Offset, key: it.Key, id: bytes.Clone(runID(it.Run)), bytes: weight(it.Run)})
		} else {
			settled{k}.stored(it)
		}
		k.near.release(it.ref)
		if !it.stored {
			k.releases = append(k.releases, release{offset: it.Offset})
		}
	}
}

// settled is what a partition does for what is resolved.
type settled struct{ *keyed }

// stored takes in that an item is resolved that the store may hold: the range deletes behind W take it out, but for its id.
func (k settled) stored(it *Item) {
	if k.identified && it.Refusal == nil && (it.stored || it.Key.Seq < k.foundEnd) {
		if id := runID(it.Run); id != nil {
			k.releases = append(k.releases, release{kind: releaseID, offset: it.Offset, key: it.Key, id: bytes.Clone(id)})
		}
	}
	if it.stored && k.store != nil {
		k.spent++
		k.passed = append(k.passed, counted(it.Key, it.Run))
	}
}

func (k *keyed) sight(Sighting) {}

func (k *keyed) pending() int64 { return int64(k.ledger.Waiting() + k.late.own()) }

func (k *keyed) count(now int64) Figures {
	f := Figures{Pending: k.pending(), Bytes: k.ledger.Bytes() + k.late.bytes + k.late.away, Near: int64(min(k.wheel.Len(), k.ledger.Waiting())), Remembered: int64(k.ledger.Len() - k.ledger.Waiting())}
	if f.Overdue = int64(k.late.own()); k.Ahead() {
		f.Overdue = k.late.due(now)
	}
	if k.late.own() > 0 {
		f.sooner(k.late.head().due(), now) // those behind it wait for it
	}
	if k.ledger.Waiting() == 0 {
		return f
	}
	if due, ok := k.wheel.Next(); ok {
		f.sooner(int64(due), now)
	} else if due := k.stored.look(&k.window, now); due > 0 {
		f.sooner(due, now)
	}
	return f
}

// needs is for how long the log must have kept the record that is due last when its time comes. What
// only the store has told of is known to need at least the time until then. What is carried needs the log for its stub
// alone: that is not carried, so when the record is due the log must have kept it for no longer than it goes on keeping it.
func (k *keyed) needs(now int64) time.Duration {
	last := k.ledger.Last()
	need := millis(last - now)
	if k.longest.due >= max(last, now) {
		need = max(need, k.longest.wait)
	}
	need += millis(k.parsers.memory())
	if k.remembered.due >= now {
		need = max(need, k.remembered.wait)
	}
	if k.env.Route.Carries() {
		need = min(need, 2*millis(k.parsers.memory()))
	}
	return need
}

// mostNotes are so many that nothing is read until all of them are taken: while a list that is capped has some left, W stays, and what is
// due overtakes, which costs a resolve record. It is more than a few fetches bring, since what was fetched of a partition that is paused is fetched again.
const mostNotes = 100_000

// littleOfShare is which part of its share a partition may hold for which it is read on although memory is full: all that do so hold no more
// than that part of the budget.
const littleOfShare = 8

func (k *keyed) fill(_ int64, room Room, full bool) bool {
	most, little := max(min(room.Budget/8, room.Share), 1<<20), room.Share/littleOfShare
	holds := k.Memory()
	switch {
	case k.late.notes > mostNotes:
		return true
	case k.late.bytes > most, room.Used > room.Budget && k.wheel.Len() > 0 && holds > little:
		return true
	case k.late.bytes < most/2 && k.late.notes == 0 && (room.Ample() || k.wheel.Len() == 0 || holds < little/2):
		return false // one that holds nothing cannot make room
	}
	return full
}

// Fit gives memory back when there is too little for all: what is due last goes to the store, or back
// to the log. To the store it goes in steps, so that nothing waits for long, be it in other partitions: there may be more.
func (k *keyed) Fit(now int64, room Room) (more bool, err error) {
	if k.store == nil {
		k.shorten(now, room.Share, k.late.bytes)
		return false, nil
	}
	if k.late.bytes > min(room.Budget/16, room.Share/2) {
		if err := k.late.layAside(k.near, k.store); err != nil {
			return false, fmt.Errorf("lay late records aside: %w", err)
		}
	}
	if !k.live && room.Spill > 0 {
		room.Spill = SpillBytes // it is read on whatever memory it takes, since nothing would drain it
	}
	limit := max(now, k.lateUpTo.Due) + room.Window + 1
	if next, ok := k.wheel.Next(); !k.live && ok && room.Window <= LeastWindow {
		limit = min(limit, int64(next))
	}
	if room.Spill > 0 {
		if from := k.near.lastStretches(room.Spill, k.horizon.Due); from > limit {
			limit, more = from, true
		}
		if all, err := k.spillSome(limit, room.Spill); !all {
			return true, err
		}
	}
	return more, k.spillFrom(limit)
}
