package pending

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// life is what happens to one partition within a scope: its log, what is committed and delivered, and the
// partition itself, as its owners have it one after the other. What must hold is in oracle_test.go and oracle_stubs_test.go.
type life struct {
	*scope
	homes [2]state.PartitionID // in the stores of two replicas
	own   int                  // which of them owns the partition

	p      *Partition
	f      *Follower // at the other one
	tail   int64     // the next offset that the follower reads
	taken  []*Part   // undecided, in the order in which they were made
	carry  []entry   // copies that are appended with the one that is undecided
	beside *Part     // at least once: a checkpoint that is being written
	disk   image     // of the owner's store

	now, latest     int64 // the clock, and the latest that it has shown
	base            int64 // when all has begun, or begun anew
	log             []entry
	before          int64 // steps have made what lies from here on
	open            bool  // the end of the log is a transaction of ours whose marker is on its way
	stable          int64 // a reader sees what is below
	orphans, unseen mask  // copies of an owner that is gone, which the next one learns of when it reads them (at least once); made of what lay below L by then
	until           int64 // up to here a catch-up reads
	logStart        int64 // the log has lost what lies below
	committed       state.Checkpoint
	resolved        mask            // by offset: delivered or dead-lettered
	again           mask            // of those: may come once more, after a crash (at least once)
	takenBy         map[int64]int64 // by offset: what has cancelled or replaced it
	accepted        mask            // with audit: audited as accepted
	atOnce          mask            // or resolved without being pending
	soon            mask            // or due when it was read: its outcome follows

	held    []since // by which settings records were read, or are to be
	changed bool    // the next owner has others

	begun              int64 // where a person has reset the checkpoint to
	given              mask  // what lay below: it has left nothing
	outdated           bool  // the follower has not seen that
	been               counts
	storeless, nothing bool // nothing: the last step has changed nothing
	refusedAside       mask // refused, and the store has kept it
	dead, tries        bool // the turn cannot deliver, for good or for now
	deadLettered       mask // by such a turn, or at least once with a resolve record; at least once it may be pending again after a crash, until the resolve record is read
}

// mask is a set of offsets.
type mask uint64

// image is what a store holds.
type image struct {
	used   bool
	pos    state.Position
	runs   []run
	copied span
}

type run struct {
	key   state.Key
	bytes string
}

const (
	secondDue   = 10_000 // ms after the beginning
	forgetDue   = 30_000 // when no id is remembered any more
	remembered  = 12 * time.Second
	shortWindow = 4_000 // which it does not lie in
	longWindow  = 20_000
)

var (
	roomy = Room{Window: longWindow, Most: longWindow, Budget: 64 << 20, Share: 64 << 20}
	tight = Room{Window: longWindow, Most: longWindow, Budget: 1 << 20, Used: 1<<20 - 1, Share: 1000, Step: 1}
)

// begin is a partition without a past, at the beginning of an empty log.
func (s *scope) begin() *life {
	v := &life{scope: s, now: testNow, latest: testNow, base: testNow, storeless: s.store == nil, takenBy: map[int64]int64{}}
	v.committed = state.Checkpoint{TopicID: [4]byte(testID.TopicID[:4])}
	v.newStore(0)
	v.newStore(1)
	v.restore(nil)
	v.live()
	if s.before != nil {
		s.before(v)
		v.before = v.end()
		if v.checkpoint(); v.beside != nil {
			v.wrote()
		}
		v.nothing = false
	}
	return v
}

// oneDelivered: what comes with an earlier due time is late.
func oneDelivered(v *life) {
	v.produce(dueNow)
	v.take(1)
	v.happen(false)
}

// halfDelivered: two records have come back from the store, which still holds both, and one is delivered; a third stays there.
func halfDelivered(v *life) {
	v.produce(dueAhead)
	v.produce(dueAhead)
	v.produce(dueFar)
	v.pass()
	v.must(v.p.Load(v.now, roomy))
	v.take(1)
	v.happen(false)
}

