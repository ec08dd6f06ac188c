package turn

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

// With an audit topic a turn writes what becomes of each request, in the same transaction as what that is about, or (at_least_once) when that
// has been acknowledged and before W moves. A part for which this cannot be written is not tried: an audit with holes is none.

// ShortWait is so short that the outcome of a request is all that is audited of it: one that is due within that time when it is read has no record of
// its own that it is pending.
const ShortWait = time.Second

// audited is what an output for the audit topic is about.
type audited struct {
	Event   topics.AuditEvent
	Of      *kgo.Record // where this lies; nil: nothing was written
	missing bool        // it follows, and was not acknowledged
}

// auditor renders what a turn writes into the audit topic. Its memory is used again, as the renderer's is.
type auditor struct {
	topic string // "" where nothing is audited
	at    time.Time
	of    string // the delay topic of the requests
	in    []byte // what all values have in common that are about it
	recordBlocks
	values  byteBlocks // and the keys in them
	outputs []Output
}

// openAudit makes ready to audit what a part does. It returns an error while that cannot be audited.
func (r *Renderer) openAudit(ctx context.Context, pt *Part) error {
	if r.AuditTopic == "" || len(pt.Items) == 0 {
		return nil
	}
	r.auditor.open(r.AuditTopic, pt.TP.Topic, r.Group, r.now)
	t := r.Targets.Of([]byte(r.AuditTopic))
	if st := r.lookups.await(ctx, r.Targets, t); !r.takes(t, st, true) {
		return StuckError{fmt.Sprintf("what becomes of requests cannot be written to the audit topic %s: %s", t.Name, st.NotReady())}
	}
	return nil
}

// open makes ready to audit what a group does at a time with the records of a delay topic.
func (a *auditor) open(topic, of, group string, at time.Time) {
	if a.topic == topic && a.of == of && a.at.Equal(at) {
		return
	}
	a.topic, a.of, a.at = topic, of, at
	a.in = topics.AppendAuditIn(a.in[:0], of, group, at.UnixMilli())
}

func (a *auditor) off() bool { return a.topic == "" }

func (a *auditor) reset() {
	a.back(0)
	a.values.reset()
}

// back takes back all outputs but the first n.
func (a *auditor) back(n int) {
	a.recordBlocks.back(n)
	a.outputs = a.outputs[:n]
}

// render renders a record for the audit topic. It says where another one lies, if it is of one.
func (a *auditor) render(pt *Part, it *pending.Item, says topics.Audit, of *kgo.Record) {
	says.In = a.in
	room := a.values.room(len(a.in) + usualValue)
	value, key := says.Append(room)
	end := len(value)
	if of != nil {
		value = append(value, place[:]...)
	}
	if cap(value) == cap(room) {
		a.values.keep(len(value))
	} else { // it is somewhere else, and the key maybe still where the next one will be
		key = bytes.Clone(key)
	}
	a.add(pt, it, says.Event, key, value[:end:len(value)], of)
}

// usualValue is more than what the value of a record takes that has no refusal and no id, beside what it has in common with others.
const usualValue = 512

// place is room for where a record lies, which is not known yet.
var place [topics.AuditPlaceBytes]byte

func (a *auditor) add(pt *Part, it *pending.Item, event topics.AuditEvent, key, value []byte, of *kgo.Record) {
	rec := a.next()
	rec.Topic, rec.Partition, rec.Timestamp, rec.Key, rec.Value = a.topic, producer.AnyPartition, a.at, key, value
	a.outputs = append(a.outputs, Output{Record: rec, Kind: OutAudit, Item: it, Part: pt, Size: topics.RecordSize(key, value[:cap(value)], nil), audited: audited{Event: event, Of: of}})
}

// handle is that of a request of a partition, as it was first asked for.
func (pt *Part) handle(offset, due int64) topics.Handle {
	return topics.Handle{Partition: pt.TP.Partition, Offset: offset, Due: pt.AskedFor(offset, due)}
}

// handleBy is that of the request which a record stands for.
func (pt *Part) handleBy(rec *pending.Record, first topics.Origin) topics.Handle {
	return topics.Handle{Partition: pt.TP.Partition, Offset: first.Offset, Due: pt.AskedBy(rec, first)}
}

// by is where the record of an item lies.
func (pt *Part) by(offset int64) topics.Place {
	return topics.Place{Partition: pt.TP.Partition, Offset: offset}
}

