package processor

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// output is one record that a turn produces, and what it is counted as once it is decided.
type output struct {
	rec     *kgo.Record
	kind    outputKind
	item    *pending.Item
	part    *part
	target  *targets.Target // of a delivery
	since   int64           // ms: lateness counts from here
	refusal *topics.Refusal // of a dead letter
	offset  int64           // of the request that a dead letter is of
	cut     bool            // a dead letter that is not whole
	size    int             // topics.RecordSize
	audited                 // of a record for the audit topic
}

type outputKind int

const (
	outDelivered outputKind = iota
	outDeadLetter
	outRetry
	outResolve
	outPostponed // of a retry route: appended again, to be due after its backoff
	outForward   // a cancel of a record of another partition
	outAudit     // what has become of a request
	outCopy      // of a record that is carried
)

// appends reports whether the output goes to the partition itself that it comes from.
func (k outputKind) appends() bool {
	return k == outRetry || k == outResolve || k == outPostponed || k == outCopy
}

// follows reports whether the output is written by itself when it was not acknowledged and all else of its item was (at_least_once).
func (o *output) follows() bool { return o.kind == outAudit || o.kind == outResolve }

// records are those that the turn produces, as they are handed over.
func (r *renderer) records() iter.Seq[*kgo.Record] {
	return func(yield func(*kgo.Record) bool) {
		for i := range r.outputs {
			if !yield(r.outputs[i].rec) {
				return
			}
		}
	}
}
