package processor

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/topics"
)

// With an audit topic a turn writes what becomes of each request, in the same transaction as what it tells of, or (at_least_once) when that
// has been acknowledged and before W moves. A part for which this cannot be written is not tried: an audit with holes is none.

// shortWait is so short that the outcome of a request is all that is told of it: one that is due within that time when it is read has no record of
// its own that it is pending.
const shortWait = time.Second

// told is what an output for the audit topic tells.
type told struct {
	event   topics.AuditEvent
	of      *kgo.Record // where this lies; nil: nothing was written
	missing bool        // it was not acknowledged
}

// teller renders what a turn tells the audit topic. Its memory is used again, as the renderer's is.
type teller struct {
	topic string // "" where nothing is told
	at    time.Time
	of    string // the delay topic that is told of
	in    []byte // what all values have in common that tell of it
	recordBlocks
	values  byteBlocks // and the keys in them
	outputs []output
}

// audited makes ready to tell what a part does. It returns an error while that cannot be told.
func (r *renderer) audited(ctx context.Context, pt *part) error {
	if r.cfg.AuditTopic == "" || len(pt.Items) == 0 {
		return nil
	}
	r.tells.open(r.cfg.AuditTopic, pt.p.tp.Topic, r.cfg.Group, r.now)
	t := r.targets.Of([]byte(r.cfg.AuditTopic))
	if st := r.targets.Await(ctx, t, lookupWait); !r.takes(t, st, true) {
		return errHeld{fmt.Sprintf("what becomes of requests cannot be written to the audit topic %s: %s", t.Name, notReady(st))}
	}
	return nil
}

// open makes ready to tell what a group does at a time with the records of a delay topic.
func (t *teller) open(topic, of, group string, at time.Time) {
	if t.topic == topic && t.of == of && t.at.Equal(at) {
		return
	}
	t.topic, t.of, t.at = topic, of, at
	t.in = topics.AppendAuditIn(t.in[:0], of, group, at.UnixMilli())
}

func (t *teller) off() bool { return t.topic == "" }

func (t *teller) reset() {
	t.back(0)
	t.values.reset()
}

// back takes back all outputs but the first n.
func (t *teller) back(n int) {
	t.recordBlocks.back(n)
	t.outputs = t.outputs[:n]
}

// tell renders a record for the audit topic. It tells where another one lies, if it is of one.
func (t *teller) tell(pt *part, it *pending.Item, a topics.Audit, of *kgo.Record) {
	a.In = t.in
	room := t.values.room(len(t.in) + usualValue)
	value, key := a.Append(room)
	end := len(value)
	if of != nil {
		value = append(value, place[:]...)
	}
	if cap(value) == cap(room) { // else it is somewhere else
		t.values.keep(len(value))
	}
	t.add(pt, it, a.Event, key, value[:end:len(value)], of)
}

// usualValue is more than what the value of a record takes that tells of no refusal and of no id, beside what it has in common with others.
const usualValue = 512

// place is room for where a record lies, which is not known yet.
var place [topics.AuditPlaceBytes]byte

func (t *teller) add(pt *part, it *pending.Item, event topics.AuditEvent, key, value []byte, of *kgo.Record) {
	rec := t.next()
	rec.Topic, rec.Partition, rec.Timestamp, rec.Key, rec.Value = t.topic, producer.AnyPartition, t.at, key, value
	t.outputs = append(t.outputs, output{rec: rec, kind: outAudit, item: it, part: pt, size: topics.RecordSize(key, value[:cap(value)], nil), told: told{event: event, of: of}})
}

// handle is that of a request of a partition, as it was first asked for.
func (pt *part) handle(first topics.Origin) topics.Handle {
	return topics.Handle{Partition: pt.p.tp.Partition, Offset: first.Offset, Due: pt.AskedFor(first.Offset, first.Due)}
}

// by is where the record of an item lies.
func (pt *part) by(offset int64) topics.Place {
	return topics.Place{Partition: pt.p.tp.Partition, Offset: offset}
}

