package turn

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// takenAway renders nothing for a late record that another one has cancelled or replaced, unless a crash could come between the two: then a
// resolve record says what has become of it.
func (r *Renderer) takenAway(pt *Part, it *pending.Item) {
	r.auditor.takenAway(pt, it, &r.rec)
	if it.By >= pt.To.Offset {
		r.resolve(pt, it, topics.ResolveBy(pt.Mark, it.Offset, it.Key.Due, it.Key.Seq, it.By))
	}
}

// stale makes the resolve record of a copy whose record is resolved: a replay that does not read that would take the copy for it.
func stale(m topics.Mark, it *pending.Item) []kgo.RecordHeader {
	by := int64(-1)
	if it.By > 0 {
		by = it.By
	}
	return topics.ResolveBy(m, it.Offset, it.Key.Due, it.Key.Seq, by)
}

// cancel renders a cancel: nothing where it has done what it was to do.
func (r *Renderer) cancel(ctx context.Context, pt *Part, it *pending.Item) error {
	rec := &r.rec
	if it.Effect == pending.EffectForward {
		forwarded, err := r.forward(ctx, pt, it)
		if forwarded {
			r.auditor.inVain(pt, it, rec, topics.AuditForwarded)
		}
		if forwarded || err != nil {
			return err
		}
		it.Effect = pending.EffectUnknown
	}
	switch it.Effect {
	case pending.EffectTooLate:
		r.auditor.inVain(pt, it, rec, topics.AuditTooLate)
	case pending.EffectUnknown:
		r.auditor.inVain(pt, it, rec, topics.AuditUnknown)
	case pending.EffectNotHere:
		r.auditor.inVain(pt, it, rec, topics.AuditNotHere)
	}
	if it.Effect == pending.EffectCancelled || it.Effect == pending.EffectNotHere || !pt.Route.CancelsAnswered || pt.Silent(it, rec) {
		return nil
	}
	return r.deadLetter(ctx, pt, it, pt.Route.NotCancelled(rec.Headers, it.Effect == pending.EffectTooLate))
}

// FreshLook is how old what is known of the delay topic may be for a partition to be none that it has.
const FreshLook = 2 * time.Second

// forward renders a cancel for the partition that it names, or for all others if it names an id. It reports whether there are any.
func (r *Renderer) forward(ctx context.Context, pt *Part, it *pending.Item) (bool, error) {
	rec := &r.rec
	t, st, err := r.delayTopic(ctx, pt)
	if err != nil {
		return false, err
	}
	var req topics.Request
	if pt.RequestOf(&req, it, rec) != nil {
		return false, nil
	}
	byHandle := req.NamedID == nil
	// It takes what goes to this partition, and this goes to others.
	if !st.Writable() && !(byHandle && st.TakesFor(req.Handle.Partition)) {
		return false, StuckError{fmt.Sprintf("delay topic %s: %s", t.Name, st.NotReady())}
	}
	f := forwarding{r, pt, it, t.Name}
	switch known := req.Handle.Partition < st.Partitions; {
	case byHandle && known:
		f.asWritten(st, req.Handle)
		return true, nil
	case time.Since(st.Asked) > FreshLook: // partitions may have been added since
		r.Targets.Hurry(t)
		return false, ErrAsking
	case byHandle:
		return false, nil
	}
	for to := range st.Partitions {
		if to != pt.TP.Partition {
			f.bare(to, string(topics.NameOf(pt.Route.Parser(), req.NamedID)))
		}
	}
	return st.Partitions > 1, nil
}

// forwarding renders a cancel for other partitions of its topic.
type forwarding struct {
	*Renderer
	pt    *Part
	it    *pending.Item
	topic string
}

// asWritten renders it as it was written, for the partition that its handle names.
func (r forwarding) asWritten(st *targets.State, h topics.Handle) {
	rec, out := &r.rec, r.newRecord()
	out.Partition, out.Key, out.Value = h.Partition, rec.Key, rec.Value
	size := r.address(out, rec.Headers)
	if _, ok := r.fits(out, size, st); ok && !r.it.Stays {
		r.add(out, size)
		return
	}
	r.drop(out) // it does not fit with one more header
	r.bare(h.Partition, h.String())
}

// bare renders nothing but what it names.
func (r forwarding) bare(to int32, name string) {
	out := r.newRecord()
	out.Partition = to
	r.add(out, r.address(out, []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(name)}}))
}

// address gives a record its topic and the headers of a cancel that is written again, and tells its size.
func (r forwarding) address(out *kgo.Record, as []kgo.RecordHeader) int {
	pt := r.pt
	out.Topic = r.topic
	headers, buf := topics.AppendForward(r.headers, as, pt.Mark.In(out.Partition), pt.TP.Partition, r.rec.Offset, r.rec.Timestamp, r.buf)
	return sealed(r.Renderer, out, headers, buf)
}

func (r forwarding) add(out *kgo.Record, size int) {
	r.Outputs = append(r.Outputs, Output{Record: out, Kind: OutForward, Item: r.it, Part: r.pt, Size: size})
}
