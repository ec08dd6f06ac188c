package processor

import (
	"context"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/topics"
)

// takenAway renders nothing for a late record that another one has cancelled or replaced, unless a crash could come between the two: then a
// resolve record says what has become of it.
func (r *renderer) takenAway(pt *part, it *pending.Item) {
	if it.By >= pt.To.Offset {
		r.resolve(pt, it, topics.ResolveBy(pt.p.mark, it.Offset, it.Key.Due, it.Key.Seq, it.By))
	}
}

// cancel renders a cancel: nothing where it has done what it was to do.
func (r *renderer) cancel(ctx context.Context, pt *part, it *pending.Item) error {
	p, rec := pt.p, &r.rec
	if it.Effect == pending.EffectForward {
		forwarded, err := r.forward(ctx, pt, it)
		if forwarded || err != nil {
			return err
		}
		it.Effect = pending.EffectUnknown
	}
	if it.Effect == pending.EffectCancelled || !p.route.CancelsAnswered {
		return nil
	}
	refusal := topics.NotCancelled(it.Effect == pending.EffectTooLate)
	for _, h := range rec.Headers {
		if h.Key == topics.HeaderCancel {
			refusal.Value = h.Value[:min(len(h.Value), 64)]
		}
	}
	return r.deadLetter(ctx, pt, it, refusal)
}

// forward renders a cancel for the partition that it names. It reports whether there is one.
func (r *renderer) forward(ctx context.Context, pt *part, it *pending.Item) (bool, error) {
	p, rec := pt.p, &r.rec
	t, st, err := r.delayTopic(ctx, p)
	if err != nil {
		return false, err
	}
	req, err := p.Asks(it, rec)
	if err != nil || req.Handle.Partition >= st.Partitions {
		return false, nil
	}
	out := r.newRecord()
	out.Topic, out.Partition, out.Key, out.Value = t.Name, req.Handle.Partition, rec.Key, rec.Value
	at := len(r.headers)
	r.headers, r.buf = topics.AppendForward(r.headers, rec.Headers, p.mark.In(req.Handle.Partition), p.tp.Partition, rec.Offset, r.buf)
	out.Headers = r.headers[at:len(r.headers):len(r.headers)]
	size := topics.RecordSize(out.Key, out.Value, out.Headers)
	if _, ok := r.fits(out, size, st); !ok {
		// What else the record holds is of no use to the one that it names.
		out.Key, out.Value = nil, nil
		for i := range out.Headers[:len(out.Headers)-1] {
			if h := &out.Headers[i]; h.Key != topics.HeaderCancel {
				h.Value = nil
			}
		}
		size = topics.RecordSize(nil, nil, out.Headers)
	}
	r.outputs = append(r.outputs, output{rec: out, kind: outForward, item: it, part: pt, size: size})
	return true, nil
}