// halfNamedDelivered is halfDelivered, and what stays in the store has the id.
func halfNamedDelivered(v *life) {
	v.produce(dueAhead)
	v.produce(hasID)
	v.pass()
	v.must(v.p.Load(v.now, roomy))
	v.take(1)
	v.happen(false)
}

// halfLeftDelivered is halfDelivered, and the one that is delivered has the id.
func halfLeftDelivered(v *life) {
	v.produce(hasID)
	v.produce(dueAhead)
	v.produce(dueFar)
	v.pass()
	v.must(v.p.Load(v.now, roomy))
	v.take(1)
	v.happen(false)
}

// pass lets time pass until the second due time.
func (v *life) pass() {
	v.now += secondDue
	v.latest = max(v.latest, v.now)
}

// newStore gives a replica an empty part of the store.
func (v *life) newStore(of int) {
	v.lives++
	v.homes[of] = testID
	v.homes[of].Group = strconv.Itoa(v.lives)
}

func (v *life) end() int64 { return int64(len(v.log)) }

func (v *life) must(err error) {
	if err != nil {
		v.fail("%v", err)
	}
}

// restore brings the partition up from the checkpoint, the log and the store, or what a follower has
// made of that.
func (v *life) restore(warm *Follower) {
	c := v.committed
	if c.LowWater < v.logStart && !v.covers(c) {
		c.LowWater, c.GivenUp = v.logStart, v.logStart
	}
	v.configured(c)
	c.Parsers = withParser(v.atLeastOnce)(c, v.owns().Route.Spec(), v.end())
	was := v.p
	var err error
	v.p, err = New(v.owns(), c, Sighting{End: v.end(), At: v.now})
	v.must(err)
	v.p.Trust(1 << 60)
	v.changedKind(was)
	v.taken, v.beside, v.carry, v.refusedAside = nil, nil, nil, 0
	defer func() { v.p.Pass(v.logStart, 0) }()
	v.until = max(v.stable, v.p.ownEnd)
	v.write(v.p.committed) // the claim
	if v.storeless || v.p.Ordered() {
		return
	}
	store := v.storeOf(v.own)
	if warm != nil {
		got, ok, err := warm.HandOver(store, v.p.committed)
		v.must(err)
		if ok {
			v.note("handed over")
			v.p.Use(store, got, v.now, shortWindow)
			return
		}
	}
	v.p.Use(store, v.inherit(store, v.p.committed, v.until), v.now, shortWindow)
}

func (v *life) inherit(store *state.Partition, c state.Checkpoint, end int64) Inherited {
	pos, _ := store.Position()
	got, err := Inherit(never, v.owns().Route, store, c, v.logStart, end)
	v.must(err)
	if got.Pending() > 0 {
		v.note("inherited")
	}
	if got.Pending() > 0 && pos.Resume < c.LowWater {
		v.note("resumes below")
	}
	if first, some := got.ledger.First(); some && first < c.LowWater {
		v.note("holds what was carried")
	}
	return got
}

func (v *life) storeOf(of int) *state.Partition {
	store, err := v.store.Partition(v.homes[of])
	v.must(err)
	return store
}

// append makes the log longer.
func (v *life) append(e entry) {
	e.seen, e.until = v.now, e.due
	v.putOff(&e)
	v.log = append(v.log, e)
	if !v.open {
		v.stable = v.end()
	}
}

// produce appends a request, which a live partition reads at once.
func (v *life) produce(what rune) {
	reads := v.p.live && v.p.position == v.stable && !v.open
	if e := (entry{what: what}); e.naming() {
		e, other := v.naming(what), v.writesOther()
		e.writeAs(other)
		v.append(e)
	} else {
		v.append(v.request(what, v.writesOther(), v.end(), v.base))
	}
	v.been.requests++
	if reads {
		v.readUpTo(v.stable)
	}
}

