package retention

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// otherReaders are the groups beside ours that have committed offsets of delay topics. A group that was seen to read is remembered until it says itself that it does
// not: while no broker lists it, it may be that none knows of it. It belongs to a trimming.
type otherReaders struct {
	*Env
	by map[string]map[string]bool // topics by group
}

func newOtherReaders(e *Env) otherReaders {
	return otherReaders{Env: e, by: map[string]map[string]bool{}}
}

// look asks all groups. Hidden is why there may be others; the error is that something was not answered.
func (o *otherReaders) look(ctx context.Context, cl *kgo.Client, patience time.Duration) (hidden *kafka.HiddenError, err error) {
	r, err := kafka.AskReaders(ctx, cl, o.Group, slices.Collect(maps.Keys(o.by)), patience)
	for group, committed := range r.Committed {
		delete(o.by, group)
		for topic, partitions := range committed {
			if o.Routes[topic] == nil || !Reads(partitions) {
				continue
			}
			if o.by[group] == nil {
				o.by[group] = map[string]bool{}
			}
			o.by[group][topic] = true
		}
	}
	return r.Hidden, err
}

// Reads tells whether a group goes on from anything that it has committed: from what it has given to another group, which may be ours, it does not.
func Reads(partitions map[int32]kadm.OffsetResponse) bool {
	for _, c := range partitions {
		if _, err := state.ParseCheckpoint(c.At, c.LeaderEpoch, c.Metadata); !errors.Is(err, state.ErrGiven) {
			return true
		}
	}
	return false
}

// of are the groups that read a topic, in order.
func (o *otherReaders) of(topic string) (groups []string) {
	for group, read := range o.by {
		if read[topic] {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}
