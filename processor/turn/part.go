package turn

import (
	"fmt"
	"sync/atomic"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Part is what a turn does for one partition of a delay topic.
type Part struct {
	*pending.Part
	TP     kafka.TopicPartition
	ID     kafka.TopicID
	Mark   topics.Mark // of what the group writes into the partition for itself
	Route  *topics.Route
	Keeps  *atomic.Int64 // for how long the topic keeps records, in ms; 0: for ever, or it is not known
	Owner  any           // who has made it, and gets it back
	Copies *Copies       // nil: it carries nothing
}

// CommitOf is a checkpoint as it is sent.
func CommitOf(tp kafka.TopicPartition, id kafka.TopicID, c state.Checkpoint) (kafka.Commit, error) {
	md, err := c.Metadata()
	if err != nil {
		return kafka.Commit{}, fmt.Errorf("checkpoint of %s: %w", tp, err)
	}
	return kafka.Commit{TP: tp, ID: id, Offset: c.Offset, Epoch: c.Epoch, Metadata: md}, nil
}
