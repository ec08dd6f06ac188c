package processor

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// targets knows every topic that records are produced to: whether it can take records now, and
// what it takes. It is asked before a record enters a transaction, because a transaction that
// waits for one bad target holds up all others. One goroutine keeps it up to date (lookup.go);
// lanes and turns only read, and say what they have seen.
type targets struct {
	unknownAfter   time.Duration // how long brokers must have said that one does not exist
	forbiddenAfter time.Duration // and that it is not for us
	log            *slog.Logger

	wake wait.Wake
	trip atomic.Int64 // ns: how long brokers take to answer what a look asks first, at most, of late

	mu sync.RWMutex
	m  map[string]*target
}

// newTargets begins with none. A target is dead-lettered for when brokers have answered for so long, without a break, that it does not
// exist, or that it is forbidden to us.
func newTargets(unknownAfter, forbiddenAfter time.Duration, log *slog.Logger) *targets {
	return &targets{unknownAfter: unknownAfter, forbiddenAfter: forbiddenAfter, log: log, wake: wait.NewWake(), m: map[string]*target{}}
}

// of returns the target of a name, which is looked up from now on.
func (ts *targets) of(name []byte) *target {
	ts.mu.RLock()
	t := ts.m[string(name)]
	ts.mu.RUnlock()
	if t != nil {
		if !t.used.Load() {
			t.used.Store(true)
		}
		return t
	}
	ts.mu.Lock()
	if t = ts.m[string(name)]; t == nil {
		t = &target{name: string(name)}
		t.state.Store(unknownTarget)
		t.used.Store(true)
		ts.m[t.name] = t
	}
	ts.mu.Unlock()
	ts.wake.Ask()
	return t
}

// all are those that are known now, in no order.
func (ts *targets) all() []*target {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return slices.Collect(maps.Values(ts.m))
}

// keep looks a topic of the configuration up before the first record needs it, and never forgets
// it. What is to be written to one without another way out waits for it.
func (ts *targets) keep(name string, only bool) {
	t := ts.of([]byte(name))
	ts.mu.Lock()
	t.kept, t.only = true, t.only || only
	ts.mu.Unlock()
}

// forgetIdle forgets targets that no record has named for a while and that nothing was ever
// delivered to: names are for producers to invent.
func (ts *targets) forgetIdle(all []*target) {
	for _, t := range all {
		if t.idle++; t.used.Swap(false) || t.kept || t.stats.delivered.Load() > 0 {
			t.idle = 0
		}
		if t.idle >= targetIdle {
			ts.mu.Lock()
			delete(ts.m, t.name)
			ts.mu.Unlock()
		}
	}
}

// maxBatchBytes is the largest batch that a topic takes, and that a client can be told.
func (ts *targets) maxBatchBytes(topic string) int32 {
	return max(min(ts.of([]byte(topic)).state.Load().takes.maxBytes, kafka.LargestBatch), 512)
}

// failed notes that a turn was given up because of this target. Its records are carried on until
// it has shown that it takes records again.
func (ts *targets) failed(name string, why error, keeps keeper) {
	ts.leave(name, func(old *targetState) *targetState { return old.failed(why, keeps, time.Now()) })
}

// rest has what is for a target carried on for a while, because it takes more time than it is worth. It
// is as well as ever, so that pause does not grow.
func (ts *targets) rest(name string, why error, keeps keeper, pause time.Duration) {
	ts.leave(name, func(old *targetState) *targetState {
		n := old.failed(why, keeps, time.Now())
		n.failures, n.tryAt = max(old.failures, 1), time.Now().Add(pause)
		return n
	})
}

// leave replaces the state of a target that records are produced to by one of trouble.
func (ts *targets) leave(name string, trouble func(*targetState) *targetState) {
	t := ts.of([]byte(name))
	for old := t.state.Load(); old.writable(); old = t.state.Load() { // else the turn began before it was known
		n := trouble(old)
		if t.only {
			n.tryAt = earlier(n.tryAt, time.Now().Add(onlyPause))
		}
		if t.state.CompareAndSwap(old, n) {
			ts.log.Warn("target is in trouble; its records are carried on", "topic", name, "error", n.why, "in", time.Until(n.tryAt).Round(time.Millisecond))
		}
	}
	ts.hurry(t)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hurry asks for a look at a target now.
func (ts *targets) hurry(t *target) {
	t.hurry.Store(true)
	ts.wake.Ask()
}

// freshLook is for how long what brokers have said of a target needs no other look when a turn waits for it.
const freshLook = 300 * time.Millisecond

// suspect asks for a closer look at a target that a turn is waiting for, and returns what is
// known of it.
func (ts *targets) suspect(name string) *targetState {
	t := ts.of([]byte(name))
	st := t.state.Load()
	if time.Since(st.asked) > freshLook {
		ts.hurry(t)
	}
	return st
}

// await waits until it is known whether t can take records, for at most so long.
func (ts *targets) await(ctx context.Context, t *target, most time.Duration) *targetState {
	if s := t.state.Load(); s.status != targetUnknown {
		return s
	}
	deadline := time.Now().Add(most)
	for {
		s := t.state.Load()
		if s.status != targetUnknown || time.Now().After(deadline) || !wait.For(ctx, time.Millisecond) {
			return s
		}
	}
}
