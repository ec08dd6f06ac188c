package ahead

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// LogBegins says where the log begins: of what lies below only the store of an owner may know what has become.
func (b *basis) LogBegins(at int64) { b.logStart = at }

// lost are the records that were given up, as far as something has named them that was read: copies of these do not stand for them.
type lost struct {
	seqs map[int64]int64     // when they are due, by the offset at which the log had them first
	ids  map[uint64]naming   // what has named an id that nothing had
	more map[uint64][]naming // the same where one does not take all that another one does; none of them covers another

	refused map[state.Key]bool // of a queue: those of which it has refused a copy
}

// givenUp reports whether what lies at an offset is neither known nor resolved.
func (b *basis) givenUp(offset int64) bool { return offset < max(b.logStart, b.checkpoint.GivenUp) }

// names notes what was named, and is not known.
func (l *lost) names(b *basis, key state.Key) {
	if !b.givenUp(key.Seq) {
		return
	}
	if l.seqs == nil {
		l.seqs = map[int64]int64{}
	}
	l.seqs[key.Seq] = key.Due
}

// namesID is the same by an id.
func (l *lost) namesID(b *basis, q *question) {
	if !b.givenUp(0) {
		return
	}
	if l.ids == nil {
		l.ids, l.more = map[uint64]naming{}, map[uint64][]naming{}
	}
	n := naming{q.offset, q.writtenBy}
	switch was, has := l.ids[q.id]; {
	case !has || n.covers(was):
		l.ids[q.id] = n
	case !was.covers(n):
		l.more[q.id] = append(slices.DeleteFunc(l.more[q.id], n.covers), n)
	}
}

// naming is what takes those records with an id that lie before an offset.
type naming struct {
	offset    int64
	writtenBy int64 // as in question
}

// takes reports whether it takes a record away.
func (n naming) takes(seq, written int64) bool {
	return seq < n.offset && (n.writtenBy <= 0 || written <= n.writtenBy)
}

// covers reports whether it takes all that another one does.
func (n naming) covers(other naming) bool {
	return n.offset >= other.offset && (n.writtenBy <= 0 || other.writtenBy > 0 && n.writtenBy >= other.writtenBy)
}

// takes reports whether something that was read names the record of a copy.
func (l *lost) takes(key state.Key, id uint64, written int64) bool {
	if due, named := l.seqs[key.Seq]; named && due == key.Due {
		return true
	}
	of, named := l.ids[id]
	return named && (of.takes(key.Seq, written) || slices.ContainsFunc(l.more[id], func(n naming) bool { return n.takes(key.Seq, written) }))
}

// copy takes in a carried copy; r is what it stands for, at the offset of the copy.
func (p adding) copy(r *kgo.Record, c topics.Copy, q *topics.Request, decided bool) {
	key := state.Key{Due: c.Due, Seq: c.Seq}
	p.trace.copied(r, c.Seq, p.hash(q.ID), c.Due)
	if q.Retry {
		p.trace.came(c.Seq, q)
	}
	if q.Retry && !p.retried(r, c.Seq, q) && !decided {
		return // it was tried again since
	}
	pending := p.checkpoint.Watermark.Less(key)
	remembered := !pending && q.ID != nil && p.checkpoint.Watermark.Less(p.rememberedUntil(key))
	place, has := p.find(c.Seq)
	switch {
	case p.queue:
		if p.givenUp(c.From) && !p.lost.takes(key, 0, 0) {
			p.lost.names(&p.basis, key)
			p.refused++
			if p.lost.refused == nil {
				p.lost.refused = map[state.Key]bool{}
			}
			p.lost.refused[key] = true
		}
	case !pending && !remembered:
	case !decided && !has && p.givenUp(c.From):
		if p.lost.takes(key, p.hash(q.ID), c.Timestamp) {
			return
		}
		e := isHeld
		if !pending {
			e = isRemembered
		}
		p.as(r, c.Seq, q, e, copied) // what names the record finds it, also what lies before
	case !decided:
		p.as(r, c.Seq, q, isUndecided, copied)
	case pending:
		if has {
			p.end(place)
		}
		p.as(r, c.Seq, q, isHeld, copied)
	case !has || !p.remembers(p.at(place), p.key(p.at(place))):
		p.as(r, c.Seq, q, isRemembered, copied)
	}
}

// stand decides whether a copy at or above O stands for its record, which lies before it.
func (p decision) stand(place int32, e *entry) {
	seq := p.seq(e)
	of, has := p.find(seq)
	pending := p.checkpoint.Watermark.Less(state.Key{Due: e.due, Seq: seq})
	switch {
	case has && pending && p.waits(p.at(of), p.key(p.at(of))):
		p.end(of)
		e.condition = isHeld
	default: // it was resolved, or has left what is remembered
		p.end(place)
		return
	}
	p.copies[seq] = e.offset
}
