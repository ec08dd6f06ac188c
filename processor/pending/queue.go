package pending

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// queue holds the records of a fixed-delay route in the order of the log: a record waits for
// those before it, O is the first undelivered one, and reading pauses when enough is held.
//
// So a record holds up all behind it, and one whose timestamp is ahead of the clock must not do so
// for longer than the delay: it counts as written when it was first seen in the log. Records are
// read long after that, and read again by the next owner. Hence the sightings, of which one goes
// along in the checkpoint, in the place of the watermark that a queue does not need.
type queue struct {
	*marks
	env  *Env
	near *near

	fifo
	lastDue   int64      // of what was held so far; a refused record has no due time of its own
	sightings []Sighting // in rising order of all their numbers
	lost      lost
}

// Sighting says that everything in the log below an offset was there at a time.
type Sighting struct {
	End   int64
	At    int64 // ms
	Epoch int32 // of the leader that said so (KIP-320): a record of a newer one came later, and lies there since the log was cut; negative: not known
}

// begin takes over what a checkpoint says was seen, takes in where the log ends now, and returns the W to go on with.
func (q *queue) begin(c state.Checkpoint, seen Sighting) state.Key {
	if w := c.Watermark; w.Seq > c.Offset {
		q.sightings = append(q.sightings, Sighting{w.Seq, w.Due, seen.Epoch}) // which has all of it
	}
	q.sight(seen)
	return q.seen(c.Watermark, c.Offset)
}

// sightings are so many within a delay.
const sightings = 64

// sight takes in how far the log was seen to reach. Sightings are some time apart, so that there is a bounded number of them within
// the delay.
func (q *queue) sight(seen Sighting) {
	every := q.env.Route.Delay.Milliseconds() / sightings
	if n := len(q.sightings); n > 0 && (seen.End <= q.sightings[n-1].End || seen.At < q.sightings[n-1].At+every) {
		return
	}
	q.sightings = append(q.sightings, seen)
}

// since is when a record was first seen in the log: now at the latest.
func (q *queue) since(offset, now int64) int64 {
	for _, s := range q.sightings {
		if offset < s.End {
			return min(s.At, now)
		}
	}
	return now
}

// written is the timestamp that a record counts by. Records are read in their order, so sightings that it lies behind are of no use any more; nor
// are those that it cannot have been there at.
func (q *queue) written(r *kgo.Record, now int64) topics.Stamp {
	passed := 0
	for passed < len(q.sightings) && (q.sightings[passed].End <= r.Offset || q.sightings[passed].before(r)) {
		passed++
	}
	q.sightings = q.sightings[passed:]
	stamp, ahead := topics.StampOf(r), q.env.Skew
	if stamp.Millis <= now+ahead && (len(q.sightings) == 0 || stamp.Millis <= q.sightings[0].At+ahead) {
		return stamp
	}
	if since := q.since(r.Offset, now); stamp.Millis > since+ahead {
		stamp.Millis = since
	}
	return stamp
}

// before reports that a record was written after it, wherever it lies.
func (s Sighting) before(r *kgo.Record) bool { return s.Epoch >= 0 && s.Epoch < r.LeaderEpoch }

// seen is the sighting of a checkpoint with that O, as a watermark. It stays the same until O has
// reached it: so however often owners change, what was in the log by then is due a delay later, and
// what came after that at most another delay later.
func (q *queue) seen(w state.Key, offset int64) state.Key {
	n := 0
	for n < len(q.sightings) && q.sightings[n].End <= offset {
		n++
	}
	q.sightings = q.sightings[n:]
	if k := len(q.sightings); k > 0 && w.Seq <= offset {
		if s := q.sightings[k-1]; s.At > w.Due {
			return state.Key{Due: s.At, Seq: s.End}
		}
	}
	return w
}

// next is when the head is due; a refused record is due at once.
func (q *queue) next() (int64, bool) {
	if q.len() == 0 {
		return 0, false
	}
	return q.head().due(), true
}

// offset is that of the head, or of what is read next when nothing is held.
func (q *queue) offset() int64 {
	if q.len() == 0 {
		return q.position
	}
	return q.head().offset
}

