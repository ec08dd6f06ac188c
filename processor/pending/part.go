package pending

import (
	"slices"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Part is what one turn does for one partition: the records that it resolves, and the checkpoint
// that says so. First come the late and refused ones, in offset order, then those up to W, in the
// order of their keys, and then those that overtake others; those of a queue are all in offset order.
type Part struct {
	of    *Partition
	frees int       // of a checkpoint alone: how many of what the partition remembers for a checkpoint to come (records, stubs, ids) it releases
	from  state.Key // W before
	To    state.Checkpoint
	Items []Item

	Carries bool // copies are appended beside it

	others int   // how many other partitions its topic has
	nth    int64 // of all that were taken of the partition
	rest   int   // how many records come after it of what was taken together

	// What Weigh has found.
	records int
	bytes   int64
}

// Overtakes reports whether it is resolved although W does not pass it: what has a smaller key waits. A resolve record says so.
func (it *Item) Overtakes() bool { return it.Resolve && !it.late }

// lastInOrder is the last of the items that does not overtake; -1: there is none.
func lastInOrder(items []Item) int {
	last := len(items) - 1
	for last >= 0 && items[last].Overtakes() {
		last--
	}
	return last
}

// Due is the latest due time of its records: the partition's clock has passed it.
func (pt *Part) Due() (due int64) {
	for i := range pt.Items {
		due = max(due, pt.Items[i].due())
	}
	return due
}

// before tells the order in which the parts of a partition happen. What is taken moves O or W
// forward, and nothing moves either back; what only overtakes leaves both where they are.
func (pt *Part) before(other *Part) bool {
	a, b := pt.To, other.To
	switch {
	case a.Offset != b.Offset:
		return a.Offset < b.Offset
	case a.Watermark != b.Watermark:
		return a.Watermark.Less(b.Watermark)
	}
	if pt.nth != other.nth {
		return pt.nth < other.nth
	}
	return pt.rest > other.rest
}

// Weigh says as how many records its items count in a turn, and how many bytes they take. It is counted once, while they are at hand.
func (pt *Part) Weigh() (records int, bytes int64) {
	if pt.records == 0 {
		for i := range pt.Items {
			pt.records += pt.Items[i].counts(pt.others)
			pt.bytes += int64(len(pt.Items[i].Run))
		}
	}
	return pt.records, pt.bytes
}

// Ordered reports whether its partition delivers in the order of the log.
func (pt *Part) Ordered() bool { return pt.of.Ordered() }

// RequestOf is Partition.RequestOf. Any goroutine may ask that has the part.
func (pt *Part) RequestOf(q *topics.Request, it *Item, r *Record) error {
	return pt.of.RequestOf(q, it, r)
}

// Silent reports whether a cancel has no answer. One that names an id has none: no partition knows what the others have found.
func (pt *Part) Silent(it *Item, r *Record) bool {
	var req topics.Request
	return pt.RequestOf(&req, it, r) == nil && req.NamedID != nil
}

// AskedFor is the due time of the request at an offset as it was asked for: a handle has no jitter.
func (pt *Part) AskedFor(offset, due int64) int64 {
	return due - pt.of.parsers.at(offset).Jitter(pt.of.Mark, offset)
}

// AskedBy is AskedFor of the request that a record stands for, which may be a retry: then it says itself what jitter there was.
func (pt *Part) AskedBy(r *Record, first topics.Origin) int64 {
	return first.Due - pt.ParserOf(r).Jitter(pt.of.Mark, first.Offset)
}

// Remembers reports whether ids are remembered of records where an offset lies.
func (pt *Part) Remembers(offset int64) bool { return pt.of.parsers.at(offset).Remember() > 0 }

// ParserOf is the parser by which the request is read of a record that is to be resolved.
func (pt *Part) ParserOf(r *Record) *topics.Parser {
	return topics.ParserOf(pt.of.parsers.at(r.Offset), r.Headers, r.Offset, &pt.of.Mark)
}

// DueOf is the due time of a record that is to be resolved, refused or not; 0 where none is known. What is refused has no key where that says nothing to a
// replay; then its refusal has the time that was asked for.
func (pt *Part) DueOf(it *Item) int64 {
	switch {
	case it.Key.Due > topics.AtOnce:
		return it.Key.Due
	case it.Refusal != nil && it.Refusal.Due > 0:
		return it.Refusal.Due + pt.of.parsers.at(it.Offset).Jitter(pt.of.Mark, it.Offset)
	}
	return 0
}

// Touch is called before the ith record is decoded. Every so many it reads something of each line of memory that the next ones take, so
// that the processor fetches these side by side, and not one after the other as they are decoded. It returns what it has read.
func (pt *Part) Touch(i int) (read byte) {
	if i%touchAhead != 0 {
		return 0
	}
	next := pt.Items[i:min(i+touchAhead, len(pt.Items))]
	for k := range next {
		read |= touchLines(next[k].Run)
	}
	return read
}

// fit is how many of its records fit into a turn: one at least.
func (pt *Part) fit(records int, bytes int64) int {
	n, took := 0, int64(0)
	for n < len(pt.Items) {
		it := &pt.Items[n]
		if records -= it.counts(pt.others); n > 0 && (records < 0 || took >= bytes) {
			break
		}
		took += int64(len(it.Run))
		n++
	}
	return n
}

// Split cuts a part in two before its nth record, to be tried one after the other. The second
// leaves the partition as the whole would have. The checkpoint of the first is valid by itself,
// should the second never happen:
//
//   - Its W is the key of its last record in the order of keys, or the W before when it has late
//     ones only: W passes nothing that is still to be tried. What overtakes comes last, and leaves W where it is.
//   - While late records are left, O stops short of them, as where the list is capped (design
//     rule 3). Those of a queue are all late.
//   - L, and with it the parsers that a replay needs, stays at or below what is still to be tried,
//     which the ledger has given up already.
//   - While copies are left that it does not pass, it says what was given up.
func (pt *Part) Split(n int) (first, second *Part) {
	first = &Part{of: pt.of, from: pt.from, To: pt.To, Items: pt.Items[:n:n], others: pt.others, nth: pt.nth, rest: pt.rest + len(pt.Items) - n}
	second = &Part{of: pt.of, from: pt.from, To: pt.To, Items: pt.Items[n:], others: pt.others, nth: pt.nth, rest: pt.rest}
	to, next := &first.To, &second.Items[0]
	if next.late {
		to.Offset, to.Watermark = next.Offset, pt.from
	} else if last := lastInOrder(first.Items); last < 0 || first.Items[last].late {
		to.Watermark = pt.from
	} else {
		to.Watermark = first.Items[last].Key
		second.from = to.Watermark
	}
	to.LowWater = min(to.LowWater, to.Offset, max(pt.of.heldLow(to.Offset), pt.of.done.LowWater))
	for i := range second.Items {
		to.LowWater = min(to.LowWater, second.Items[i].Offset)
	}
	for i := range first.Items { // a stub that the whole would have passed is not kept, and this one does not pass it
		if it := &first.Items[i]; it.leaves && to.Watermark.Less(pt.of.parsers.stubOf(it.Key)) {
			to.LowWater = min(to.LowWater, it.Offset)
		}
	}
	if to.Offset < pt.of.foundEnd {
		to.GivenUp = pt.of.done.GivenUp
	}
	to.Parsers = slices.Clone(pt.of.done.Parsers)
	to.DropParsersBelow(pt.of.copied.below(to.LowWater))
	return first, second
}

// Repeat keeps a part to be tried again, at a time at the earliest. The client that was to produce its records may be looking at them still, when
// they have been delivered by another one.
func (p *Partition) Repeat(pt *Part, at int64) {
	p.near.lend(pt.Items)
	p.again.put(pt, at)
}

// Repeated are the parts that are to be tried again, in order.
func (p *Partition) Repeated() []*Part { return p.again.parts }

// TakeRepeat takes the first n records of what is to be tried again.
func (p *Partition) TakeRepeat(n int) *Part {
	out := p.again.take(n)
	// The turn that it waited for may have appended above its O.
	out.To.Appended = out.To.Appended || p.ownEnd > out.To.Offset
	return out
}

// repeats are what turns that did not happen have left: the same O, W and records, in the order in which they happen.
type repeats struct {
	parts []*Part
	at    int64 // ms
}

func (r *repeats) any() bool { return len(r.parts) > 0 }

// put keeps a part in the order in which the parts happen: each one's checkpoint says that those before it have happened.
func (r *repeats) put(pt *Part, at int64) {
	i := len(r.parts)
	for i > 0 && pt.before(r.parts[i-1]) {
		i--
	}
	r.parts = slices.Insert(r.parts, i, pt)
	r.at = max(r.at, at)
}

// LongestPutBack is the longest time for which what did not happen is not tried again, in ms. What
// seems to have to wait for longer was put back before the clock was set back.
const LongestPutBack = 1000

// ready reports whether what is to be tried again may be tried now.
func (r *repeats) ready(now, limit int64) bool {
	return (now >= r.at || r.at-now > LongestPutBack) && r.parts[0].Due() <= limit
}

// next is when the first one is to be tried.
func (r *repeats) next(limit int64) int64 {
	if due := r.parts[0].Due(); due > limit {
		return due
	}
	return r.at
}

// take takes the first n records of the first part. What all of them waited for is over: by a clock that was set back since it may seem to
// last, and what is put back would be tried again at once.
func (r *repeats) take(n int) *Part {
	out := r.parts[0]
	r.at = 0
	if n < len(out.Items) {
		out, r.parts[0] = out.Split(n)
	} else {
		r.parts = r.parts[1:]
	}
	return out
}
