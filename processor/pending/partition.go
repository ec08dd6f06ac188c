package pending

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/wheel"
)

// Partition is what is pending in one partition of a delay topic: from its checkpoint and its log to the
// parts of turns. It has no client, goroutine, context, clock or logger inside: records, time (ms, by
// the clock that counts) and outcomes come in as arguments, and the local store is all that it writes
// to. It belongs to one goroutine.
type Partition struct {
	Env
	marks
	parsers parsers

	order order
	keyed // the order, or empty beside a queue

	again repeats
	parts int64 // that were taken
	undecided
	full    bool           // it takes in nothing until there is room
	request topics.Request // scratch of Accept
}

// order is how what is pending is kept, and in which order it is resolved: by key, with a watermark, or in the order of the log.
type order interface {
	written(r *kgo.Record, now int64) topics.Stamp // when a record counts as written
	admit(r *kgo.Record, req *topics.Request, now int64) (Accepted, error)
	refuse(r *kgo.Record, refusal *topics.Refusal)                        // a record whose headers cannot be understood
	resolve(key state.Key, by int64) error                                // a resolve record
	cancel(r *kgo.Record, req *topics.Request) error                      // a record that cancels another one
	part(now int64, items []Item, most ration) ([]Item, state.Checkpoint) // what is due, with O and W
	next() (due int64, ok bool)                                           // when there is something to do
	wants(now int64) int                                                  // at most so many records are due
	offset() int64                                                        // O, when nothing is due
	low(offset int64) int64                                               // L, with that O
	settle(items []Item)                                                  // gives back the memory of what is resolved
	sight(Sighting)                                                       // where the log ends
	pending() int64
	count(now int64) Figures
	needs(now int64) time.Duration
	fill(now int64, room Room, full bool) bool // whether it is full, and was
}

// Env is what a partition is told once.
type Env struct {
	Route *topics.Route
	Mark  topics.Mark // of what this group writes into the delay topic for itself
	Skew  int64       // ms: clocks may differ by this much
	Audit bool        // what becomes of each request is audited, so parts say what they accept and take away
	Soon  int64       // ms: of what is due within that time when it is read, parts need not say that it is accepted
	Seed  uint64      // which targets share a number follows from it, where very many were seen; no producer knows it
}

// Knows returns an error unless all parsers of a checkpoint are known.
func (e Env) Knows(c state.Checkpoint) error {
	_, err := parsersOf(e.Route, c)
	return err
}

// New makes a partition that begins with a checkpoint, and has no store. What was seen of the log is the high watermark,
// asked for after the checkpoint: below it lies whatever records of ours there are above O. They were
// acknowledged before the checkpoint could be fetched. A later high watermark would do as well, and may
// never be reached: readers do not get past the last stable offset, and producers of requests may always
// have some transaction open.
func New(env Env, c state.Checkpoint, seen Sighting) (*Partition, error) {
	parsers, err := parsersOf(env.Route, c)
	if err != nil {
		return nil, err
	}
	p := &Partition{Env: env, parsers: parsers}
	p.keyed = keyed{env: &p.Env, window: window{index: index{marks: &p.marks, ids: newIDs()}, parsers: &p.parsers, near: newNear(), ledger: state.NewLedger(c.LowWater), horizon: farthest}}
	p.order = &p.keyed
	p.foundEnd, p.lost.below = seen.End, c.GivenUp
	if c.Appended {
		p.ownEnd, p.sure = seen.End, true
	}
	if p.Route.Delay > 0 && c.LowWater == c.Offset {
		q := &queue{marks: &p.marks, env: &p.Env, near: p.near, lost: lost{below: c.GivenUp}}
		p.order, c.Watermark = q, q.begin(c, seen)
	} else if c.GivenUp > 0 && c.LowWater == c.Offset && c.Watermark.Seq > c.Offset {
		c.Watermark = state.Key{} // a queue has left a sighting there, which says nothing of copies of what was given up
	}
	p.wheel = timetable{Wheel: wheel.New(wheel.Tick(c.Watermark.Due)), early: early{horizon: &p.horizon}, near: p.near, parsers: &p.parsers, mark: p.Mark, numbers: numbers{seed: p.Seed}}
	p.committed, p.done, p.planned, p.lateUpTo = c, c, c, c.Watermark
	p.accepted, p.position, p.start, p.epoch = c.Offset, c.LowWater, c.LowWater, c.Epoch
	return p, nil
}

// Use gives a partition its part of the store, with what that spares it. Window is how far ahead of now (both ms) records are near.
func (p *Partition) Use(store *state.Partition, got Inherited, now, window int64) {
	takeOver(p, store, got)
	p.horizon = state.Key{Due: max(now, p.lateUpTo.Due) + window, Seq: math.MaxInt64}
	p.late.near, p.late.store = p.near, store
	p.skipped = newSkipped(got.Start, p.ledger)
	p.wheel.several = got.Pending() > 0 // it is not known where that goes
}

