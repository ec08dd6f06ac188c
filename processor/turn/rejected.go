package turn

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/topics"
)

// isOfRecord reports a refusal for what a record is.
func isOfRecord(err error) bool {
	return kafka.IsAny(err, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.PolicyViolation, kerr.MessageTooLarge, kerr.RecordListTooLarge,
		kerr.UnsupportedForMessageFormat)
}

// Rejection is that records of a turn were refused for what one of them is.
type Rejection struct {
	Err   error
	Items []*pending.Item
	Alone *Output // what was refused, if nothing of another record went along; nil: any of them may be to blame
}

// noteRejected notes what was refused for what a record is. Its target is not to blame for that,
// unless it is a record that has nowhere else to go.
func (t *Turn) noteRejected(w *acks) {
	if len(w.refused) == 0 {
		return
	}
	for topic, err := range w.failed {
		if isOfRecord(err) { // it may take less than it did (max.message.bytes), or not what it did (cleanup.policy): then what else it refuses is better known than searched for
			t.Targets.Suspect(topic)
		}
	}
	if err := w.failed[t.AuditTopic]; err != nil { // no record is to blame for what is told of it
		t.Blamed[t.AuditTopic] = err
		return
	}
	outs := t.Renderer.Outputs
	var r Rejection
	var first Output
	refused := make(map[*kgo.Record]bool, len(w.refused))
	for _, rec := range w.refused {
		refused[rec] = true
	}
	alone := true
	for i := range outs {
		switch outs[i].Kind {
		case OutAudit:
			continue
		case OutCopy: // what it is copied from stays where it is
			if refused[outs[i].Record] {
				t.CopyRefused = w.failed[outs[i].Record.Topic]
				delete(t.Blamed, outs[i].Record.Topic)
			}
			continue
		}
		alone = alone && outs[i].Item == outs[0].Item
		if refused[outs[i].Record] {
			if len(r.Items) == 0 {
				first, r.Err = outs[i], w.failed[outs[i].Record.Topic]
			}
			r.Items = append(r.Items, outs[i].Item)
		}
	}
	if len(r.Items) == 0 {
		return
	}
	if alone {
		if !first.another(r.Err) {
			return
		}
		r.Alone = &first
	}
	for _, rec := range w.refused {
		delete(t.Blamed, rec.Topic)
	}
	t.Rejected = &r
}

// another reports whether something else can be written for a record when this was refused by itself.
func (o *Output) another(why error) bool {
	switch o.Kind {
	case OutDelivered:
		return true
	case OutRetry, OutPostponed:
		return isTooLarge(why) // it waits where it is, or is dead-lettered
	case OutForward:
		return isTooLarge(why) && !o.Item.Stays // it is made smaller
	case OutDeadLetter:
		return isTooLarge(why) && o.Size > leastDeadLetter
	}
	return false
}

// leastDeadLetter is the size from which on a dead letter is not cut any further: then its topic is
// the one that is in trouble.
const leastDeadLetter = 4 << 10

func isTooLarge(err error) bool {
	return kafka.IsAny(err, kerr.MessageTooLarge, kerr.RecordListTooLarge)
}

// refusalOf is the refusal of a record that is to blame.
func refusalOf(target []byte, err error) *topics.Refusal {
	code := topics.CodeRejected
	if isTooLarge(err) {
		code = topics.CodeTooLarge
	}
	return produceRefusal(code, "the topic %s refused it: %v", target, err)
}
