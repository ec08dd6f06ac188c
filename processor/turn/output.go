package turn

import (
	"iter"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// Output is one record that a turn produces, and what it is counted as once it is decided.
type Output struct {
	Record  *kgo.Record
	Kind    Kind
	Item    *pending.Item
	Part    *Part
	Target  *targets.Target // of a delivery
	Since   int64           // ms: lateness counts from here
	Refusal *topics.Refusal // of a dead letter
	Offset  int64           // of the request that a dead letter is of
	Cut     bool            // a dead letter that is not whole
	Size    int             // topics.RecordSize
	audited                 // of a record for the audit topic
}

// Kind is what an output is.
type Kind int

const (
	OutDelivered  Kind = iota // to its target
	OutDeadLetter             // with why
	OutRetry                  // appended again, since its target is in trouble
	OutResolve                // says that a record of the delay topic is resolved
	OutPostponed              // of a retry route: appended again, to be due after its backoff
	OutForward                // a cancel of a record of another partition
	OutAudit                  // what has become of a request
	OutCopy                   // of a record that is carried
)

// appends reports whether the output goes to the partition itself that it comes from.
func (k Kind) appends() bool {
	return k == OutRetry || k == OutResolve || k == OutPostponed || k == OutCopy
}

// follows reports whether the output is written by itself when it was not acknowledged and all else of its item was (at_least_once).
func (o *Output) follows() bool { return o.Kind == OutAudit || o.Kind == OutResolve }

// topicsOf are those that outputs go to.
func topicsOf(outs []Output) []string {
	topics := map[string]bool{}
	for i := range outs {
		if topic := outs[i].Record.Topic; i == 0 || topic != outs[i-1].Record.Topic {
			topics[topic] = true
		}
	}
	return slices.Collect(maps.Keys(topics))
}

// records are those that the turn produces, as they are handed over.
func (r *Renderer) records() iter.Seq[*kgo.Record] {
	return func(yield func(*kgo.Record) bool) {
		for i := range r.Outputs {
			if !yield(r.Outputs[i].Record) {
				return
			}
		}
	}
}