// takeOver gives a partition a store, and what that spares it.
func takeOver(p *Partition, store *state.Partition, got Inherited) {
	p.store, p.sure = store, false
	p.ledger, p.start, p.position, p.dirty, p.identified, p.copied = got.ledger, got.Start, got.Start, got.dirty, got.identified, got.copied
}

// Ordered reports whether it delivers in the order of the log: a fixed delay.
func (p *Partition) Ordered() bool {
	_, is := p.order.(*queue)
	return is
}

// Storeless reports whether it does without a store that it could use.
func (p *Partition) Storeless() bool { return p.store == nil && !p.Ordered() }

// Sight takes in how far the log was seen to reach.
func (p *Partition) Sight(seen Sighting) { p.order.sight(seen) }

// Pending is how many records it holds that are not resolved.
func (p *Partition) Pending() int64 { return p.order.pending() }

// undecided counts the parts of a partition that turns have: two in a turn at most, and in two turns.
type undecided struct{ turns int }

// Begin takes note that a turn has a part of it, and End that the turn is decided.
func (u *undecided) Begin() { u.turns++ }

func (u *undecided) End() { u.turns-- }

// Undecided is how many parts of it turns have.
func (u *undecided) Undecided() int { return u.turns }

// Item is one record that a turn resolves. A turn has thousands of them, so what only few have lies elsewhere.
type Item struct {
	ref     ref
	Run     []byte // the record, in near
	Key     state.Key
	Offset  int64           // where the log holds it now
	Refusal *topics.Refusal // dead-letter it; nil: deliver it
	By      int64           // above 0: nothing is written for it, because the record at this offset has cancelled or replaced it
	stub    state.Key       // what it leaves when it is delivered; zero: nothing
	extra   *Extra          // nil: it has nothing of that

	Effect  Effect // nothing is delivered for it: what it has done to the record that it names
	Resolve bool   // and write a resolve record, because its key is above the watermark
	late    bool   // it is resolved because O passes it, and not because W does
	stored  bool   // the store holds it too
	leaves  bool   // or a replay by an earlier W would find that it has left something

	Dead     bool // nothing is delivered for it: a turn has written a dead letter
	Replaced bool // what is at By is a replacement, and no cancel; with EffectForward: it names an id, and goes to all other partitions

	// What was learned when it was tried, for the next time.
	Acked   bool // at_least_once: what is written for it has been acknowledged, but for Extra.Unaudited and Extra.Unresolved
	Suspect bool // its target refused it, or one that went along with it
	Stays   bool // the delay topic refused it, and nothing went along: it cannot be carried on
}

// Extra is what few items have.
type Extra struct {
	Took   *state.Key // with Env.Audit: what was pending, and this has cancelled or replaced; of a retry, the request that it stands for
	Asked  bool       // and that has its due time as it was asked for
	TookID []byte     // and the id of that; nil: it had none, or only the log has it
	noted  []byte     // with Env.Audit: of what is pending itself, its id

	// What was learned when it was tried, for the next time.
	Blame      error                // its target refused it, and nothing went along: dead-letter it
	Cuts       int                  // how often the dead letter topic refused it for its size, and nothing went along
	Unaudited  []Unaudited          // at_least_once: what was not acknowledged
	Unresolved [][]kgo.RecordHeader // at_least_once: the headers of resolve records that were not acknowledged
}

// Extra is what few items have, to be changed.
func (it *Item) Extra() *Extra {
	if it.extra == nil {
		it.extra = &Extra{}
	}
	return it.extra
}

// Took is what was pending, and this has cancelled or replaced, and the id of that (Extra); nil: nothing.
func (it *Item) Took() (key *state.Key, id []byte) {
	if it.extra == nil {
		return nil, nil
	}
	return it.extra.Took, it.extra.TookID
}

// TookAsked is the due time of what it has cancelled or replaced, as that was asked for.
func (pt *Part) TookAsked(it *Item) int64 {
	if key := it.extra.Took; !it.extra.Asked {
		return pt.AskedFor(key.Seq, key.Due)
	}
	return it.extra.Took.Due
}

// Blame is why its target refused it alone; nil: it has not.
func (it *Item) Blame() error {
	if it.extra == nil {
		return nil
	}
	return it.extra.Blame
}

// Cuts is how often the dead letter topic refused it for its size.
func (it *Item) Cuts() int {
	if it.extra == nil {
		return 0
	}
	return it.extra.Cuts
}

// Unaudited is what was not acknowledged of what the audit topic is told of it (at_least_once).
func (it *Item) Unaudited() []Unaudited {
	if it.extra == nil {
		return nil
	}
	return it.extra.Unaudited
}

