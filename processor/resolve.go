package processor

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// resolved renders the resolve record of an item that needs one.
func (r *renderer) resolved(pt *part, it *pending.Item) {
	it.Dead = true
	if it.Resolve || it.Leaves() {
		r.resolve(pt, it, topics.Resolve(pt.p.mark, r.rec.Offset, it.Key.Due, it.Key.Seq))
	}
}

// resolve renders a resolve record.
func (r *renderer) resolve(pt *part, it *pending.Item, headers []kgo.RecordHeader) {
	rec := r.newRecord()
	rec.Topic, rec.Partition, rec.Headers = pt.p.tp.Topic, pt.p.tp.Partition, headers
	r.outputs = append(r.outputs, output{rec: rec, kind: outResolve, item: it, part: pt, size: topics.RecordSize(nil, nil, headers)})
	r.resolves = true
}

// renderAgain renders what was not acknowledged of an item when all else of it was (at_least_once).
func renderAgain(r *renderer, pt *part, it *pending.Item) {
	r.auditor.again(pt, it)
	for _, headers := range it.Unresolved() {
		r.resolve(pt, it, headers)
	}
}

// mayResolve is an errHeld while the delay topic refuses what is written to this partition of it: a turn with a resolve record would fail, what it writes
// elsewhere would be in vain, and the next one would do the same.
func mayResolve(r *renderer, p *partition) error {
	t := r.targets.Of([]byte(p.tp.Topic))
	st := t.State.Load()
	why := st.Against(p.tp.Partition)
	if st.Status == targets.OnTrial && !r.takes(t, st, true) {
		why = notReady(st)
	}
	if why != "" {
		return errHeld{fmt.Sprintf("delay topic %s: %s", t.Name, why)}
	}
	return nil
}
