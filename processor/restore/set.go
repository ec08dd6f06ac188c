package restore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// Set is the restores that work for a lane.
type Set struct {
	Restored chan Restored
	env      *Env
	wg       *sync.WaitGroup
	m        map[*restore]struct{}
	failing  map[kafka.TopicPartition]*wait.Backoff // partitions that started over because something failed
}

// New makes one without restores. Their goroutines are among those of wg.
func New(env *Env, wg *sync.WaitGroup) *Set {
	return &Set{env: env, wg: wg, m: map[*restore]struct{}{}, Restored: make(chan Restored), failing: map[kafka.TopicPartition]*wait.Backoff{}}
}

// Start begins one after a rest, in the name of a member.
func (s *Set) Start(ctx context.Context, m Member, tps []kafka.TopicPartition, rest time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	r := &restore{Env: s.env, to: s.Restored, member: m, left: map[kafka.TopicPartition]bool{}, cancel: cancel, done: make(chan struct{}), began: time.Now(), rest: rest}
	for _, tp := range tps {
		r.left[tp] = true
		s.env.Assigned.Remember(s.env.Lane, tp, nil)
	}
	s.m[r] = struct{}{}
	s.wg.Go(func() {
		defer close(r.done)
		defer cancel()
		r.run(ctx, slices.Clone(tps))
	})
}

// Has reports whether a restore goes on: what comes of one that was given up is of no use.
func (s *Set) Has(got Restored) bool {
	_, ok := s.m[got.from]
	return ok
}

// Took notes that a partition is the lane's from now on. A restore has no more to say when it has handed over all of its partitions.
func (s *Set) Took(got Restored) {
	delete(got.from.left, got.TP)
	if len(got.from.left) == 0 {
		delete(s.m, got.from)
	}
}

// Failed notes that a partition has to start over, and returns how long to rest before.
func (s *Set) Failed(tp kafka.TopicPartition) time.Duration {
	b := s.failing[tp]
	if b == nil {
		b = &wait.Backoff{}
		s.failing[tp] = b
	}
	return b.Failed()
}

// Cancel ends every restore that works on one of the given partitions (nil: every one),
// and returns what else they were working on, and what other restores have handed over meanwhile.
// It waits until they have ended: a claim that is under way must be answered before the partition
// is given up.
func (s *Set) Cancel(tps []kafka.TopicPartition) (again []kafka.TopicPartition, others []Restored) {
	for r := range s.m {
		if tps != nil && !slices.ContainsFunc(tps, func(tp kafka.TopicPartition) bool { return r.left[tp] }) {
			continue
		}
		r.cancel()
		for ended := false; !ended; {
			select {
			case got := <-s.Restored:
				if got.from != r {
					others = append(others, got)
				}
			case <-r.done:
				ended = true
			}
		}
		delete(s.m, r)
		for tp := range r.left {
			if !slices.Contains(tps, tp) {
				again = append(again, tp)
			}
		}
	}
	return again, others
}
