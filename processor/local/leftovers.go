package local

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Leftovers gives back the disk of partitions that were here once: another replica has them, and this
// one keeps no standby of them; or their topic was deleted, or made anew. They are left for a while, because they may come back. What is left
// for good is what the store holds of a topic that is there and that this process does not read for this group: once the offsets have
// expired, only the store knows what was delivered. One goroutine owns it.
type Leftovers struct {
	store       *Store
	routes      map[string]*topics.Route
	followed    func(kafka.TopicPartition) bool // a standby is kept of it here
	cl          *kgo.Client
	log         *slog.Logger
	coordinator *kafka.Coordinator
	since       map[state.PartitionID]time.Time // when it was first seen that nothing here needs it
	gone        map[state.PartitionID]time.Time // since when brokers say that its topic is not there
}

const (
	leftoverInterval = time.Minute
	// leftoverAfter is how long a part of the store is kept that nothing needs: longer than a rolling
	// restart takes.
	leftoverAfter = 30 * time.Minute
	// goneAfter is for how long brokers have to say that a topic is not there, each time that they are asked: one that has
	// just started may not know yet. A client that was led to another cluster by mistake has that long, too, and leftoverAfter.
	goneAfter = 10 * time.Minute
)

// NewLeftovers makes what looks after those of a process of a group, with such routes; followed says of which partitions it keeps standbys.
func NewLeftovers(store *Store, group string, routes map[string]*topics.Route, followed func(kafka.TopicPartition) bool, cl *kgo.Client) *Leftovers {
	return &Leftovers{
		store: store, routes: routes, followed: followed, cl: cl, log: store.log, coordinator: kafka.NewCoordinator(group),
		since: map[state.PartitionID]time.Time{}, gone: map[state.PartitionID]time.Time{},
	}
}

// Run looks now and then until ctx ends.
func (f *Leftovers) Run(ctx context.Context) {
	for wait.For(ctx, leftoverInterval) {
		if err := f.sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			f.log.Debug("partitions that are elsewhere, or whose topics are gone, cannot be given up yet; trying again", "error", err)
		}
	}
}

// sweep gives up what nothing has needed for long: what is elsewhere, and what no topic is there for any more.
func (f *Leftovers) sweep(ctx context.Context, now time.Time) error {
	old := f.old(now)
	if len(old) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	names := map[string]bool{}
	for _, id := range old {
		names[id.Topic] = true
	}
	found, err := kafka.FindTopics(ctx, f.cl, slices.Sorted(maps.Keys(names)))
	if err != nil {
		clear(f.gone) // they do not say so any more
		return err
	}
	elsewhere := map[kafka.TopicPartition]kafka.TopicID{}
	for _, id := range old {
		switch topic, told := found[id.Topic]; {
		case told && topic != id.TopicID:
			err = errors.Join(err, f.remove(id, now))
			continue
		case told && id.Group == f.store.identity && f.routes[id.Topic] != nil:
			elsewhere[nameOf(id)] = topic
		}
		delete(f.gone, id)
	}
	return errors.Join(err, f.giveUp(ctx, elsewhere))
}

// remove removes what the store holds of a topic of which brokers have said for long that it is not there.
func (f *Leftovers) remove(id state.PartitionID, now time.Time) error {
	since, ok := f.gone[id]
	if !ok {
		f.gone[id] = now
	}
	if !ok || now.Sub(since) < goneAfter {
		return nil
	}
	store := f.store.opened.Load()
	if store == nil {
		return nil
	}
	bytes := store.Size(id) // which may take long, so nothing may wait for it
	err := f.store.removeUnlessOurs(id)
	if err == nil {
		f.log.Info("the store gives up a partition of a topic that is not there any more", "group", id.Group, "topic", id.Topic, "partition", id.Partition, "bytes", bytes)
	}
	return err
}

// giveUp drops partitions that are elsewhere, unless the store may be all that is left of one: where the
// log begins above the low water, or where there is no checkpoint to tell.
func (f *Leftovers) giveUp(ctx context.Context, ids map[kafka.TopicPartition]kafka.TopicID) error {
	if len(ids) == 0 {
		return nil
	}
	got, err := f.coordinator.Fetch(ctx, f.cl, ids, false)
	if err != nil {
		return err
	}
	bounds, err := kafka.AskBounds(ctx, f.cl, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return err
	}
	for tp, id := range ids {
		b := bounds[tp]
		c, err := state.ParseCheckpoint(got[tp].Offset, got[tp].Epoch, got[tp].Metadata)
		if b.Err != nil || got[tp].Err != nil || err != nil || c.TopicID != id.Short() || c.LowWater < b.Start {
			continue
		}
		if err := f.drop(tp, f.store.ID(tp, id)); err != nil {
			return err
		}
	}
	return nil
}

// old is what the store holds and no lane or standby here has needed for long.
func (f *Leftovers) old(now time.Time) (old []state.PartitionID) {
	store := f.store.opened.Load()
	if store == nil {
		clear(f.gone)
		return nil
	}
	held := store.Positions()
	for id := range f.since {
		if _, ok := held[id]; !ok {
			delete(f.since, id)
			delete(f.gone, id)
		}
	}
	for id := range held {
		if f.needed(id) {
			delete(f.since, id)
			delete(f.gone, id)
			continue
		}
		if since, ok := f.since[id]; !ok {
			f.since[id] = now
		} else if now.Sub(since) >= leftoverAfter {
			old = append(old, id)
		}
	}
	return old
}

func (f *Leftovers) needed(id state.PartitionID) bool {
	tp := nameOf(id)
	return id.Group == f.store.identity && (f.store.assigned.Has(tp) || f.followed(tp))
}

// drop empties a partition's part of the store, unless a lane has been given the partition meanwhile.
func (f *Leftovers) drop(tp kafka.TopicPartition, id state.PartitionID) error {
	part, err := f.store.PartitionUnlessOurs(id)
	if part == nil || err != nil {
		return err
	}
	f.log.Info("the store gives up a partition that is elsewhere", "topic", tp.Topic, "partition", tp.Partition)
	return part.Drop()
}
