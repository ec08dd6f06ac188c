package processor

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
)

// leftovers gives back the disk of partitions that were here once: another replica has them, and this
// one keeps no standby of them. They are left for a while, because they may come back. One goroutine
// owns it.
type leftovers struct {
	*shared
	standbys    *standbys
	cl          *kgo.Client
	log         *slog.Logger
	coordinator *kafka.Coordinator
	since       map[state.PartitionID]time.Time // when it was first seen that nothing here needs it
}

const (
	leftoverInterval = time.Minute
	// leftoverAfter is how long a part of the store is kept that nothing needs: longer than a rolling
	// restart takes.
	leftoverAfter = 30 * time.Minute
)

func newLeftovers(sh *shared, standbys *standbys, cl *kgo.Client) *leftovers {
	return &leftovers{shared: sh, standbys: standbys, cl: cl, log: sh.cfg.Logger, coordinator: kafka.NewCoordinator(sh.cfg.Group), since: map[state.PartitionID]time.Time{}}
}

func (f *leftovers) run(ctx context.Context) {
	for wait.For(ctx, leftoverInterval) {
		if err := f.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			f.log.Debug("partitions that are elsewhere cannot be given up yet; trying again", "error", err)
		}
	}
}

// sweep drops what nothing has needed for long, unless it may be all that is left of it: where the
// log begins above the low water, or where there is no checkpoint to tell.
func (f *leftovers) sweep(ctx context.Context, now time.Time) error {
	old := f.old(now)
	if len(old) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	var tps []kafka.TopicPartition
	for tp := range old {
		tps = append(tps, tp)
	}
	ids, err := kafka.TopicIDs(ctx, f.cl, tps)
	if len(ids) == 0 {
		return err
	}
	got, err := f.coordinator.Fetch(ctx, f.cl, ids, false)
	if err != nil {
		return err
	}
	bounds, err := kafka.AskBounds(ctx, f.cl, tps)
	if err != nil {
		return err
	}
	for tp, id := range old {
		b := bounds[tp]
		c, err := state.ParseCheckpoint(got[tp].Offset, got[tp].Metadata)
		if b.Err != nil || got[tp].Err != nil || err != nil || c.TopicID != ids[tp].Short() || c.LowWater < b.Start {
			continue
		}
		if err := f.drop(tp, id); err != nil {
			return err
		}
	}
	return nil
}

// old is what the store holds of this group's partitions and no lane or standby here has needed for long.
func (f *leftovers) old(now time.Time) map[kafka.TopicPartition]state.PartitionID {
	store := f.store.opened.Load()
	if store == nil {
		return nil
	}
	held := store.Positions()
	for id := range f.since {
		if _, ok := held[id]; !ok {
			delete(f.since, id)
		}
	}
	out := map[kafka.TopicPartition]state.PartitionID{}
	for id := range held {
		tp := kafka.TopicPartition{Topic: id.Topic, Partition: id.Partition}
		if id.Group != f.cfg.Group || f.routes[id.Topic] == nil || f.assigned.has(tp) || f.standbys.of(tp) != nil {
			delete(f.since, id)
			continue
		}
		if since, ok := f.since[id]; !ok {
			f.since[id] = now
		} else if now.Sub(since) >= leftoverAfter {
			out[tp] = id
		}
	}
	return out
}

// drop empties a partition's part of the store, unless a lane has been given the partition meanwhile.
func (f *leftovers) drop(tp kafka.TopicPartition, id state.PartitionID) error {
	part, err := f.openUnlessOurs(id)
	if part == nil || err != nil {
		return err
	}
	f.log.Info("the store gives up a partition that is elsewhere", "topic", tp.Topic, "partition", tp.Partition)
	return part.Drop()
}
