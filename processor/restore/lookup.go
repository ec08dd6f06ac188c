package restore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
)

// checkpoints fetches the checkpoints of partitions; those that an open transaction may still
// change are unstable. The end of the log is asked for after the checkpoint (design rule 2).
// Partitions that are in trouble (without a leader, or their topic is gone) are left out, so that
// they hold up no other; when all are, the error says why.
func (r *restore) checkpoints(ctx context.Context, tps []kafka.TopicPartition) (ready map[kafka.TopicPartition]Found, unstable map[kafka.TopicPartition]kafka.TopicID, err error) {
	ids, trouble := kafka.TopicIDs(ctx, r.Reader, tps)
	if len(ids) == 0 {
		return nil, nil, trouble
	}
	got, err := r.Coordinator.Fetch(ctx, r.Reader, ids, true)
	if err != nil {
		return nil, nil, err
	}
	ready, unstable = map[kafka.TopicPartition]Found{}, map[kafka.TopicPartition]kafka.TopicID{}
	for tp, id := range ids {
		f, ok := got[tp]
		switch {
		case !ok:
			trouble = fmt.Errorf("checkpoint of %s: not in the answer", tp)
		case f.Unstable:
			unstable[tp] = id
		case f.Err != nil:
			trouble = fmt.Errorf("checkpoint of %s: %w", tp, f.Err)
		default:
			ready[tp] = Found{ID: id, Fetched: f}
		}
	}
	lacking, err := r.lookUp(ctx, ready)
	if err != nil {
		return nil, nil, err
	}
	if len(ready)+len(unstable) == 0 {
		return nil, nil, cmp.Or(lacking, trouble)
	}
	return ready, unstable, nil
}

// lookUp asks where the logs of partitions are that were found, and takes out those of which that is not known; lacking says why.
func (r *restore) lookUp(ctx context.Context, of map[kafka.TopicPartition]Found) (lacking, err error) {
	epochs := map[kafka.TopicPartition]int32{}
	for tp, f := range of {
		switch {
		case f.Fetched.Offset < 0: // the way on is what the store knows
			f.Fetched.Epoch = r.storeEpoch(tp, f.ID)
		case f.ofFormer():
			f.Fetched.Epoch = state.NoEpoch // it says nothing of this log
		}
		of[tp] = f
		epochs[tp] = r.Epochs.Comparable(f.Fetched.Epoch)
	}
	var ends map[kafka.TopicPartition]int64
	var unknown error
	var asking sync.WaitGroup
	asking.Go(func() { ends, unknown = kafka.AskEpochs(ctx, r.Reader, epochs) })
	bounds, err := kafka.AskBounds(ctx, r.Reader, slices.Collect(maps.Keys(of)))
	if asking.Wait(); err != nil {
		return nil, err
	}
	for tp, f := range of {
		end, known := ends[tp]
		f.Bounds = bounds[tp]
		why := f.Bounds.Err
		switch {
		case why != nil || epochs[tp] < 0:
		case !known:
			why = unknown
		case end >= 0:
			f.Ended, why = r.believed(ctx, tp, f, end)
		case f.Bounds.Epoch >= 0 && f.Bounds.Epoch < f.Fetched.Epoch && time.Since(r.began) < deposedPatience:
			why = fmt.Errorf("where %s ends is said by a leader of epoch %d, and records of epoch %d were read: %w", tp, f.Bounds.Epoch, f.Fetched.Epoch, kerr.NotLeaderForPartition)
			r.Reader.ForceMetadataRefresh()
		}
		if why == nil {
			why = r.outdated(tp, f)
		}
		if why != nil {
			lacking = why
			delete(of, tp)
			continue
		}
		of[tp] = f
	}
	return lacking, nil
}

// deposedPatience is for how long a leader is not believed that is of an older epoch than the checkpoint: there is another one, and this one is cut off from
// the other brokers and does not know. Some services have epochs of their own, so not for ever.
const deposedPatience = 3 * time.Second

// outdatedPatience is for how long a checkpoint is not believed that is older than the one that the local store bears. A coordinator of the group that was
// moved again while it was loading may tell offsets of minutes before, until it is moved once more (seen with Kafka 4.3.1, for nearly a minute). They may
// have been lost, too, or set back, so not for ever.
const outdatedPatience = time.Minute

// outdated says why a checkpoint is not believed: nil where it is. A store that holds more than there is says nothing.
func (r *restore) outdated(tp kafka.TopicPartition, f Found) error {
	if f.Fetched.Offset < 0 || time.Since(r.began) >= outdatedPatience {
		return nil
	}
	c, err := state.ParseCheckpoint(f.Fetched.Offset, f.Fetched.Epoch, f.Fetched.Metadata)
	if err != nil || c.TopicID != f.ID.Short() {
		return nil
	}
	pos, known, err := r.position(tp, f.ID)
	if err != nil || !known || !pending.Leads(pos, c) || pos.Offset > f.until() {
		return nil
	}
	return fmt.Errorf("the checkpoint of %s has O %d and W %v, and the local store bears a later one, with O %d and W %v; a coordinator that is being moved may be behind, so it is asked again for a while", tp, c.Offset, c.Watermark, pos.Offset, pos.Watermark)
}

// believed is where an epoch ends, or nil where its leader does not tell how it is: what says that a log was cut is worth a second question.
func (r *restore) believed(ctx context.Context, tp kafka.TopicPartition, f Found, end int64) (*int64, error) {
	if f.Fetched.Offset >= 0 && f.Fetched.Offset <= end || end >= f.Bounds.High {
		return &end, nil
	}
	tells, err := kafka.TellsEpochs(ctx, r.Reader, tp, f.Bounds.High)
	if err != nil || !tells {
		return nil, err
	}
	return &end, nil
}
