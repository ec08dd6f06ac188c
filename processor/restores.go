package processor

import (
	"context"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// restores are those that work for a lane. It belongs to the lane.
type restores struct {
	*kit
	m        map[*restore]struct{}
	restored chan restored
	failing  map[kafka.TopicPartition]*wait.Backoff // partitions that started over because something failed
}

func newRestores(k *kit) restores {
	return restores{kit: k, m: map[*restore]struct{}{}, restored: make(chan restored), failing: map[kafka.TopicPartition]*wait.Backoff{}}
}

// start begins one after a rest.
func (rs *restores) start(ctx context.Context, stay membership, tps []kafka.TopicPartition, rest time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	r := &restore{kit: rs.kit, to: rs.restored, member: stay, left: map[kafka.TopicPartition]bool{}, cancel: cancel, done: make(chan struct{}), began: time.Now(), rest: rest}
	for _, tp := range tps {
		r.left[tp] = true
		rs.assigned.Remember(rs.n, tp, nil)
	}
	rs.m[r] = struct{}{}
	rs.wg.Go(func() {
		defer close(r.done)
		defer cancel()
		r.run(ctx, slices.Clone(tps))
	})
}

// has reports whether a restore goes on: what comes of one that was given up is of no use.
func (rs *restores) has(r *restore) bool {
	_, ok := rs.m[r]
	return ok
}

// failed notes that a partition has to start over, and returns how long to rest before.
func (rs *restores) failed(tp kafka.TopicPartition) time.Duration {
	b := rs.failing[tp]
	if b == nil {
		b = &wait.Backoff{}
		rs.failing[tp] = b
	}
	return b.Failed()
}

// cancel ends every restore that works on one of the given partitions (nil: every one),
// and returns what else they were working on, and what other restores have handed over meanwhile.
// It waits until they have ended: a claim that is under way must be answered before the partition
// is given up.
func (rs *restores) cancel(tps []kafka.TopicPartition) (again []kafka.TopicPartition, others []restored) {
	for r := range rs.m {
		if tps != nil && !slices.ContainsFunc(tps, func(tp kafka.TopicPartition) bool { return r.left[tp] }) {
			continue
		}
		r.cancel()
		for ended := false; !ended; {
			select {
			case got := <-rs.restored:
				if got.from != r {
					others = append(others, got)
				}
			case <-r.done:
				ended = true
			}
		}
		delete(rs.m, r)
		for tp := range r.left {
			if !slices.Contains(tps, tp) {
				again = append(again, tp)
			}
		}
	}
	return again, others
}
