package turn

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// resolved renders the resolve record of an item that needs one.
func (r *Renderer) resolved(pt *Part, it *pending.Item) {
	it.Dead = true
	if it.Resolve || it.Leaves() {
		r.resolve(pt, it, topics.Resolve(pt.Mark, r.rec.Offset, it.Key.Due, it.Key.Seq))
	}
}

// resolve renders a resolve record.
func (r *Renderer) resolve(pt *Part, it *pending.Item, headers []kgo.RecordHeader) {
	rec := r.newRecord()
	rec.Topic, rec.Partition, rec.Headers = pt.TP.Topic, pt.TP.Partition, headers
	r.Outputs = append(r.Outputs, Output{Record: rec, Kind: OutResolve, Item: it, Part: pt, Size: topics.RecordSize(nil, nil, headers)})
	r.resolves = true
}

// renderAgain renders what was not acknowledged of an item when all else of it was (at_least_once).
func renderAgain(r *Renderer, pt *Part, it *pending.Item) {
	r.auditor.again(pt, it)
	for _, headers := range it.Unresolved() {
		r.resolve(pt, it, headers)
	}
}

// mayResolve is a StuckError while the delay topic refuses what is written to this partition of it: a turn with a resolve record would fail, what it writes
// elsewhere would be in vain, and the next one would do the same.
func mayResolve(r *Renderer, pt *Part) error {
	t := r.Targets.Of([]byte(pt.TP.Topic))
	st := t.State.Load()
	why := st.Against(pt.TP.Partition)
	if st.Status == targets.OnTrial && !r.takes(t, st, true) {
		why = st.NotReady()
	}
	if why != "" {
		return StuckError{fmt.Sprintf("delay topic %s: %s", t.Name, why)}
	}
	return nil
}
