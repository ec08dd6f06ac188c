package processor

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/topics"
)

// takenAway renders nothing for a late record that another one has cancelled or replaced, unless a crash could come between the two: then a
// resolve record says what has become of it.
func (r *renderer) takenAway(pt *part, it *pending.Item) {
	r.tells.takenAway(pt, it, &r.rec)
	if it.By >= pt.To.Offset {
		r.resolve(pt, it, topics.ResolveBy(pt.p.mark, it.Offset, it.Key.Due, it.Key.Seq, it.By))
	}
}

// cancel renders a cancel: nothing where it has done what it was to do.
func (r *renderer) cancel(ctx context.Context, pt *part, it *pending.Item) error {
	p, rec := pt.p, &r.rec
	if it.Effect == pending.EffectForward {
		forwarded, err := r.forward(ctx, pt, it)
		if forwarded {
			r.tells.named(pt, it, rec, topics.AuditForwarded)
		}
		if forwarded || err != nil {
			return err
		}
		it.Effect = pending.EffectUnknown
	}
	switch it.Effect {
	case pending.EffectTooLate:
		r.tells.named(pt, it, rec, topics.AuditTooLate)
	case pending.EffectUnknown:
		r.tells.named(pt, it, rec, topics.AuditUnknown)
	}
	if it.Effect == pending.EffectCancelled || !p.route.CancelsAnswered {
		return nil
	}
	return r.deadLetter(ctx, pt, it, topics.NotCancelled(rec.Headers, it.Effect == pending.EffectTooLate))
}

// freshLook is how old what is known of the delay topic may be for a partition to be none that it has.
const freshLook = 2 * time.Second

// forward renders a cancel for the partition that it names. It reports whether there is one.
func (r *renderer) forward(ctx context.Context, pt *part, it *pending.Item) (bool, error) {
	p, rec := pt.p, &r.rec
	t, st, err := r.delayTopic(ctx, p)
	if err != nil {
		return false, err
	}
	req, err := p.Asks(it, rec)
	switch {
	case err != nil:
		return false, nil
	case req.Handle.Partition >= st.Partitions && time.Since(st.Asked) > freshLook: // it may have been added since
		r.targets.Hurry(t)
		return false, errAsking
	case req.Handle.Partition >= st.Partitions:
		return false, nil
	}
	out := r.newRecord()
	out.Topic, out.Partition, out.Key, out.Value = t.Name, req.Handle.Partition, rec.Key, rec.Value
	r.forwarded(pt, out, rec.Headers, req.Handle)
	if size := topics.RecordSize(out.Key, out.Value, out.Headers); !it.Stays {
		if _, ok := r.fits(out, size, st); ok {
			r.outputs = append(r.outputs, output{rec: out, kind: outForward, item: it, part: pt, size: size})
			return true, nil
		}
	}
	// It does not fit with one more header. What names the other record is enough.
	out.Key, out.Value = nil, nil
	r.forwarded(pt, out, []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(req.Handle.String())}}, req.Handle)
	r.outputs = append(r.outputs, output{rec: out, kind: outForward, item: it, part: pt, size: topics.RecordSize(nil, nil, out.Headers)})
	return true, nil
}

// forwarded gives a record the headers of a cancel that is written again.
func (r *renderer) forwarded(pt *part, out *kgo.Record, as []kgo.RecordHeader, to topics.Handle) {
	p, at := pt.p, len(r.headers)
	r.headers, r.buf = topics.AppendForward(r.headers, as, p.mark.In(to.Partition), p.tp.Partition, r.rec.Offset, r.buf)
	out.Headers = r.headers[at:len(r.headers):len(r.headers)]
}
