package verify

import (
	"math"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is a partition.
type place struct {
	topic     string
	partition int32
}

// part is a partition that is read.
type part struct {
	place
	start int64 // where the log began when it was looked at last
	next  int64 // offset that is read next
	goal  int64 // where to read to, in this pass
	begun int64 // next, when the pass began

	first, last int64 // ms: the earliest and the latest timestamp read; unread where there is none
	waits       bool  // an open transaction has kept it from its goal
	rests       bool  // it is not read, since it is done

	from int64 // the first offset of the window, or where reading began

	// Of a delay topic.
	to         int64 // and before which that ends
	checkpoint checkpoint
	began      int64 // where the log began before the checkpoint was asked for: replicas trim it meanwhile
	seenFrom   int64 // all that lay from here on when it was read is known: what lay below may have been removed before
	hole       hole

	// Of a target or dead letter topic: it holds all that was delivered to it after this time, in ms. Zero: all that counts. Never: it is not
	// known.
	wholeSince int64
	shrunk     bool // its older part is gone
}

const (
	unread = math.MinInt64
	never  = math.MaxInt64
)

func newPart(at place, start int64) *part {
	return &part{place: at, start: start, next: start, from: start, first: unread, last: unread}
}

// hole is where a delay topic lacks the record that the low water of a checkpoint named, which was pending: the log goes on at beyond. A checkpoint is asked for
// before what it names is read. Zero: there is none, since the log goes on above its low water.
type hole struct{ low, beyond int64 }

// findHole looks whether what is read next passes over the low water. What was given up leaves no record there, and where nothing is pending there need not be one.
func (p *part) findHole(offset int64) {
	if c := p.checkpoint; c.known && c.givenUp == 0 && c.low < c.offset && p.next <= c.low && c.low < offset {
		p.hole = hole{c.low, offset}
	}
}

// done tells whether a part has been read to its goal.
func (p *part) done() bool { return p.next >= p.goal || p.waits }

// isReadOut tells whether all was read that was there when a pass began.
func (p *part) isReadOut() bool { return p.next >= p.goal && !p.waits }

// isRead tells whether nothing has kept it from its goal.
func (p *part) isRead() bool { return !p.waits }

// begunOrDone tells whether it is known when the first request was written.
func (p *part) begunOrDone() bool { return p.first != unread || p.done() }

// pass notes that a record has been read.
func (p *part) pass(r *kgo.Record, d *deliveries) {
	p.findHole(r.Offset)
	p.next = r.Offset + 1
	if r.Attrs.IsControl() {
		return
	}
	at := r.Timestamp.UnixMilli()
	if p.last == unread {
		p.first = at
	}
	p.first, p.last = min(p.first, at), max(p.last, at)
	if p.wholeSince == never {
		if written, ok := d.writtenAt(r); ok {
			p.wholeSince = written
		}
	}
}

// shrink notes that the log begins above what was to be read: whether anything of the window is gone is known when the first record is read
// that was delivered later.
func (p *part) shrink(start int64) {
	p.next = start
	p.shrunk, p.wholeSince = true, never
}

// topic is a topic that is read, and what is known of it.
type topic struct {
	name      string
	id        [16]byte
	anew      bool // it was made anew after a pass had read it
	parts     []*part
	gone      bool // it does not exist, or may not be looked at
	compacted bool // it keeps the last record of each key
	maxBytes  int  // max.message.bytes; 0: not known
}

// whole tells since when a topic holds all that was delivered to it: its partitions, or one of them if partition is not negative.
func (t *topic) whole(partition int32) (since int64) {
	for _, p := range t.parts {
		if partition < 0 || p.partition == partition {
			since = max(since, p.wholeSince)
		}
	}
	return since
}

// wholeFor tells since when a topic holds all that was delivered to one of its partitions at a time, in ms. It may have had fewer of them then, and what has a key
// was in another one, if the last one has nothing from before that time.
func (t *topic) wholeFor(partition int32, at int64) (since int64) {
	for _, p := range t.parts {
		if int(p.partition) == len(t.parts)-1 && p.from == 0 && !p.shrunk && (p.first == unread || p.first > at) {
			return t.whole(-1)
		}
	}
	return t.whole(partition)
}
