package pending

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// step is one thing that may happen.
type step struct {
	name string
	may  func(*life) bool
	do   func(*life)
}

var steps []step

func init() { // whose steps use each other
	steps = []step{
		requests("a request comes that is due", duePast),
		requests("a request comes that is due now", dueNow),
		requests("a request comes that is due later", dueAhead),
		requests("a request comes that is due 1 ms after that", dueAfter),
		requests("a request comes that is due 1 ms before that", dueBefore),
		requests("a request comes that is due last", dueFar),
		requests("a request comes that is due by the delay of its route", plainNow),
		requests("a request comes that is due later by the delay of its route", plainAhead),
		requests("a request comes that has the id by one prefix", asksByOne),
		requests("a request comes that cancels the id by another prefix", namesByOne),
		requests("a request comes that has no value", noValue),
		requests("a request comes for another target", elsewhere),
		requests("a request with the id comes for another target", elsewhereN),
		requests("a request comes that is refused", notAllowed),
		requests("a request comes with a timestamp ahead of the clock", fromFuture),
		requests("a request comes that asks for nothing", unparsable),
		requests("a cancel of the last request comes", cancelLast),
		requests("a cancel of the first request comes", cancelOne),
		requests("a cancel of what never was comes", cancelNone),
		requests("a replacement of the first request comes", replaces),
		requests("a replacement of the first request comes that is due", replaceNow),
		requests("a replacement of the first request comes that is refused", replaceBad),
		requests("a request with the id comes that is due later", hasID),
		requests("a request with the id comes that is due now", hasIDNow),
		requests("a request with the id comes that is due", hasIDPast),
		requests("a request with the id comes that is refused", hasIDBad),
		requests("a cancel of the id comes", cancelID),
		requests("a request with the id comes that is due 1 ms after the others", hasIDAfter),
		requests("a request with the id comes that is due last", hasIDFar),
		requests("a request with another id comes that is due later", hasOther),
		requests("a request with another id comes that is due now", hasOtherN),
		requests("a cancel of the other id comes", cancelHas),
		requests("a replacement of the id comes", replaceID),
		requests("a cancel of the first request comes that was forwarded", passedOn),
		requests("a cancel of the id comes that was forwarded", passedID),
		requests("a cancel of the id comes that was forwarded, and was written before some", passedOld),
		requests("a cancel of another partition's request comes", cancelAway),
		{"it is decided what cancels do", func(v *life) bool { return v.p.live && len(v.p.questions) > 0 && !v.p.blind }, (*life).decide},
		{"the marker comes", func(v *life) bool { return v.open }, (*life).mark},
		{"it reads", func(v *life) bool { return v.p.position < v.stable }, func(v *life) {
			if v.p.live {
				v.readUpTo(v.stable)
			} else {
				v.readUpTo(v.p.position + 1)
			}
		}},
		{"it reads one", func(v *life) bool { return v.pieces && v.p.live && v.p.position+1 < v.stable }, func(v *life) { v.readUpTo(v.p.position + 1) }},
		{"it goes live", func(v *life) bool { return !v.p.live && v.stable >= v.until }, (*life).live},
		{"the second due time has come", func(v *life) bool { return v.now == v.base }, (*life).pass},
		{"the clock is set back", func(v *life) bool { return v.now > v.base && v.been.setbacks < v.most.setbacks }, func(v *life) {
			v.been.setbacks++
			v.now = v.base
			for i := range v.log {
				v.log[i].seen = min(v.log[i].seen, v.now)
			}
		}},
		{"it takes one", canTake, func(v *life) { v.take(1) }},
		{"it takes two", func(v *life) bool { return v.fair && canTake(v) }, func(v *life) { v.take(2) }},
		{"it takes all", canTake, func(v *life) { v.take(10) }},
		{"it takes one of another target beside", canTakeBeside, func(v *life) { v.takeBeside(1) }},
		{"it takes two of other targets beside", canTakeBeside, func(v *life) { v.takeBeside(2) }},
		{"the turn happens", func(v *life) bool { return len(v.taken) > 0 }, func(v *life) { v.happen(false) }},
		{"the turn happens, and cannot deliver", func(v *life) bool {
			return len(v.taken) > 0 && v.been.deads < v.most.deads && slices.ContainsFunc(v.taken[0].Items, func(it Item) bool { return it.Leaves() })
		}, func(v *life) {
			v.been.deads++
			v.dead = true
			v.happen(false)
			v.dead = false
		}},
		{"the turn happens, and what it cannot deliver is carried on", func(v *life) bool {
			return len(v.taken) > 0 && !v.p.Ordered() && v.been.tries < v.most.tries && v.end() < walkLog && slices.ContainsFunc(v.taken[0].Items, func(it Item) bool { return deliverable(&it) })
		}, func(v *life) {
			v.been.tries++
			v.tries = true
			v.happen(false)
			v.tries = false
		}},
		{"the memory of what was delivered ends", func(v *life) bool { return v.remembers() && v.now < v.base+forgetDue }, func(v *life) {
			v.now = v.base + forgetDue
			v.latest = v.now
		}},
		{"all begins anew", func(v *life) bool { return v.been.anews < v.most.anews && v.now == v.latest && v.now > v.base }, func(v *life) {
			v.been.anews++
			v.base = v.now
		}},
		{"it carries the first record", canCarry, func(v *life) { v.carries(false) }},
		{"it carries the last record", canCarry, func(v *life) { v.carries(true) }},
		{"it carries all records", func(v *life) bool { return v.pieces && canCarry(v) }, (*life).carriesAll},
		{"the log is cut", func(v *life) bool { return v.been.cuts < v.most.cuts && v.logStart < v.committed.LowWater }, func(v *life) {
			v.been.cuts++
			v.logStart = v.committed.LowWater
			v.note("cut")
		}},
		{"retention takes what was carried", func(v *life) bool { return v.been.losses < v.most.losses }, (*life).loseCarried},
		{"the checkpoint is reset to behind what was carried", canReset, func(v *life) { v.reset(func(c *entry) int64 { return c.from + 1 }) }},
		{"the checkpoint is reset to a copy", canReset, func(v *life) { v.reset(func(c *entry) int64 { return c.Offset }) }},
		{"no checkpoint is left, nor a store", func(v *life) bool { return canReset(v) && !v.open }, (*life).forget}, // long after the last transaction
		{"no checkpoint is left, and the store knows one", hasStore(func(v *life) bool { return canReset(v) && !v.open }), (*life).goByStore},
		{"the next owner is configured otherwise", func(v *life) bool { return v.been.changes < v.most.changes }, func(v *life) {
			v.been.changes++
			v.changed = !v.changed
		}},
		{"the turn is refused", func(v *life) bool { return len(v.taken) > 0 && v.been.refusals < v.most.refusals }, (*life).refuse},
		{"a checkpoint", func(v *life) bool { return v.p.live && v.beside == nil && (v.atLeastOnce || len(v.taken) == 0) }, (*life).checkpoint},
		{"the checkpoint is written", func(v *life) bool { return v.beside != nil }, (*life).wrote},
		{"the checkpoint is refused", func(v *life) bool { return v.beside != nil && v.been.refusals < v.most.refusals }, func(v *life) {
			v.been.refusals++
			v.beside = nil
		}},
		{"it crashes", alone(canCrash), func(v *life) { v.crash(false, allOfIt) }},
		{"it crashes when the turn has happened", alone(canHaveHappened), func(v *life) { v.crash(true, allOfIt) }},
		{"it crashes, and of the store is left what was flushed", wasFlushed, func(v *life) { v.crash(false, whatWasFlushed) }},
		{"it crashes when the turn has happened, and of the store is left what was flushed",
			func(v *life) bool { return wasFlushed(v) && canHaveHappened(v) }, func(v *life) { v.crash(true, whatWasFlushed) }},
		{"it crashes, and nothing is left of the store", hasStore(alone(canCrash)), func(v *life) { v.crash(false, nothingOfIt) }},
		{"the store is flushed", hasStore(func(v *life) bool { return v.been.flushes < v.most.flushes }), func(v *life) {
			v.been.flushes++
			v.flush()
		}},
		{"what is not due soon leaves memory", func(v *life) bool { return v.been.shortages < v.most.shortages && v.p.wheel.Len() > 0 }, func(v *life) {
			v.been.shortages++
			v.fit(Room{Window: LeastWindow})
		}},
		{"some of what is not due soon is written to the store", hasStore(func(v *life) bool {
			return v.p.live && v.been.shortages < v.most.shortages && v.p.wheel.Len() > 0
		}), func(v *life) {
			v.been.shortages++
			v.spill()
		}},
		{"what is due soon is loaded", hasStore(func(v *life) bool { return v.p.live && v.p.horizon.Due < v.p.clock(v.now)+longWindow/8*7 }), func(v *life) {
			v.load()
		}},
		{"the store is tidied", hasStore(func(v *life) bool { return v.p.live && (v.p.spent > 0 || v.p.Far() > 0) }), func(v *life) {
			v.must(v.p.Tidy(true))
		}},
		{"the store fails", hasStore(func(v *life) bool { return v.p.live && v.been.failures < v.most.failures }), func(v *life) {
			v.been.failures++
			v.storeless = true
			v.p.Forgo()
		}},
		{"there is a store again", func(v *life) bool { return v.storeless && v.stored && v.undisturbed() }, func(v *life) {
			if v.p.Ordered() {
				v.storeless = false
				v.newStore(v.own)
				return
			}
			if v.readAgain(); !v.p.leaving {
				v.storeless = false
				v.newStore(v.own)
				v.restore(nil)
			}
		}},
		{"it is read again", func(v *life) bool {
			return v.p.Storeless() && v.undisturbed() && v.been.rereads < v.most.rereads && (v.p.Far() > 0 || v.p.leaving)
		}, (*life).readAgain},
		{"the end of the log is seen", func(v *life) bool { return v.been.sights < v.most.sights }, func(v *life) {
			v.been.sights++
			v.p.Sight(Sighting{End: v.end(), At: v.now})
		}},
		{"the follower looks at the checkpoint", func(v *life) bool { // none begins where the log has lost what it has to read
			return v.followed && (v.f != nil || v.committed.LowWater >= v.logStart)
		}, (*life).follow},
		{"the follower reads", func(v *life) bool { return v.f != nil && v.tail >= v.logStart && v.tail < v.stable }, (*life).readAhead},
		{"the follower takes over", func(v *life) bool { return v.f != nil && canCrash(v) }, func(v *life) { v.takeOver(false) }},
		{"the follower takes over when the turn has happened", func(v *life) bool { return v.f != nil && canHaveHappened(v) }, func(v *life) { v.takeOver(true) }},
	}
}