func (v *life) readUpTo(end int64) {
	var rs []*kgo.Record
	for _, e := range v.log[min(v.p.position, end):end] {
		rs = append(rs, e.Record)
	}
	v.must(v.p.Expect(rs))
	for v.p.position < end {
		e, duplicates := &v.log[v.p.position], mask(0)
		if v.p.live && e.hasID() && !e.naming() {
			duplicates = (v.there() | v.left()) & v.withID(v.p.position)
		}
		idle := len(v.p.questions) == 0 && !v.p.blind && v.p.live
		if e.request() && e.due-v.now < v.env.Soon {
			v.soon |= bit(e.Offset)
		}
		a, err := v.p.Accept(e.Record, v.now)
		v.must(err)
		if open := len(v.p.questions) > 0; idle && e.hasID() && !e.naming() && open != (duplicates != 0) && !v.atLeastOnce {
			v.fail("there is a question about record %d: %v, and %b have its id", e.Offset, open, duplicates)
		}
		if a.Late {
			v.note("late")
		}
	}
	v.must(v.p.Sync())
}

func (v *life) live() {
	v.readUpTo(v.until)
	v.must(v.p.goLive(v.room()))
}

// load brings what is due soon into memory.
func (v *life) load() { v.must(v.p.Load(v.now, v.room())) }

func (v *life) room() Room {
	if v.tight {
		return tight
	}
	return roomy
}

// take makes a part of at most so many records.
func (v *life) take(records int) {
	wants, repeat := v.p.Wants(v.now), v.p.again.any()
	pt := v.p.Take(v.now, nil, records, anyBytes)
	if v.nothing = pt == nil; v.nothing {
		if wants > 0 {
			v.fail("it wants %d records, and takes none of them", wants) // others might wait for it, when a turn has no room for all
		}
		return
	}
	v.p.Begin()
	v.taken = append(v.taken, pt)
	switch {
	case repeat && v.p.again.any() && len(pt.Items) == records:
		v.note("repeated in parts")
	case repeat:
		v.note("repeated")
	}
	v.checkPart(pt, wants, records, repeat)
}

// takeBeside makes a part of at most so many records of other targets than the one of which most is due.
func (v *life) takeBeside(records int) {
	wants := v.p.Wants(v.now)
	pt := Beside{v.p}.Take(v.now, nil, records, anyBytes)
	if v.nothing = pt == nil; v.nothing {
		return
	}
	v.p.Begin()
	v.taken = append(v.taken, pt)
	v.note("taken beside")
	v.checkPart(pt, wants, records, false)
}

// happen decides the oldest part; unseen, its owner does not learn of it.
func (v *life) happen(unseen bool) {
	pt := v.taken[0]
	v.taken = v.taken[1:]
	var end int64
	for i := range pt.Items {
		it := &pt.Items[i]
		if it.Effect == EffectForgotten || it.Effect == EffectCarried {
			continue
		}
		if it.Effect == EffectStale {
			if v.stale(it); it.Resolve {
				v.open = true
				v.append(v.names(it, cmp.Or(it.By, -1)))
				end, pt.To.Appended = v.end(), true
			}
			continue
		}
		seq := v.seqOf(it.Offset)
		if !it.Effect.Pending() {
			v.deliver(seq)
		}
		v.audited(it)
		v.conclude(it)
		by := int64(-1)
		if it.By > 0 && it.By >= pt.To.Offset {
			by = it.By
		}
		if it.Refusal != nil && v.isCopy(it.Offset) {
			v.note("refused as a copy")
			v.given |= bit(seq)
		}
		if it.Dead = v.dead && it.Leaves(); it.Dead {
			v.deadLettered |= bit(seq)
			v.note("dead-lettered")
		}
		if it.Resolve && v.atLeastOnce {
			v.deadLettered |= bit(seq)
		}
		if it.Resolve || it.Dead || by >= 0 {
			v.open = true
			v.append(v.names(it, by))
			end, pt.To.Appended = v.end(), true
		}
	}
	for _, e := range append(v.carriedOn(pt), v.carry...) {
		v.open = true
		if e.Offset = v.end(); e.sort == carriedOn {
			v.soon |= bit(e.Offset) // it is not audited as accepted
		}
		v.append(e)
		end, pt.To.Appended = v.end(), true
	}
	if v.carry = nil; !v.atLeastOnce {
		v.write(pt.To)
	}
	if unseen {
		return
	}
	v.p.End()
	v.p.Settle(pt)
	if pt.Carries {
		Carrying{v.p}.Done(end)
	}
	v.p.Appended(end)
	if !v.atLeastOnce {
		v.p.Committed(pt)
	}
	if len(v.taken) > 0 { // what was rendered ahead begins
		next := v.taken[0]
		next.To.Appended = next.To.Appended || v.p.ownEnd > next.To.Offset
	}
}

