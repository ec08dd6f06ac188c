package processor

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/retention"
	"github.com/duewheel/duewheel/topics"
)

// excerpt is what a carrier has handed to the lane.
type excerpt struct {
	*retention.Excerpt
	since  time.Time // when the lane got it
	waited bool      // what is due could go before it, since no quota kept that waiting
}

// copies are what a part of a turn appends to the partition: it carries what they are copied from.
type copies struct {
	of   *excerpt
	list []original
	done retention.Copied
}

// original is a record that is carried.
type original struct {
	from    *kgo.Record
	written []kgo.RecordHeader // as it was written first
	as      topics.Copy
	item    pending.Item // what was learned of the copy
}

// errNotNow means that a partition is not here, or that nothing of it can be carried for the time being.
var errNotNow = errors.New("processor: the partition is not live here, or something else comes first")

const (
	// copiesPatience is how long copies give way to what is due.
	copiesPatience = 100 * time.Millisecond
	// copiesBytes is about how much is copied in one turn.
	copiesBytes = 1 << 20
)

// copies makes a part of an excerpt that waits, if there is nothing else to do for its partition, and the last turn has
// taken all that was due; or if it has waited for some time.
func (ts *turns) copies(ps []*partition, now int64) *part {
	x := ts.excerpt
	if x == nil || ts.quota.Lasts() {
		return nil
	}
	p := x.here(ps)
	if !(pending.Carrying{Partition: p.Partition}).May() {
		ts.copied(x, retention.Copied{Err: errNotNow})
		return nil
	}
	if (ts.full || p.wants(now) > 0) && !(x.waited && x.overdue()) {
		x.waited = true
		return nil
	}
	c, carrying := &copies{of: x}, pending.Carrying{Partition: p.Partition}
	for _, r := range x.Records {
		if len(c.list) >= min(x.Most, ts.selection.batch.records) || c.done.Bytes >= min(copiesBytes, ts.selection.batch.bytes) {
			break
		}
		c.done.Read++
		if written, as, is := carrying.Copy(r); is && as.Due-now > x.Spares {
			c.list = append(c.list, original{from: r, written: written, as: as})
			c.done.Bytes += int64(topics.RecordSize(r.Key, r.Value, r.Headers))
		}
	}
	if len(c.list) == 0 {
		ts.copied(x, c.done)
		return nil
	}
	pt := p.part(carrying.Take(c.made()))
	pt.copies, p.copying = c, true
	pt.p.Begin()
	return pt
}

// made are the copies of a list.
func (cs *copies) made() iter.Seq[topics.Copy] {
	return func(yield func(topics.Copy) bool) {
		for i := range cs.list {
			if !yield(cs.list[i].as) {
				return
			}
		}
	}
}

// take takes an excerpt over from the carrier, or answers what it asks.
func (ts *turns) take(from *retention.Excerpt, ps []*partition) {
	x := &excerpt{Excerpt: from, since: time.Now()}
	ts.excerpt = x
	if x.Records != nil {
		return
	}
	if p := x.here(ps); p != nil {
		ts.copied(x, retention.Copied{Wanted: pending.Carrying{Partition: p.Partition}.Wanted(x.From, x.UpTo, x.Most)})
	} else {
		ts.copied(x, retention.Copied{Err: errNotNow})
	}
}

// here is the partition that an excerpt is of; nil: it is not live here.
func (x *excerpt) here(ps []*partition) *partition {
	if i := slices.IndexFunc(ps, func(p *partition) bool { return p.tp == x.TP && p.id == x.ID && p.live() }); i >= 0 {
		return ps[i]
	}
	return nil
}

// giveBack gives an excerpt back to the carrier whose partition is not live here, also while there are no turns: it has others to carry.
func (ts *turns) giveBack(ps []*partition) {
	if x := ts.excerpt; x != nil && x.here(ps) == nil {
		ts.copied(x, retention.Copied{Err: errNotNow})
	}
}

// overdue reports whether it has given way to what is due for long enough.
func (x *excerpt) overdue() bool { return x != nil && time.Since(x.since) >= copiesPatience }

// copied tells the carrier what became of the excerpt.
func (ts *turns) copied(x *excerpt, what retention.Copied) {
	ts.excerpt = nil
	x.Answer <- what
}

// concludeCopies takes in what became of the copies of a turn.
func (ts *turns) concludeCopies(t *turn) {
	for _, pt := range t.parts {
		if pt.copies == nil {
			continue
		}
		pt.p.copying = false
		tried, c := slices.Contains(t.tried, pt), pt.copies
		happened := tried && t.outcome == outcomeDone && t.refused[pt] == nil
		switch carrying := (pending.Carrying{Partition: pt.p.Partition}); {
		case tried && t.outcome == outcomeUnknown: // it starts over
		case happened, tried && ts.cfg.Guarantee == AtLeastOnce && t.settled:
			carrying.Done(t.ownEnds[pt])
		case tried && ts.cfg.Guarantee == AtLeastOnce && t.err != nil:
			pt.p.unsureSince = time.Now() // some may be appended yet
		default:
			carrying.Done(0)
		}
		if happened {
			ts.copied(c.of, c.done)
			continue
		}
		what := retention.Copied{Err: cmp.Or(t.err, errNotNow)}
		if i := slices.IndexFunc(t.held, func(h heldPart) bool { return h.part == pt }); i >= 0 {
			what.Err = t.held[i].why
		}
		if t.copyRefused != nil {
			what = retention.Copied{Err: t.copyRefused, Refused: &c.list[0].from.Offset}
		}
		ts.copied(c.of, what)
	}
}

// learnCopies takes in where the log ends: what was not answered a while ago lies below, or will never be there.
func (p *partition) learnCopies(high int64, asked time.Time) {
	if p.unsureSince.IsZero() || asked.Sub(p.unsureSince) < retention.StaleCheckpoint {
		return
	}
	p.unsureSince = time.Time{}
	pending.Carrying{Partition: p.Partition}.Done(high)
}

// render renders the copies of a part: all that its topic takes.
func (cs *copies) render(ctx context.Context, r *renderer, pt *part) error {
	t, st, err := r.delayTopic(ctx, pt.p)
	if err != nil {
		return err
	}
	cs.done.Copies, cs.done.Bytes, cs.done.Unfit = 0, 0, nil
	for i := range cs.list {
		c, out := &cs.list[i], r.newRecord()
		out.Topic, out.Partition, out.Key, out.Value = t.Name, pt.p.tp.Partition, c.from.Key, c.from.Value
		at := len(r.headers)
		r.headers, r.buf = topics.AppendCopy(r.headers, c.written, pt.p.mark, c.as, r.buf)
		out.Headers = r.headers[at:len(r.headers):len(r.headers)]
		size := topics.RecordSize(out.Key, out.Value, out.Headers)
		if _, ok := r.fits(out, size, st); !ok {
			r.drop(out)
			cs.done.Unfit = &c.from.Offset
			continue
		}
		cs.done.Copies, cs.done.Bytes = cs.done.Copies+1, cs.done.Bytes+int64(size)
		r.outputs = append(r.outputs, output{rec: out, kind: outCopy, item: &c.item, part: pt, size: size})
	}
	return nil
}
