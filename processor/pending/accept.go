package pending

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Accepted tells what a record has turned out to be that was taken in. The zero value is a record that
// is nothing new: read again, or not a request.
type Accepted struct {
	New      bool            // a request that was accepted for the first time
	Late     bool            // its key is at or below W
	Overdue  bool            // it was due before it was written
	Asks     bool            // a producer asks for a delay, and has not asked before
	Delay    time.Duration   // from when it was written until it is due; not below 0
	Unparsed *topics.Refusal // its headers ask for nothing that can be done
	Missed   string          // the group that has it pending as this one has not: what it stands for was gone when this one began, or is given up
	Target   []byte          // where it is to go when it is due; it belongs to the record
}

// Expect tells what is to be accepted before the next Sync: what the store has to be asked for each of it is asked at once, which takes a third of the time.
func (p *Partition) Expect(rs []*kgo.Record) error {
	if len(rs) == 0 || rs[len(rs)-1].Offset < p.accepted || p.Ordered() || p.undecidable() {
		return nil // a replay asks nothing
	}
	return p.lookUp(topics.LikelyIDs(p.parsers.at(rs[0].Offset), rs), len(rs))
}

// Accept takes in one record of the delay topic. From then on the record is pending, or on the
// list of what is resolved when O passes it, or already resolved. What it is accepted for may be
// told even where there is an error.
func (p *Partition) Accept(r *kgo.Record, now int64) (Accepted, error) {
	if r.Offset < p.position {
		return Accepted{}, nil // read twice: the reader was set back
	}
	if !p.live {
		p.skipped.read(r.Offset, p.ledger)
	}
	a, err := p.admit(r, now)
	if err == nil {
		p.Pass(r.Offset+1, r.LeaderEpoch)
	}
	return a, err
}

// admit does what a record asks for. The position moves behind it when all of that is in the open
// batch: a commit of the store on the way must not say that it was taken in.
func (p *Partition) admit(r *kgo.Record, now int64) (a Accepted, _ error) {
	if r.Attrs.IsControl() {
		return a, nil
	}
	replay, written := r.Offset < p.accepted, p.order.written(r, now)
	req := &p.request
	if headers, c, is := p.Mark.Copied(r.Headers, r.Offset); is {
		of := &kgo.Record{Offset: r.Offset, Timestamp: time.UnixMilli(c.Timestamp), Key: r.Key, Value: r.Value, Headers: headers}
		if q, is := p.order.(*queue); is {
			q.copied(of, c)
			return a, nil
		}
		if c.Seq < p.parsers[0].from && !p.lateUpTo.Less(state.Key{Due: c.Due, Seq: c.Seq}) {
			return a, nil // it is resolved, has left nothing, and the checkpoint does not name its parser any more
		}
		err := p.parsers.at(c.Seq).Again(req, headers, topics.Stamp{Millis: c.Timestamp, Key: r.Key, NoValue: r.Value == nil}, c.Due, c.Seq, &p.Mark)
		if err != nil || req.Kind != topics.KindRequest { // it was made up, or given up and is read by another parser
			*req = topics.Request{} // so it is dead-lettered when it is due
		}
		return a, copying{&p.keyed}.take(of, c, req, r.Timestamp.UnixMilli())
	}
	err := p.parsers.at(r.Offset).ParseInto(req, r.Headers, written, r.Offset, &p.Mark)
	if err != nil {
		if replay {
			return a, nil // resolved when O passed it
		}
		a.New, a.Unparsed = true, err.(*topics.Refusal)
		p.order.refuse(r, a.Unparsed)
		return a, nil
	}
	if req.Here {
		req.Handle.Due += p.parsers.at(req.Handle.Offset).Jitter(p.Mark, req.Handle.Offset) // a handle has what was asked for
	}
	switch req.Kind {
	case topics.KindOfAnotherGroup:
		if group, seq, is := p.Mark.OfAnotherGroup(r.Headers); is && seq < p.lost.below {
			a.Missed = group
		}
		return a, nil
	case topics.KindResolve:
		return a, p.order.resolve(state.Key{Due: req.ResolveDue, Seq: req.ResolveSeq}, req.ResolveBy)
	case topics.KindCancel:
		return a, p.order.cancel(r, req)
	}
	a, err = p.order.admit(r, req, now)
	a.New = !replay
	if a.Asks = a.New && req.Attempt == 0 && !req.AtOnce; a.Asks {
		a.Overdue = req.Due < r.Timestamp.UnixMilli()
		a.Delay = millis(req.Due - written.Millis)
	}
	return a, err
}

// longestDelay is half of what a time.Duration holds, in ms, so that the sum of two does not overflow. That is 146 years; a record may be due later where
// max_delay does not bound it.
const longestDelay = int64(math.MaxInt64 / 2 / time.Millisecond)

// millis is so many ms, but no less than none and no more than longestDelay.
func millis(n int64) time.Duration {
	return time.Duration(min(max(n, 0), longestDelay)) * time.Millisecond
}

// RequestOf reads a record again that is to be resolved, into q. The log decides what a record means.
func (p *Partition) RequestOf(q *topics.Request, it *Item, r *Record) error {
	return p.parsers.at(r.Offset).Again(q, r.Headers, topics.Stamp{Key: r.Key, NoValue: r.Value == nil}, it.Key.Due, r.Offset, &p.Mark)
}
