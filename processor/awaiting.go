package processor

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/state"
)

// show shows how partitions were before the transaction that their restore waits for, when that has lasted: nothing of them is carried meanwhile.
func (r *restore) show(ctx context.Context, ids map[kafka.TopicPartition]kafka.TopicID, as map[kafka.TopicPartition]kafka.Fetched) {
	if time.Since(r.began) <= r.cfg.SessionTimeout {
		return
	}
	bounds, err := kafka.AskBounds(ctx, r.reader, slices.Collect(maps.Keys(as)))
	if err != nil {
		return // what was seen before is shown
	}
	for tp, f := range as {
		c, err := state.ParseCheckpoint(f.Offset, f.Epoch, f.Metadata)
		if b := bounds[tp]; err == nil && b.Err == nil && c.TopicID == ids[tp].Short() {
			r.assigned.See(r.n, tp, picture.Seen{ID: ids[tp], Offset: c.Offset, LowWater: c.LowWater, LogStart: b.Start, LogEnd: b.High})
		}
	}
}