// noted audits that an item was accepted, and what it has taken away that was pending.
func (a *auditor) noted(pt *Part, it *pending.Item) {
	if a.off() {
		return
	}
	if it.Effect.Pending() && it.Effect != pending.EffectCarried && it.Key.Due-a.at.UnixMilli() >= ShortWait.Milliseconds() {
		a.render(pt, it, topics.Audit{Event: topics.AuditAccepted, ID: it.ID(), Of: pt.handle(it.Offset, it.Key.Due)}, nil)
	}
	if key, id := it.Took(); key != nil {
		event := topics.AuditReplaced
		if it.Effect == pending.EffectCancelled {
			event = topics.AuditCancelled
		}
		a.render(pt, it, topics.Audit{Event: event, ID: id, Of: topics.Handle{Partition: pt.TP.Partition, Offset: key.Seq, Due: pt.TookAsked(it)}, By: pt.by(it.Offset), HasBy: true}, nil)
	}
}

// takenAway audits that a late record was cancelled or replaced.
func (a *auditor) takenAway(pt *Part, it *pending.Item, rec *pending.Record) {
	if a.off() {
		return
	}
	first := topics.Origin{Offset: it.Offset, Due: it.Key.Due}
	var req topics.Request
	if pt.RequestOf(&req, it, rec) == nil {
		first = req.First(rec.Offset, rec.Timestamp)
	}
	event := topics.AuditCancelled
	if it.Replaced {
		event = topics.AuditReplaced
	}
	a.render(pt, it, topics.Audit{Event: event, ID: it.ID(), Of: pt.handleBy(rec, first), By: pt.by(it.By), HasBy: true}, nil)
}

// inVain audits a cancel that has taken nothing away, or was passed on. The record is about the cancel, and not about what it names: what
// has become of that another record says.
func (a *auditor) inVain(pt *Part, it *pending.Item, rec *pending.Record, event topics.AuditEvent) {
	if a.off() {
		return
	}
	var req topics.Request
	if pt.RequestOf(&req, it, rec) == nil {
		a.render(pt, it, topics.Audit{Event: event, Of: req.Handle, ID: req.NamedID, By: pt.by(it.Offset), HasBy: true, Vain: true}, nil)
	}
}

// duplicate audits that a request was left out.
func (a *auditor) duplicate(pt *Part, it *pending.Item) {
	if !a.off() {
		a.render(pt, it, topics.Audit{Event: topics.AuditDuplicate, ID: it.ID(), Of: pt.handle(it.Offset, it.Key.Due)}, nil)
	}
}

// delivered audits where a record was delivered to.
func (a *auditor) delivered(pt *Part, it *pending.Item, rec *pending.Record, first topics.Origin, out *kgo.Record) {
	if !a.off() {
		a.render(pt, it, topics.Audit{Event: topics.AuditDelivered, ID: it.ID(), Of: pt.handleBy(rec, first), Target: out.Topic}, out)
	}
}

// deadLettered audits why a request was dead-lettered. What became of a cancel is audited with the request that it names.
func (a *auditor) deadLettered(pt *Part, it *pending.Item, rec *pending.Record, first topics.Origin, refusal *topics.Refusal, out *kgo.Record) {
	if a.off() || it.Effect != pending.EffectNone {
		return
	}
	if first.Due == 0 { // it was never tried
		first.Due = pt.DueOf(it)
	}
	h := topics.Handle{Partition: pt.TP.Partition, Offset: first.Offset}
	if first.Due > 0 {
		h = pt.handleBy(rec, first)
	}
	a.render(pt, it, topics.Audit{Event: topics.AuditOf(refusal), ID: it.ID(), Of: h, Refusal: refusal, Target: out.Topic}, out)
}

// retried audits when a record that was appended to its delay topic is due next.
func (a *auditor) retried(pt *Part, it *pending.Item, rec *pending.Record, as topics.Retry) {
	if !a.off() {
		a.render(pt, it, topics.Audit{Event: topics.AuditRetried, ID: it.ID(), Of: pt.handleBy(rec, as.Origin), NextDue: as.Due, Attempt: as.Attempt}, nil)
	}
}

// again renders what was not acknowledged of the audit of an item when all else was (at_least_once).
func (a *auditor) again(pt *Part, it *pending.Item) {
	for _, u := range it.Unaudited() {
		a.add(pt, it, u.Event, u.Key, u.Value, nil)
	}
}

// unaudited keeps what an output has for the audit topic, to be written when all else of its item has been.
func (o *Output) unaudited() pending.Unaudited {
	u := pending.Unaudited{Event: o.Event, Key: bytes.Clone(o.Record.Key), Value: bytes.Clone(o.Record.Value)}
	if o.Of != nil {
		u.Value = topics.AppendPlace(u.Value, topics.Place{Partition: o.Of.Partition, Offset: o.Of.Offset})
	}
	return u
}