// refuse is a turn that is known not to have happened; what was rendered ahead is put back, too, and first.
func (v *life) refuse() {
	for _, pt := range slices.Backward(v.taken) {
		v.p.End()
		if pt.Carries {
			Carrying{v.p}.Done(0)
			continue
		}
		v.p.Repeat(pt, 0)
	}
	v.taken, v.carry = nil, nil
	v.been.refusals++
}

// checkpoint writes a checkpoint that has moved on; at least once, the answer takes a while.
func (v *life) checkpoint() {
	pt := v.p.Checkpoint()
	if v.nothing = pt == nil; v.nothing {
		return
	}
	if v.beside = pt; !v.atLeastOnce {
		v.wrote()
	}
}

func (v *life) wrote() {
	v.write(v.beside.To)
	v.p.Wrote(v.beside)
	v.beside = nil
}

// readAgain is what an owner does with a partition without a store.
func (v *life) readAgain() {
	if v.atLeastOnce && !v.p.Settled() {
		v.nothing = v.p.leaving
		v.p.Leave()
		return
	}
	v.note("read again")
	v.been.rereads++
	v.restore(nil)
}

// What is left of the owner's store after a crash.
const (
	allOfIt = iota
	whatWasFlushed
	nothingOfIt
)

// crash ends the owner. It may be that what is undecided has happened.
func (v *life) crash(happened bool, left int) {
	v.gone(happened)
	if left != allOfIt {
		v.newStore(v.own)
	}
	if left == whatWasFlushed {
		v.must(v.disk.writeTo(v.storeOf(v.own)))
	}
	v.restore(nil)
}

// takeOver ends the owner, and its follower owns the partition.
func (v *life) takeOver(happened bool) {
	v.gone(happened)
	f := v.f
	if v.own, v.f = 1-v.own, nil; v.owns().Route.Delay > 0 {
		f = nil // a process with that route keeps nothing warm of it
	}
	v.restore(f)
}

// gone is what holds once the owner is gone. At least once, what followed the checkpoint comes again, but
// for what a resolve record names; of which what lies above O is refused again.
func (v *life) gone(happened bool) {
	v.been.crashes++
	if happened && len(v.taken) > 0 {
		v.happen(true)
	}
	if happened && v.beside != nil {
		v.write(v.beside.To)
	}
	if v.atLeastOnce {
		said, named := v.says(v.committed), v.resolved&v.named(v.end())
		if v.resolved&^said != 0 {
			v.note("comes again")
		}
		v.resolved, v.again = said|named, named&^said
		for offset := range v.deadLettered.within(v.end()) { // its resolve record may still be on its way
			if v.committed.Watermark.Less(state.Key{Due: v.log[offset].due, Seq: offset}) {
				v.again |= bit(offset)
			}
		}
		passed := bit(v.committed.Offset) - 1
		v.soon |= v.accepted &^ passed // it was told, and may be again
		v.accepted &= passed
		maps.DeleteFunc(v.takenBy, func(of, _ int64) bool { return v.resolved&bit(of) == 0 || v.resolvedItself(of) })
		v.leaveCopies()
	}
}
