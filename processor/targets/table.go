package targets

import (
	"cmp"
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

// Table knows every topic that records are produced to: whether it can take records now, and
// what it takes. It is asked before a record enters a transaction, because a transaction that
// waits for one bad target holds up all others. One goroutine keeps it up to date (lookup.go);
// lanes and turns only read, and say what they have seen.
type Table struct {
	unknownAfter   time.Duration                                      // how long brokers must have said that one does not exist
	forbiddenAfter time.Duration                                      // and that it is not for us
	see            func(topic string, leaders map[int32]kafka.Leader) // told of each before anything follows from it
	log            *slog.Logger

	wake wait.Wake
	trip atomic.Int64 // ns
	near atomic.Int64 // ns

	mu sync.RWMutex
	m  map[string]*Target
}

// Trip is how long brokers take to answer what a look asks first, smoothed: one that was busy for a moment is not slow.
func (ts *Table) Trip() time.Duration { return time.Duration(ts.trip.Load()) }

// Way is how long the way to the brokers and back takes at least: about as long as the quickest of such answers of late. One that is busy is not farther away.
func (ts *Table) Way() time.Duration { return time.Duration(ts.near.Load()) }

// noteTrip notes how long brokers have taken to answer what a look asks first. One that was silent makes the others none the slower.
func (ts *Table) noteTrip(d time.Duration) {
	if d >= kafka.BrokerPatience {
		return
	}
	was, near := cmp.Or(ts.Trip(), d), cmp.Or(ts.Way(), d)
	ts.trip.Store(int64(was + (d-was)/4))
	ts.near.Store(int64(min(d, near+(d-near)/32)))
}

// New begins with none. A target is dead-lettered for when brokers have answered for so long, without a break, that it does not
// exist, or that it is forbidden to us. See is told of the leaders of each topic's partitions before anything is written to them because of what
// brokers have said.
func New(unknownAfter, forbiddenAfter time.Duration, see func(topic string, leaders map[int32]kafka.Leader), log *slog.Logger) *Table {
	return &Table{unknownAfter: unknownAfter, forbiddenAfter: forbiddenAfter, see: see, log: log, wake: wait.NewWake(), m: map[string]*Target{}}
}

// Of returns the target of a name, which is looked up from now on.
func (ts *Table) Of(name []byte) *Target {
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
		t = &Target{Name: string(name)}
		t.State.Store(notLooked)
		t.used.Store(true)
		ts.m[t.Name] = t
	}
	ts.mu.Unlock()
	ts.wake.Ask()
	return t
}

// Partitions is how many partitions the topic of a name has; 0: that is not known, and it is not looked up for this.
func (ts *Table) Partitions(name string) int32 {
	ts.mu.RLock()
	t := ts.m[name]
	ts.mu.RUnlock()
	if t == nil {
		return 0
	}
	return t.State.Load().Partitions
}

// All are those that are known now, in no order.
func (ts *Table) All() []*Target {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return slices.Collect(maps.Values(ts.m))
}

// Keep looks a topic of the configuration up before the first record needs it, and never forgets
// it. What is to be written to one without another way out waits for it.
func (ts *Table) Keep(name string, only bool) {
	t := ts.Of([]byte(name))
	ts.mu.Lock()
	t.kept, t.only = true, t.only || only
	ts.mu.Unlock()
}

// Gone reports whether brokers have said for some time that a target does not exist.
func (ts *Table) Gone(name string) bool {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	t := ts.m[name]
	return t != nil && t.State.Load().Status == Missing
}

// forgetIdle forgets targets that no record has named for a while and that nothing was ever
// delivered to, or that were deleted long ago: names are for producers to invent.
func (ts *Table) forgetIdle(all []*Target) {
	for _, t := range all {
		if t.idle++; t.used.Swap(false) || t.kept || t.Counts.Delivered.Load() > 0 && !t.State.Load().longGone(time.Now()) {
			t.idle = 0
		}
		if t.idle >= idleLooks {
			ts.mu.Lock()
			delete(ts.m, t.Name)
			ts.mu.Unlock()
		}
	}
}

// MaxBatchBytes is the largest batch that a topic takes, and that a client can be told.
func (ts *Table) MaxBatchBytes(topic string) int32 {
	return max(min(ts.Of([]byte(topic)).State.Load().Takes.MaxBytes, kafka.LargestBatch), 512)
}

// Failed notes that a turn was given up because of this target. Its records are carried on until
// it has shown that it takes records again.
func (ts *Table) Failed(name string, why error, keeps keeper) {
	ts.leave(name, func(old *State) *State { return old.failed(why, keeps, time.Now()) })
}

// Rest has what is for a target carried on for a while, because it takes more time than it is worth. It
// is as well as ever, so that pause does not grow.
func (ts *Table) Rest(name string, why error, keeps keeper, pause time.Duration) {
	ts.leave(name, func(old *State) *State {
		n := old.failed(why, keeps, time.Now())
		n.Failures, n.tryAt = max(old.Failures, 1), time.Now().Add(pause)
		return n
	})
}

// leave replaces the state of a target that records are produced to by one of trouble, once: of one that is none any more the turn began before
// that was known.
func (ts *Table) leave(name string, trouble func(*State) *State) {
	t := ts.Of([]byte(name))
	for old := t.State.Load(); old.Writable() || t.only && old.takesSome(); old = t.State.Load() {
		n := trouble(old)
		if t.only {
			n.tryAt = earlier(n.tryAt, time.Now().Add(onlyPause))
		}
		tell := n.tell(time.Now())
		if !t.State.CompareAndSwap(old, n) {
			continue // it was looked at meanwhile
		}
		if tell {
			ts.log.Warn(t.inTrouble(), "topic", name, "error", n.Why, "in", time.Until(n.tryAt).Round(time.Millisecond))
		}
		break
	}
	ts.Hurry(t)
}

// inTrouble says what becomes of what is to be written to a target in trouble.
func (t *Target) inTrouble() string {
	if t.only {
		return "topic is in trouble; what has to be written to it waits"
	}
	return "target is in trouble; its records are carried on"
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Hurry asks for a look at a target now.
func (ts *Table) Hurry(t *Target) {
	t.Hurry.Store(true)
	ts.wake.Ask()
}

// lookAgainAfter is for how long what brokers have said of a target needs no other look when a turn waits for it.
const lookAgainAfter = 300 * time.Millisecond

// Suspect asks for a closer look at a target that a turn is waiting for, and returns what is
// known of it.
func (ts *Table) Suspect(name string) *State {
	t := ts.Of([]byte(name))
	st := t.State.Load()
	if time.Since(st.Asked) > lookAgainAfter {
		ts.Hurry(t)
	}
	return st
}

// Await waits until it is known whether t can take records, for at most so long.
func (ts *Table) Await(ctx context.Context, t *Target, most time.Duration) *State {
	if s := t.State.Load(); s.Status != Unknown {
		return s
	}
	deadline := time.Now().Add(most)
	for {
		s := t.State.Load()
		if s.Status != Unknown || time.Now().After(deadline) || !wait.For(ctx, time.Millisecond) {
			return s
		}
	}
}