// Unresolved are the headers of its resolve records that were not acknowledged when all before them was (at_least_once).
func (it *Item) Unresolved() [][]kgo.RecordHeader {
	if it.extra == nil {
		return nil
	}
	return it.extra.Unresolved
}

// noted is the id of what is pending itself, with Env.Audit.
func (it *Item) noted() []byte {
	if it.extra == nil {
		return nil
	}
	return it.extra.noted
}

// Leaves reports whether a replay would find that it has left something, which a resolve record has to prevent if it is not delivered.
func (it *Item) Leaves() bool { return it.leaves }

// Unaudited is a record for the audit topic that was not acknowledged.
type Unaudited struct {
	Event      topics.AuditEvent
	Key, Value []byte
}

// ID is the id of the record; nil: it has none. Of a record that is pending itself it is known with Env.Audit only.
func (it *Item) ID() []byte {
	if it.Effect.Pending() {
		return it.noted()
	}
	return runID(it.Run)
}

// due is when it may be resolved: one that is refused at once.
func (it *Item) due() int64 {
	if it.Refusal != nil || it.Effect != EffectNone && it.Effect != EffectForgotten || it.By > 0 {
		return 0
	}
	return it.Key.Due
}

// Next is when the partition has something to do next; false: not before it reads more.
func (p *Partition) Next() (int64, bool) {
	switch {
	case !p.live || p.turns > 0:
		return 0, false
	case p.again.any():
		return p.again.next(p.limit), true
	case p.leaving:
		return 0, false
	}
	return p.order.next()
}

// Take makes the next turn's part of this partition in the memory of items, or nil when there
// is nothing to deliver: at most records, and about bytes of them.
func (p *Partition) Take(now int64, items []Item, records int, bytes int64) *Part {
	if !p.live {
		return nil // what lies ahead in the log may have resolved what is due (design rule 2)
	}
	if p.again.any() {
		if !p.again.ready(now, p.limit) {
			return nil
		}
		return p.TakeRepeat(p.again.parts[0].fit(records, bytes))
	}
	if p.leaving {
		return nil
	}
	return take(p, now, items, ration{records: records, bytes: bytes, stubs: freeStubs})
}

// Beside takes a second part of a partition for the turn that has its first one: what has become due since for targets other than the one with
// most due, or what is due beside more that is late than fits, so that these do not wait for the next turn.
type Beside struct{ *Partition }

// May reports whether a second part can have something: more is due than the first part took, and it has seen several targets, or more is late and that goes elsewhere.
func (p Beside) May() bool {
	switch {
	case p.Ordered():
		return false
	case p.late.len() > 0:
		return mayOvertake(&p.keyed)
	}
	return p.wheel.queued > 0 && p.wheel.numbers.given > 1
}

// Take is Partition.Take without the longest line; beside much that is late, of what is due alone.
func (p Beside) Take(now int64, items []Item, records int, bytes int64) *Part {
	if !p.live || p.again.any() || p.leaving || !p.May() {
		return nil
	}
	return take(p.Partition, now, items, ration{records: records, bytes: bytes, stubs: freeStubs, beside: true})
}

func take(p *Partition, now int64, items []Item, most ration) *Part {
	items, to := p.order.part(now, items, most)
	if len(items) == 0 {
		return nil
	}
	p.finish(&to)
	from := p.lateUpTo
	p.planned, p.lateUpTo = to, to.Watermark // it is taken for what will happen
	p.parts++
	return &Part{of: p, from: from, To: to, Items: items, others: p.late.others, nth: p.parts}
}

// Wants is at most how many records the partition has to deliver now; 0: none.
func (p *Partition) Wants(now int64) int {
	switch {
	case !p.live:
		return 0
	case p.again.any():
		if !p.again.ready(now, p.limit) {
			return 0
		}
		return len(p.again.parts[0].Items)
	case p.leaving:
		return 0
	}
	return p.order.wants(now)
}

// Full reports whether it takes in nothing until there is room. One that is not live never is, since
// nothing would drain it.
func (p *Partition) Full(now int64, room Room) bool {
	if p.live {
		p.full = p.order.fill(now, room, p.full)
	}
	return p.full
}

// Leave keeps it from beginning anything new: it waits for its checkpoint, to be read again.
func (p *Partition) Leave() { p.leaving = true }

// Settle forgets the records of a part that has been decided: they are resolved.
func (p *Partition) Settle(pt *Part) {
	p.order.settle(pt.Items)
	if pt.Carries && pt.before(&Part{To: p.done}) {
		return // a checkpoint was written beside it (at_least_once), which was made before what is to be tried again
	}
	p.done = pt.To
}