func requests(name string, what rune) step {
	return step{name, func(v *life) bool {
		return strings.ContainsRune(v.sorts, what) && v.been.requests < v.most.requests
	}, func(v *life) { v.produce(what) }}
}

func canTake(v *life) bool { return v.p.live && len(v.taken) < 2 }

func canTakeBeside(v *life) bool {
	return v.fair && v.p.live && len(v.taken) > 0 && len(v.taken) < 3 && Beside{v.p}.May()
}

func canCarry(v *life) bool {
	return v.p.live && len(v.taken) == 0 && v.been.carries < v.most.carries
}

func canCrash(v *life) bool { return v.been.crashes < v.most.crashes }

func canReset(v *life) bool { return v.been.resets < v.most.resets }

func canHaveHappened(v *life) bool { return canCrash(v) && (len(v.taken) > 0 || v.beside != nil) }

// alone: without a follower, whose turn comes otherwise.
func alone(may func(*life) bool) func(*life) bool {
	return func(v *life) bool { return !v.followed && may(v) }
}

func wasFlushed(v *life) bool { return canCrash(v) && v.disk.used && !v.storeless }

func hasStore(may func(*life) bool) func(*life) bool {
	return func(v *life) bool { return v.p.HasStore() && may(v) }
}

// undisturbed: no outcome would find the partition gone.
func (v *life) undisturbed() bool { return v.p.live && len(v.taken) == 0 && v.beside == nil }