// part moves what is due from the head.
func (q *queue) part(now int64, items []Item, most ration) ([]Item, state.Checkpoint) {
	items, _ = q.take(now, q.near, items, most.records, most.bytes)
	to := q.planned
	to.Offset = q.offset()
	return items, to
}

func (q *queue) admit(r *kgo.Record, req *topics.Request, now int64) (a Accepted, err error) {
	refusal := q.env.Route.Refuse(req, now)
	if req.Replaces {
		refusal = q.refused(topics.HeaderReplace)
		refusal.Due = req.AskedFor()
	}
	if refusal != nil {
		q.refuse(r, refusal)
		return a, nil
	}
	q.hold(r, held{key: state.Key{Due: req.Due, Seq: r.Offset}})
	a.Target = req.Target
	return a, nil
}

// refuse keeps a record to be dead-lettered in its turn: at once, and after those before it.
func (q *queue) refuse(r *kgo.Record, refusal *topics.Refusal) { q.hold(r, held{refusal: refusal}) }

func (q *queue) hold(r *kgo.Record, h held) {
	q.near.hold(r, &h, 0)
	q.add(h)
	q.lastDue = max(q.lastDue, h.key.Due)
}

// copied takes in a copy. What it stands for is resolved, as is all below O, unless that was given up: then it has a due time of its own, which is
// refused here as that of a request is. A resolve record says so, since O may stop short of another copy.
func (q *queue) copied(r *kgo.Record, c topics.Copy) {
	key := state.Key{Due: c.Due, Seq: c.Seq}
	if _, resolved := q.lost.keys[key]; resolved || c.From >= q.lost.below {
		return
	}
	q.lost.names(key) // another copy of it may come
	run := appendCopy(nil, r, 0, origin{c.Seq, c.From})
	q.add(held{key: key, offset: r.Offset, ref: q.near.put(0, run, false), size: int32(len(run)), resolve: true, refusal: &topics.Refusal{Code: topics.CodeUnsupportedHeader, Stage: topics.StageAuthorize,
		Message: "the delay of this topic is fixed by its route by now, so a record that was carried cannot have its own"}})
}

// resolve applies a resolve record to what was given up. All else that it may name lies below O.
func (q *queue) resolve(key state.Key, _ int64) error {
	if q.lost.names(key); key.Seq >= q.lost.below {
		return nil
	}
	for h := range q.all() {
		if h.key == key {
			h.refusal, h.effect = nil, EffectStale
		}
	}
	return nil
}

// cancel refuses: the parser of a fixed delay does so itself, and this one was written for another.
func (q *queue) cancel(r *kgo.Record, _ *topics.Request) error {
	q.refuse(r, q.refused(topics.HeaderCancel))
	return nil
}

func (q *queue) refused(header string) *topics.Refusal {
	return &topics.Refusal{Code: topics.CodeUnsupportedHeader, Stage: topics.StageAuthorize, Header: q.env.Route.Header(header),
		Message: "the delay of this topic is fixed by its route by now: records wait in the order of the log, and cannot be taken out of it"}
}

func (q *queue) wants(now int64) int {
	if due, ok := q.next(); !ok || due > now {
		return 0
	}
	return q.len()
}

func (q *queue) low(offset int64) int64 { return offset }

func (q *queue) settle(items []Item) {
	for i := range items {
		q.near.release(items[i].ref)
	}
}

func (q *queue) pending() int64 { return int64(q.len()) }

func (q *queue) count(now int64) Figures {
	f := Figures{Pending: q.pending(), Bytes: q.bytes, Near: int64(q.len())}
	if due, ok := q.next(); ok {
		f.sooner(due, now)
	}
	return f
}

func (q *queue) needs(int64) time.Duration { return q.env.Route.Delay }

func (q *queue) fill(now int64, room Room, full bool) bool {
	most := max(room.Share/2, 1<<18)
	switch {
	case q.bytes > most, q.len() > 1000 && q.lastDue > now+room.Most:
		return true
	case q.bytes < most/2 && (q.len() <= 1000 || q.lastDue < now+room.Most/2):
		return false
	}
	return full
}
