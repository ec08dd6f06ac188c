package ahead

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// LogBegins says where the log begins: what copies were made of below that is lost.
func (b *basis) LogBegins(at int64) { b.logStart = at }

// copy takes in a carried copy; r is what it stands for, at the offset of the copy.
func (p adding) copy(r *kgo.Record, c topics.Copy, q *topics.Request, decided bool) {
	key := state.Key{Due: c.Due, Seq: c.Seq}
	p.trace.copied(r, c.Seq, p.hash(q.ID), c.Due)
	pending := p.checkpoint.Watermark.Less(key)
	remembered := !pending && q.ID != nil && p.checkpoint.Watermark.Less(p.rememberedUntil(key))
	place, has := p.find(c.Seq)
	switch {
	case p.queue || !pending && !remembered:
	case !decided:
		f := copied
		if c.From < p.logStart {
			f |= lost
		}
		p.as(r, c.Seq, q, isUndecided, f)
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
	case has, e.flags&lost == 0: // it was resolved, or has left what is remembered
		p.end(place)
		return
	case pending:
		e.condition = isHeld
	default:
		e.condition = isRemembered
	}
	p.copies[seq] = e.offset
}
