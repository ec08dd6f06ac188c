package ahead

import (
	"hash/maphash"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Env is what a partition is told once.
type Env struct {
	Route *topics.Route // nil: it is not known, so the parsers are those of the checkpoint, and nothing is refused
	Mark  topics.Mark   // of what the group writes into the delay topic for itself
	Skew  int64         // ms: clocks may differ by this much
	Now   int64         // ms

	// Chosen tells whether a request is one of those that All is to return. nil: each is.
	Chosen func(r *kgo.Record, q *topics.Request) bool
	// Watch is the record or the id of which Fates is to tell.
	Watch Watch
}

// Partition is what is pending in one partition of a delay topic. It belongs to one goroutine.
type Partition struct {
	basis
	position int64
	blind    bool // what lies at or above the low water was not read from its beginning on

	entries
	words
	carried   map[int64]int64 // by the offset of its origin: that of the last retry
	questions []question      // in the order of the log
	confirmed map[int64]bool  // by offset: a resolve record says that it has taken a late record away
	refused   int
	tail      int64 // ms: when that is delivered which was read last; of a queue
	lost      lost
	trace     trace
	request   topics.Request // scratch of Accept
}

// New makes a partition from a checkpoint, or from the beginning of a log (with neither W nor parsers). high is the high watermark, asked
// for after the checkpoint. An error is that this release does not know a parser.
func New(env Env, c state.Checkpoint, high int64) (*Partition, error) {
	p := &Partition{basis: basis{env: env}, position: c.LowWater, words: words{places: map[string]int32{}, seed: maphash.MakeSeed()}}
	if env.Chosen == nil {
		p.env.Chosen = func(*kgo.Record, *topics.Request) bool { return true }
	}
	p.trace.watch = env.Watch
	if w := env.Watch; w.ID != nil {
		p.trace.id = p.hash(w.ID)
	}
	return p, p.take(c, high)
}

// Follow goes on with a later checkpoint of the same partition, and reports whether it can: nothing at or above O may have been read.
func (p *Partition) Follow(c state.Checkpoint, high int64) (bool, error) {
	was := p.checkpoint
	if c.Offset < was.Offset || c.Watermark.Less(was.Watermark) && !p.queue || c.TopicID != was.TopicID || !p.queue && p.position > was.Offset {
		return false, nil
	}
	queue := p.queue
	if err := p.take(c, high); err != nil {
		return false, err
	}
	return queue == p.queue, nil
}

// Position is the offset up to which it has read.
func (p *Partition) Position() int64 { return p.position }

// Pass takes in that nothing lies below an offset that has not been read.
func (p *Partition) Pass(offset int64) { p.position = max(p.position, offset) }

// Blind reports whether what lies before the record that is watched was not read: what has its id, or what it replaces.
func (p *Partition) Blind() bool { return p.blind }

// Refused is how many requests at or above O will be dead-lettered when they are passed.
func (p *Partition) Refused() int { return p.refused }

// Accept takes in one record. The record may be used again afterwards.
func (p *Partition) Accept(r *kgo.Record) {
	if r.Offset < p.position {
		return
	}
	p.position = r.Offset + 1
	if r.Attrs.IsControl() {
		return
	}
	if !p.knows(r.Offset) {
		p.trace.found(r, 0, 0, nil)
		return
	}
	decided := !p.queue && r.Offset < p.checkpoint.Offset
	q := &p.request
	if written, c, is := p.env.Mark.Copied(r.Headers, r.Offset); is {
		if !p.queue && c.Seq < p.parsers[0].from && !p.checkpoint.Watermark.Less(state.Key{Due: c.Due, Seq: c.Seq}) {
			return // it is resolved, and its parser is not known any more
		}
		of := &kgo.Record{Offset: r.Offset, Timestamp: time.UnixMilli(c.Timestamp), Key: r.Key, Value: r.Value, Headers: written}
		err := p.Parser(c.Seq).Again(q, written, topics.Stamp{Millis: c.Timestamp, Key: r.Key, NoValue: r.Value == nil}, c.Due, c.Seq, &p.env.Mark)
		if err != nil || q.Kind != topics.KindRequest {
			*q = topics.Request{} // it is dead-lettered when it is due
		}
		adding{p}.copy(of, c, q, decided)
		return
	}
	if err := p.Parser(r.Offset).ParseInto(q, r.Headers, p.written(r), r.Offset, &p.env.Mark); err != nil {
		p.refuse(r, nil, decided, err.(*topics.Refusal))
		return
	}
	if q.Here {
		q.Handle.Due += p.Parser(q.Handle.Offset).Jitter(p.env.Mark, q.Handle.Offset)
	}
	if q.Retry {
		p.trace.came(r.Offset, q)
	}
	if q.Retry && !decided {
		p.carry(r, q)
	}
	switch {
	case q.Kind == topics.KindOfAnotherGroup:
	case p.queue:
		p.enqueue(r, q)
	case q.Kind == topics.KindResolve:
		p.resolve(r, q)
	case q.Kind == topics.KindCancel:
		p.cancel(r, q, decided)
	case decided:
		p.replay(r, q)
	default:
		p.arrive(r, q)
	}
	if len(p.questions) == 0 { // which know places
		p.tidy()
	}
}

// enqueue is for a record of a queue, which has no names.
func (p *Partition) enqueue(r *kgo.Record, q *topics.Request) {
	switch refusal := p.judge(r, q); {
	case q.Kind == topics.KindResolve:
		key := state.Key{Due: q.ResolveDue, Seq: q.ResolveSeq}
		if p.lost.names(&p.basis, key); p.lost.refused[key] { // so its copy is passed over
			delete(p.lost.refused, key)
			p.refused--
		}
	case q.Kind == topics.KindCancel || q.Replaces:
		p.refuse(r, q, false, &topics.Refusal{Code: topics.CodeUnsupportedHeader, Stage: topics.StageAuthorize, Message: "the delay of this topic is fixed by its route: records wait in the order of the log"})
	case refusal != nil:
		p.refuse(r, q, false, refusal)
	default:
		p.add(r, q, isHeld, 0)
		if r.Offset >= p.checkpoint.Offset {
			p.tail = max(p.tail, q.Due)
		}
	}
}

// replay is for a request below O: all has been decided.
func (p *Partition) replay(r *kgo.Record, q *topics.Request) {
	if q.Replaces || q.ID != nil && q.OnDuplicate == topics.DuplicateReplaces {
		p.takeAway(r, q, Replaces)
	}
	key := state.Key{Due: q.Due, Seq: r.Offset}
	switch w := p.checkpoint.Watermark; {
	case w.Less(key):
		p.add(r, q, isHeld, 0)
	case q.ID != nil && w.Less(p.rememberedUntil(key)):
		p.add(r, q, isRemembered, 0)
	default:
		p.trace.found(r, p.hash(q.ID), q.Due, nil)
	}
}

// arrive is for a request at or above O.
func (p *Partition) arrive(r *kgo.Record, q *topics.Request) {
	refusal := p.judge(r, q)
	takes := q.ID != nil && q.OnDuplicate == topics.DuplicateReplaces
	if refusal != nil {
		p.refuse(r, q, false, refusal)
		if q.Replaces || takes { // which it does all the same
			p.questions = append(p.questions, p.questionOf(r, q, Replaces))
		}
		return
	}
	switch {
	case q.Replaces || takes:
		about := p.questionOf(r, q, Replaces)
		about.entry, about.must = p.add(r, q, isUndecided, 0)+1, q.Replaces
		p.questions = append(p.questions, about)
	case q.ID != nil:
		f := dedup
		if q.OnDuplicate == topics.DuplicateIgnored {
			f |= ignores
		}
		p.add(r, q, isUndecided, f)
	default:
		p.add(r, q, isHeld, 0)
	}
}

// carry ends what a retry stands for: whatever transaction has appended it has resolved that, and if the checkpoint does not say so, it is
// from before.
func (p *Partition) carry(r *kgo.Record, q *topics.Request) {
	last, again := p.carried[q.Origin.Offset]
	if !again {
		last = q.Origin.Offset
	}
	if place, has := p.find(last); has && last < r.Offset {
		p.end(place)
	}
}

// cancel is for a record that cancels another one. What names another partition is passed on by the owner.
func (p *Partition) cancel(r *kgo.Record, q *topics.Request, decided bool) {
	if !q.Here && q.NamedID == nil {
		return
	}
	if decided {
		p.takeAway(r, q, Cancels)
		return
	}
	p.questions = append(p.questions, p.questionOf(r, q, Cancels))
}

// takeAway ends what a record below O names. Where an id names nothing, a copy above O may have it still; what comes above O finds those itself.
func (p *Partition) takeAway(r *kgo.Record, q *topics.Request, what What) {
	about := p.questionOf(r, q, what)
	if hit := p.remove(&about); !hit && about.id != 0 {
		p.lost.namesID(&p.basis, &about)
	}
}

// resolve applies a resolve record.
func (p *Partition) resolve(r *kgo.Record, q *topics.Request) {
	if q.ResolveBy >= 0 {
		if p.confirmed == nil {
			p.confirmed = map[int64]bool{}
		}
		p.confirmed[q.ResolveBy] = true
	}
	key := state.Key{Due: q.ResolveDue, Seq: q.ResolveSeq}
	if q.ResolveBy >= 0 || q.ResolveOffset == q.ResolveSeq { // else it is of a copy whose record was resolved before, and its owner does not know by what
		p.trace.resolves(r, key, q.ResolveBy)
	}
	place, has := p.find(key.Seq)
	switch {
	case !has:
		p.lost.names(&p.basis, key)
	case p.at(place).due == key.Due:
		p.end(place)
	}
}

// refuse takes in a request that is dead-lettered, or was.
func (p *Partition) refuse(r *kgo.Record, q *topics.Request, decided bool, why *topics.Refusal) {
	if !decided {
		p.refused++
	}
	var due int64
	var id uint64
	switch {
	case q != nil:
		due, id = q.Due, p.hash(q.ID)
	case why.Due > 0:
		due = why.Due + p.Parser(r.Offset).Jitter(p.env.Mark, r.Offset)
	}
	p.trace.found(r, id, due, why)
}

// add takes in a request that waits.
func (p *Partition) add(r *kgo.Record, q *topics.Request, c condition, f flags) int32 {
	return adding{p}.as(r, r.Offset, q, c, f)
}

// adding takes in what waits.
type adding struct{ *Partition }

// retried notes the retry that the log had at an offset first, and reports whether none that is later was read.
func (p adding) retried(r *kgo.Record, seq int64, q *topics.Request) bool {
	if p.carried[q.Origin.Offset] > seq {
		return false
	}
	if p.carried == nil {
		p.carried = map[int64]int64{}
	}
	p.carried[q.Origin.Offset] = seq
	p.trace.carries(r, seq, q)
	return true
}

// as is add for what stands for the record that the log had at an offset first.
func (p adding) as(r *kgo.Record, seq int64, q *topics.Request, c condition, f flags) int32 {
	e := entry{offset: r.Offset, due: q.Due, written: r.Timestamp.UnixMilli(), id: p.hash(q.ID), size: int32(min(SizeOf(r), math.MaxInt32)), target: p.target(q.Target), condition: c, flags: f}
	if q.AtOnce {
		e.flags |= atOnce
		e.written += q.Pause
	}
	if p.env.Chosen(r, q) {
		e.flags |= chosen
	}
	if f&copied != 0 {
		p.addCopy(e, seq)
		return int32(p.n - 1)
	}
	place := p.entries.add(e)
	if q.Retry {
		p.retried(r, r.Offset, q)
	}
	p.trace.found(r, e.id, q.Due, nil)
	return place
}

// SizeOf is how many bytes the key, the value and the headers of a record have.
func SizeOf(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}