// noted tells that an item was accepted, and what it has taken away that was pending.
func (t *teller) noted(pt *part, it *pending.Item) {
	if t.off() {
		return
	}
	if it.Effect.Pending() && it.Key.Due-t.at.UnixMilli() >= shortWait.Milliseconds() {
		t.tell(pt, it, topics.Audit{Event: topics.AuditAccepted, ID: it.ID(), Of: pt.handle(topics.Origin{Offset: it.Offset, Due: it.Key.Due})}, nil)
	}
	if it.Took != nil {
		event := topics.AuditReplaced
		if it.Effect == pending.EffectCancelled {
			event = topics.AuditCancelled
		}
		t.tell(pt, it, topics.Audit{Event: event, ID: it.TookID, Of: pt.handle(topics.Origin{Offset: it.Took.Seq, Due: it.Took.Due}), By: pt.by(it.Offset), HasBy: true}, nil)
	}
}

// takenAway tells that a late record was cancelled or replaced.
func (t *teller) takenAway(pt *part, it *pending.Item, rec *pending.Record) {
	if t.off() {
		return
	}
	first := topics.Origin{Offset: it.Offset, Due: it.Key.Due}
	if req, err := pt.p.Asks(it, rec); err == nil {
		first = req.First(rec.Offset, rec.Timestamp)
	}
	event := topics.AuditCancelled
	if it.Replaced {
		event = topics.AuditReplaced
	}
	t.tell(pt, it, topics.Audit{Event: event, ID: it.ID(), Of: pt.handle(first), By: pt.by(it.By), HasBy: true}, nil)
}

// inVain tells of a cancel that has taken nothing away, or was passed on. It is about that, and not about what it names, of which another
// record tells what has become.
func (t *teller) inVain(pt *part, it *pending.Item, rec *pending.Record, event topics.AuditEvent) {
	if t.off() {
		return
	}
	if req, err := pt.p.Asks(it, rec); err == nil {
		t.tell(pt, it, topics.Audit{Event: event, Of: req.Handle, ID: req.Named, By: pt.by(it.Offset), HasBy: true, Vain: true}, nil)
	}
}

// duplicate tells that a request was left out.
func (t *teller) duplicate(pt *part, it *pending.Item) {
	if !t.off() {
		t.tell(pt, it, topics.Audit{Event: topics.AuditDuplicate, ID: it.ID(), Of: pt.handle(topics.Origin{Offset: it.Offset, Due: it.Key.Due})}, nil)
	}
}

// delivered tells where a record was delivered to.
func (t *teller) delivered(pt *part, it *pending.Item, first topics.Origin, out *kgo.Record) {
	if !t.off() {
		t.tell(pt, it, topics.Audit{Event: topics.AuditDelivered, ID: it.ID(), Of: pt.handle(first), Target: out.Topic}, out)
	}
}

// deadLettered tells why a request was dead-lettered. What became of a cancel is told of the request that it names.
func (t *teller) deadLettered(pt *part, it *pending.Item, rec *pending.Record, first topics.Origin, refusal *topics.Refusal, out *kgo.Record) {
	if t.off() || it.Effect != pending.EffectNone {
		return
	}
	if first.Due == 0 { // it was never tried
		first.Due = pt.DueOf(it, rec)
	}
	h := topics.Handle{Partition: pt.p.tp.Partition, Offset: first.Offset}
	if first.Due > 0 {
		h = pt.handle(first)
	}
	t.tell(pt, it, topics.Audit{Event: topics.AuditOf(refusal), ID: it.ID(), Of: h, Refusal: refusal, Target: out.Topic}, out)
}

// retried tells when a record that was appended to its delay topic is due next.
func (t *teller) retried(pt *part, it *pending.Item, as topics.Retry) {
	if !t.off() {
		t.tell(pt, it, topics.Audit{Event: topics.AuditRetried, ID: it.ID(), Of: pt.handle(as.Origin), NextDue: as.Due, Attempt: as.Attempt}, nil)
	}
}

// again renders what was not acknowledged of what is told of an item when all else was (at_least_once).
func (t *teller) again(pt *part, it *pending.Item) {
	for _, u := range it.Untold {
		t.add(pt, it, u.Event, u.Key, u.Value, nil)
	}
}

// untold keeps what an output tells, to be written when all else of its item has been.
func (o *output) untold() pending.Untold {
	u := pending.Untold{Event: o.event, Key: bytes.Clone(o.rec.Key), Value: bytes.Clone(o.rec.Value)}
	if o.of != nil {
		u.Value = topics.AppendPlace(u.Value, topics.Place{Partition: o.of.Partition, Offset: o.of.Offset})
	}
	return u
}