// fingerprint is what tells a state from another one. What it leaves out would let two states pass for one, and one of
// them go unseen.
func (v *life) fingerprint() uint64 {
	h := hashed{b: v.scratch[:0]}
	h.put(v.logStart, v.committed.GivenUp, v.now, v.base, v.stable, v.until, v.tail, int64(v.own), int64(v.resolved), int64(v.again), int64(v.accepted), int64(v.deadLettered))
	h.counts(v.been)
	h.flags(v.open, v.storeless, v.f != nil, v.beside != nil)
	for _, of := range slices.Sorted(maps.Keys(v.takenBy)) {
		h.put(of, v.takenBy[of])
	}
	for _, e := range v.log {
		if h.put(int64(e.what), e.of, e.from); v.p.Ordered() {
			h.put(e.seen)
		}
	}
	h.checkpoint(v.committed)
	h.partition(v.p)
	for _, pt := range v.taken {
		h.part(pt)
	}
	for _, e := range v.carry {
		h.put(e.from)
	}
	if v.beside != nil {
		h.part(v.beside)
	}
	h.image(v.disk)
	if v.p.HasStore() {
		h.image(v.imageOf(v.p.store))
	}
	if v.f != nil {
		h.partition(v.f.p)
		h.put(int64(len(v.f.ahead)))
		h.image(v.imageOf(v.f.p.store))
	}
	v.scratch = h.b
	f := fnv.New64a()
	f.Write(h.b)
	return f.Sum64()
}

type hashed struct{ b []byte }

func (h *hashed) put(ns ...int64) {
	for _, n := range ns {
		h.b = binary.AppendVarint(h.b, n)
	}
}

func (h *hashed) flags(fs ...bool) {
	for _, f := range fs {
		n := int64(0)
		if f {
			n = 1
		}
		h.put(n)
	}
}

