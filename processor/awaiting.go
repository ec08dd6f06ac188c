package processor

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
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
		c, err := checkpointIn(f)
		if b := bounds[tp]; err == nil && b.Err == nil && c.TopicID == ids[tp].Short() {
			r.assigned.see(r.n, tp, seen{id: ids[tp], offset: c.Offset, lowWater: c.LowWater, logStart: b.Start, logEnd: b.High})
		}
	}
}

// asSeen is the picture of a partition that is being restored, with what was seen of its checkpoint and its log.
func (p PartitionStats) asSeen() PartitionStats {
	p.TopicID, p.Offset, p.Position, p.LowWater = p.seen.id, p.seen.offset, p.seen.offset, p.seen.lowWater
	p.LogStart, p.LogEnd = p.seen.logStart, p.seen.logEnd
	return p
}

// pictures are those of the partitions that the process has. What carriers say of those that are being restored they cannot say themselves.
func (p *Processor) pictures() []PartitionStats {
	all := p.assigned.pictures()
	for i := range all {
		if s := &all[i]; s.Phase == PhaseRestoring {
			s.CarryBehind = p.counters.topics[s.Topic].behind.of(s.Partition)
			s.Error = s.CarryBehind
		}
	}
	return all
}
