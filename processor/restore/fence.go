package restore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
)

const (
	fencePatience = 100 * time.Millisecond // how long the markers of a transaction that ended well may take
	fenceMost     = 2 * time.Second
	hangsAfter    = 10 * time.Second // beyond its timeout no transaction is open any more
)

// fenceAgain is the pause before writers are fenced that were fenced so often before. The first pauses are short, because a coordinator
// refuses an id that it is writing down, and then the transaction goes on.
func fenceAgain(fences int) time.Duration {
	return wait.Growing(2*max(fences-1, 0), 20*time.Millisecond, fenceMost)
}

// free fences the writers of checkpoints that are unstable, and says what they wait for. A transaction
// that is open for longer than it may be is one that a person has to end.
func (r *restore) free(ctx context.Context, unstable map[kafka.TopicPartition]kafka.TopicID) error {
	r.fences++
	r.fencedAt = time.Now()
	held := slices.SortedFunc(maps.Keys(unstable), kafka.Compare)
	why := "the checkpoint is held by an open transaction; fencing its writer"
	if time.Since(r.began) > r.TransactionTimeout+hangsAfter {
		why = fmt.Sprintf("%v: find it with `kafka-transactions.sh find-hanging` on __consumer_offsets and end it with `kafka-transactions.sh abort`", ErrHangingTransaction)
		if !r.hangs {
			r.Log.Error("partitions wait until a person ends a transaction", "partitions", held, "error", why)
		}
		r.hangs = true
	}
	if r.hangs || r.refused == nil { // else the answer to the last try says more
		r.Assigned.Explain(r.Lane, held, why)
	}
	r.refused = r.fence(ctx, unstable)
	return r.refused
}

// fence ends the transactions of the writers that hold the checkpoints of partitions. An
// unstable fetch shows the last committed checkpoint, which names the writer: it claimed the
// partition before its first transaction (design rule 9). A transaction of our own ends with the renewal of our
// producers: where that fails, it is what partitions wait for.
func (r *restore) fence(ctx context.Context, unstable map[kafka.TopicPartition]kafka.TopicID) error {
	got, err := r.Coordinator.Fetch(ctx, r.Reader, unstable, false)
	if err != nil {
		return err
	}
	own, fenced := false, map[string]bool{r.Writer: true, "": true}
	r.show(ctx, unstable, got)
	for tp, f := range got {
		c, err := state.ParseCheckpoint(f.Offset, f.Epoch, f.Metadata)
		own = own || err == nil && c.Writer != "" && c.Writer == r.Writer
		if err != nil || fenced[c.Writer] {
			continue
		}
		fenced[c.Writer] = true
		first := !slices.Contains(r.fenced, c.Writer)
		if first {
			r.fenced = append(r.fenced, c.Writer)
			r.Log.Info("fencing the writer of an open transaction", "topic", tp.Topic, "partition", tp.Partition, "writer", c.Writer)
			r.Fenced(tp, c.Writer)
		}
		if err := r.Markers.Fence(ctx, r.Reader, producer.IDsOf(c.Writer), r.EmptyTimeout, first); err != nil {
			return err
		}
	}
	if own && r.Awaits != nil {
		if err := r.Awaits(); err != nil {
			return fmt.Errorf("the checkpoint is held by an open transaction of this replica: %w", err)
		}
	}
	return nil
}

// show shows how partitions were before the transaction that their restore waits for, when that has lasted: nothing of them is carried meanwhile.
func (r *restore) show(ctx context.Context, ids map[kafka.TopicPartition]kafka.TopicID, as map[kafka.TopicPartition]kafka.Fetched) {
	if time.Since(r.began) <= r.SessionTimeout {
		return
	}
	bounds, err := kafka.AskBounds(ctx, r.Reader, slices.Collect(maps.Keys(as)))
	if err != nil {
		return // what was seen before is shown
	}
	for tp, f := range as {
		c, err := state.ParseCheckpoint(f.Offset, f.Epoch, f.Metadata)
		if b := bounds[tp]; err == nil && b.Err == nil && c.TopicID == ids[tp].Short() {
			r.Assigned.See(r.Lane, tp, picture.Seen{ID: ids[tp], Offset: c.Offset, LowWater: c.LowWater, LogStart: b.Start, LogEnd: b.High})
		}
	}
}
