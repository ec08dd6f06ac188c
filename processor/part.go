package processor

import (
	"slices"

	"github.com/duewheel/duewheel/state"
)

// part is what one turn does for one partition: the records that it resolves, and the checkpoint
// that says so. First come the late and refused ones, in offset order, then the others, in the
// order of their keys; those of a queue are all in offset order.
type part struct {
	p     *partition
	held  int       // of a checkpoint alone: how many of the partition's held offsets it releases
	from  state.Key // W before
	to    state.Checkpoint
	items []item
}

// due is the latest due time of its records: the partition's clock has passed it.
func (pt *part) due() (due int64) {
	for i := range pt.items {
		due = max(due, pt.items[i].due())
	}
	return due
}

// before tells the order in which the parts of a partition happen. Each of them moves O or W
// forward, and none moves either back.
func (pt *part) before(other *part) bool {
	a, b := pt.to, other.to
	return a.Offset < b.Offset || a.Offset == b.Offset && a.Watermark.Less(b.Watermark)
}

// size is what its records take.
func (pt *part) size() (bytes int64) {
	for i := range pt.items {
		bytes += int64(len(pt.items[i].run))
	}
	return bytes
}

// fit is how many of its records fit into a turn: one at least.
func (pt *part) fit(records int, bytes int64) int {
	n, took := 0, int64(0)
	for n < len(pt.items) && (n == 0 || n < records && took < bytes) {
		took += int64(len(pt.items[n].run))
		n++
	}
	return n
}

// split cuts a part in two before its nth record, to be tried one after the other. The second
// leaves the partition as the whole would have. The checkpoint of the first is valid by itself,
// should the second never happen:
//
//   - Its W is the key of its last record in the order of keys, or the W before when it has late
//     ones only: W passes nothing that is still to be tried.
//   - While late records are left, O stops short of them, as where the list is capped (design
//     rule 3). In a queue O is the first undelivered record.
//   - L, and with it the parsers that a replay needs, stays at or below what is still to be tried,
//     which the ledger has given up already.
func (pt *part) split(n int) (first, second *part) {
	first = &part{p: pt.p, from: pt.from, to: pt.to, items: pt.items[:n:n]}
	second = &part{p: pt.p, from: pt.from, to: pt.to, items: pt.items[n:]}
	to, next := &first.to, &second.items[0]
	if pt.p.queue != nil {
		to.Offset = next.offset
	} else if next.late(pt.from) {
		to.Offset, to.Watermark = next.offset, pt.from
	} else if last := &first.items[n-1]; last.late(pt.from) {
		to.Watermark = pt.from
	} else {
		to.Watermark, second.from = last.key, last.key
	}
	to.LowWater = min(to.LowWater, to.Offset)
	for i := range second.items {
		to.LowWater = min(to.LowWater, second.items[i].offset)
	}
	to.Parsers = slices.Clone(pt.p.done.Parsers)
	to.DropParsersBelow(to.LowWater)
	return first, second
}

// late reports whether a record is resolved because O passes it, and not because W does.
func (it *item) late(w state.Key) bool { return it.refusal != nil || !w.Less(it.key) }

// putBack keeps a part to be tried again, in the order in which the parts happen: each one's
// checkpoint says that those before it have happened.
func (p *partition) putBack(pt *part, at int64) {
	i := len(p.repeat)
	for i > 0 && pt.before(p.repeat[i-1]) {
		i--
	}
	p.repeat = slices.Insert(p.repeat, i, pt)
	if at > 0 && p.repeatAt-at > longestPutBack {
		p.repeatAt = at // the clock was set back since
	}
	p.repeatAt = max(p.repeatAt, at)
}

// longestPutBack is the longest time for which what did not happen is not tried again, in ms. What
// seems to have to wait for longer was put back before the clock was set back.
const longestPutBack = 1000

// repeats reports whether what is to be tried again may be tried now.
func (p *partition) repeats(now int64) bool {
	return (now >= p.repeatAt || p.repeatAt-now > longestPutBack) && p.repeat[0].due() <= p.limit
}

// takeRepeat takes the first n records of what is to be tried again.
func (p *partition) takeRepeat(n int) *part {
	out := p.repeat[0]
	if n < len(out.items) {
		out, p.repeat[0] = out.split(n)
	} else {
		p.repeat = p.repeat[1:]
	}
	// The turn that it waited for may have appended above its O.
	out.to.Appended = out.to.Appended || p.ownEnd > out.to.Offset
	return out
}
