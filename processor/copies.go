package processor

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/retention"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// excerpt is what a carrier has handed to the lane.
type excerpt struct {
	*retention.Excerpt
	since  time.Time // when the lane got it
	waited bool      // what is due could go before it, since no quota kept that waiting
}

// errNotNow means that a partition is not here, or that nothing of it can be carried for the time being.
var errNotNow = errors.New("processor: the partition is not live here, or something else comes first")

// copiesPatience is how long copies give way to what is due.
const copiesPatience = 100 * time.Millisecond

// copies is what is carried in a lane's turns: an excerpt of a log after the other, as a carrier hands them over. It belongs to the lane.
type copies struct {
	*kit
	selection *selection
	excerpt   *excerpt // that waits, or is in a turn; nil: there is none
}

// part makes a part of an excerpt that waits, if there is nothing else to do for its partition, and the last turn has
// taken all that was due (not full); or if it has waited for some time.
func (cs *copies) part(ps []*partition, now int64, full bool) *turn.Part {
	x := cs.excerpt
	if x == nil || cs.quota.Lasts() {
		return nil
	}
	p := x.here(ps)
	if !(pending.Carrying{Partition: p.Partition}).May() {
		cs.answer(x.Excerpt, retention.Copied{Err: errNotNow})
		return nil
	}
	if (full || p.wants(now) > 0) && !(x.waited && x.overdue()) {
		x.waited = true
		return nil
	}
	c, carrying := &turn.Copies{Owner: x.Excerpt}, pending.Carrying{Partition: p.Partition}
	for _, r := range x.Records {
		if len(c.List) >= min(x.Most, cs.selection.batch.records) || c.Done.Bytes >= min(int64(x.MostBytes), cs.selection.batch.bytes) {
			break
		}
		c.Done.Read++
		if written, as, is := carrying.Copy(r); is && as.Due-now > x.Spares {
			c.List = append(c.List, turn.Original{From: r, Written: written, As: as})
			c.Done.Bytes += int64(topics.RecordSize(r.Key, r.Value, r.Headers))
		}
	}
	if len(c.List) == 0 {
		cs.answer(x.Excerpt, copied(c.Done))
		return nil
	}
	pt := p.part(carrying.Take(c.Made()))
	pt.Copies, p.copying = c, true
	p.Begin()
	return pt
}

// take takes an excerpt over from the carrier, or answers what it asks.
func (cs *copies) take(from *retention.Excerpt, ps []*partition) {
	x := &excerpt{Excerpt: from, since: time.Now()}
	cs.excerpt = x
	if x.Records != nil {
		return
	}
	if p := x.here(ps); p != nil {
		cs.answer(x.Excerpt, retention.Copied{Wanted: pending.Carrying{Partition: p.Partition}.Wanted(x.From, x.UpTo, x.Most)})
	} else {
		cs.answer(x.Excerpt, retention.Copied{Err: errNotNow})
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
func (cs *copies) giveBack(ps []*partition) {
	if x := cs.excerpt; x != nil && x.here(ps) == nil {
		cs.answer(x.Excerpt, retention.Copied{Err: errNotNow})
	}
}

// overdue reports whether it has given way to what is due for long enough.
func (x *excerpt) overdue() bool { return x != nil && time.Since(x.since) >= copiesPatience }

// answer tells the carrier what became of the excerpt.
func (cs *copies) answer(x *retention.Excerpt, what retention.Copied) {
	cs.excerpt = nil
	x.Answer <- what
}

// excerptOf is the excerpt that copies were made of.
func excerptOf(c *turn.Copies) *retention.Excerpt { return c.Owner.(*retention.Excerpt) }

// copied is what the carrier is told of copies that were made.
func copied(d turn.Copied) retention.Copied {
	return retention.Copied{Read: d.Read, Copies: d.Copies, Bytes: d.Bytes, Unfit: d.Unfit}
}

// conclude takes in what became of the copies of a turn.
func (cs *copies) conclude(t *turn.Turn) {
	for _, pt := range t.Parts {
		if pt.Copies == nil {
			continue
		}
		p := partitionOf(pt)
		p.copying = false
		tried, c := slices.Contains(t.Tried, pt), pt.Copies
		happened := tried && t.Outcome == turn.Done && t.Refused[pt] == nil
		switch carrying := (pending.Carrying{Partition: p.Partition}); {
		case tried && t.Outcome == turn.Unknown: // it starts over
		case happened, tried && cs.cfg.Guarantee == AtLeastOnce && t.Settled:
			carrying.Done(t.OwnEnds[pt])
		case tried && cs.cfg.Guarantee == AtLeastOnce && t.Err != nil:
			p.unsureSince = time.Now() // some may be appended yet
		default:
			carrying.Done(0)
		}
		if happened {
			cs.answer(excerptOf(c), copied(c.Done))
			continue
		}
		what := retention.Copied{Err: cmp.Or(t.Err, errNotNow)}
		if i := slices.IndexFunc(t.Untried, func(h turn.Untried) bool { return h.Part == pt }); i >= 0 {
			what.Err = t.Untried[i].Why
		}
		if t.CopyRefused != nil {
			what = retention.Copied{Err: t.CopyRefused, Refused: &c.List[0].From.Offset}
		}
		cs.answer(excerptOf(c), what)
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
