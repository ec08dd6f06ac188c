package turn

import (
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
)

// acks collects the promises of one turn's records.
type acks struct {
	mu      sync.Mutex
	left    int
	acked   []*kgo.Record
	failed  map[string]error // by topic: the first error that was not a consequence of another
	refused []*kgo.Record    // for what one of them is
	stage   int              // what waits for others was sent up to this one (Turn.stage)
	broke   chan struct{}    // closed at the first failure
	done    chan struct{}    // closed when nothing is left
}

func (w *acks) promise(r *kgo.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.acked = append(w.acked, r)
	} else {
		if w.failed == nil {
			w.failed = map[string]error{}
			close(w.broke)
		}
		if old := w.failed[r.Topic]; old == nil || kafka.IsShutdown(old) {
			w.failed[r.Topic] = err
		}
		if isOfRecord(err) {
			w.refused = append(w.refused, r)
		}
	}
	if w.left--; w.left == 0 {
		close(w.done)
	}
}

// count is how many records were acknowledged, and how many are not answered.
func (w *acks) count() (acked, left int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked), w.left
}

// sends reports whether all before a stage were acknowledged, so that it is sent: then its records are completed. Else nothing from there
// on is waited for any more.
func (w *acks) sends(stage int, stages []rounds) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) == 0 {
		w.stage = stage
		for _, round := range stages[stage] {
			for _, f := range round {
				f.complete()
			}
		}
		return true
	}
	for _, unsent := range stages[stage:] {
		w.left -= unsent.len()
	}
	if w.left == 0 {
		close(w.done)
	}
	return false
}

// failure says what went wrong so far, and notes who is to blame: targets that refused, or did
// not answer. For an error of the producer itself no target is to blame.
func (t *Turn) failure(w *acks) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 && len(w.failed) == 0 {
		return nil
	}
	t.Blamed, t.Settled = map[string]error{}, w.left == 0
	var first error
	for topic, err := range w.failed {
		t.Settled = t.Settled && isOfRecord(err)
		if kafka.IsTargets(err) {
			t.Blamed[topic] = err
		}
		if first == nil || kafka.IsShutdown(first) {
			first = fmt.Errorf("produce to %s: %w", topic, err)
		}
	}
	acked := make(map[*kgo.Record]bool, len(w.acked))
	for _, r := range w.acked {
		acked[r] = true
	}
	t.Acked = float64(len(w.acked)) / float64(len(t.Renderer.Outputs))
	again := make(map[*pending.Item]bool)
	for i := range t.Renderer.Outputs {
		o := &t.Renderer.Outputs[i]
		if acked[o.Record] {
			continue
		}
		if o.missing = o.follows(); !o.missing {
			again[o.Item] = true
		}
		if t.stage(o) <= w.stage && w.failed[o.Record.Topic] == nil && first == nil && !t.Quota.Recently(t.TurnTimeout) {
			t.Blamed[o.Record.Topic] = kafka.ErrUnanswered
		}
	}
	t.noteRejected(w)
	if t.AtLeastOnce {
		// An item may have several outputs, to topics that fare differently.
		for i := range t.Renderer.Outputs {
			o := &t.Renderer.Outputs[i]
			if o.Item.Acked = !again[o.Item]; o.Item.Unaudited() != nil || o.Item.Unresolved() != nil {
				o.Item.Extra().Unaudited, o.Item.Extra().Unresolved = nil, nil
			}
		}
		for i := range t.Renderer.Outputs {
			o := &t.Renderer.Outputs[i]
			if !o.missing || !o.Item.Acked {
				continue
			}
			if x := o.Item.Extra(); o.Kind == OutResolve {
				x.Unresolved = append(x.Unresolved, o.Record.Headers)
			} else {
				x.Unaudited = append(x.Unaudited, o.unaudited())
			}
		}
	}
	return first
}

// appended notes where records of ours have come to lie. All outputs are acknowledged.
func (t *Turn) appended() {
	for i := range t.Renderer.Outputs {
		if o := &t.Renderer.Outputs[i]; o.Kind.appends() {
			t.OwnEnds[o.Part] = max(t.OwnEnds[o.Part], o.Record.Offset+1)
		} else if o.Kind == OutForward {
			to := kafka.TopicPartition{Topic: o.Record.Topic, Partition: o.Record.Partition}
			if t.PassedOn == nil {
				t.PassedOn = map[kafka.TopicPartition]int64{}
			}
			t.PassedOn[to] = max(t.PassedOn[to], o.Record.Offset+1)
		}
	}
}

// acknowledged takes in that all outputs are, and so that targets have passed their trial.
func (t *Turn) acknowledged() {
	t.appended()
	for _, target := range t.Trials {
		// The record that it was to be tried with may have gone elsewhere, or been held up.
		if slices.ContainsFunc(t.Renderer.Outputs, func(o Output) bool { return o.Record.Topic == target.Name }) {
			target.Passed()
		}
	}
}