func (h *hashed) counts(c counts) {
	h.put(int64(c.requests), int64(c.crashes), int64(c.refusals), int64(c.setbacks), int64(c.shortages), int64(c.failures), int64(c.rereads), int64(c.flushes), int64(c.sights), int64(c.deads), int64(c.carries), int64(c.cuts), int64(c.losses), int64(c.resets), int64(c.anews), int64(c.changes), int64(c.tries))
}

func (h *hashed) checkpoint(c state.Checkpoint) {
	h.put(c.Offset, c.Watermark.Due, c.Watermark.Seq, c.LowWater)
	h.flags(c.Appended)
}

func (h *hashed) part(pt *Part) {
	h.checkpoint(pt.To)
	h.put(pt.from.Due, pt.from.Seq, int64(pt.frees), int64(pt.rest))
	h.items(pt.Items)
}

func (h *hashed) items(items []Item) {
	h.put(int64(len(items)))
	for i := range items {
		it := &items[i]
		h.put(it.Key.Due, it.Offset)
		h.put(it.By, int64(it.Effect))
		h.flags(it.Refusal != nil, it.Resolve, it.late, it.stored, it.Leaves(), it.Dead)
	}
}

func (h *hashed) held(f *fifo) {
	h.put(int64(f.len()))
	for r := range f.all() {
		h.put(r.key.Due, r.offset)
		h.put(r.by, int64(r.effect))
		h.flags(r.refusal != nil, r.resolve)
	}
}

func (h *hashed) partition(p *Partition) {
	h.checkpoint(p.committed)
	h.checkpoint(p.done)
	h.checkpoint(p.planned)
	h.put(p.lateUpTo.Due, p.lateUpTo.Seq, p.accepted, p.start, p.position, p.ownEnd, p.horizon.Due, p.horizon.Seq)
	h.put(int64(p.ledger.Len()), int64(p.ledger.Waiting()), p.ledger.Bytes(), p.ledger.Resume(math.MaxInt64), int64(p.spent), int64(p.turns), int64(len(p.releases)), int64(len(p.gone)), int64(len(p.questions)), int64(len(p.drops.keys)))
	for _, r := range p.releases {
		h.put(r.offset, r.key.Due)
	}
	for _, a := range p.questions {
		h.put(a.offset, a.names.Seq)
	}
	for _, r := range p.removed {
		h.put(r.by, r.offset)
	}
	h.put(int64(len(p.drops.wanted)), int64(p.ids.first.len()), int64(len(p.ids.questions)), int64(len(p.ids.fresh)))
	for _, id := range []string{"id", "other"} {
		for _, n := range p.ids.find([]byte(id)) {
			h.put(n.key.Due, n.key.Seq)
		}
	}
	h.flags(p.identified, p.blind)
	for _, by := range slices.Sorted(maps.Keys(p.confirmed)) {
		h.put(by)
	}
	h.flags(p.live, p.leaving, p.dirty, p.sure, p.forgone, p.copied.seen)
	h.put(p.heldLow(-1), p.heldLow(p.position), p.copied.first, int64(len(p.holds)), int64(len(p.dropped)))
	h.held(&p.late)
	for _, pt := range p.again.parts {
		h.part(pt)
	}
	if q, is := p.order.(*queue); is {
		h.held(&q.fifo)
		for _, s := range q.sightings {
			h.put(s.End, s.At, int64(s.Epoch))
		}
	}
	h.put(p.wheel.sorted.Due, p.wheel.sorted.Seq, int64(p.wheel.queued), p.wheel.scouted.Due, p.wheel.scouted.Seq, int64(p.wheel.waiting.n))
	for _, l := range p.wheel.lines {
		h.put(int64(l.n), l.early, l.left.Due, l.left.Seq)
		h.flags(l == p.wheel.loads)
	}
	h.flags(p.wheel.several)
	for _, key := range slices.SortedFunc(maps.Keys(p.gone), state.Key.Compare) {
		h.put(key.Due, key.Seq)
	}
	var all []wheel.Entry
	p.wheel.TakeFrom(p.wheel.Now(), func(e wheel.Entry) { all = append(all, e) })
	for _, e := range all {
		p.wheel.Add(e.Due, e.Seq, e.Ref)
		h.put(int64(e.Due), e.Seq)
		h.flags(ref(e.Ref).stored())
		place, _ := recordOffset(p.near.get(ref(e.Ref)))
		h.put(place)
	}
}

func (h *hashed) image(i image) {
	h.flags(i.used)
	h.put(i.pos.Resume, i.pos.Offset, i.pos.Watermark.Due, i.pos.Watermark.Seq, i.pos.LowWater, int64(len(i.runs)))
	for _, r := range i.runs {
		place, _ := recordOffset([]byte(r.bytes))
		h.put(r.key.Due, r.key.Seq, place)
	}
}
