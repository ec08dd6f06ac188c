package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// Writer is how a lane signs its checkpoints; its transactional ids begin with it. They begin with the group and a dash, as rights to them are given. Both names may
// have dashes and numbers, but an instance has no @: what follows the last one is the instance and the number of an id, and the group ends where the last dash before
// it is. So no two lanes have an id in common, whatever groups and instances are called.
func Writer(group, instance string, lane int) string {
	return fmt.Sprintf("%s-%d@%s", group, lane, instance)
}

// writerIDs is how many transactional ids a writer has: two that take turns, and others in their
// place while a target keeps one busy.
const writerIDs = 8

// IDsOf are the transactional ids of a writer.
func IDsOf(writer string) []string {
	ids := make([]string, writerIDs)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", writer, i)
	}
	return ids
}

// When a transaction is decided, its coordinator writes the end of it to every partition that took
// part, and until the last one has taken that, the transactional id begins no other (KIP-98). A target that
// takes nothing (below min.insync.replicas, or without a leader) keeps the id busy for as long. So a
// writer has ids to spare, and a target is not tried again before the id that it keeps is free.

// busyMost is the longest pause between two questions whether an id is free.
const busyMost = 2 * time.Second

// errAllBusy means that every transactional id of a writer waits for a target.
var errAllBusy = errors.New("producer: every transactional id waits for targets to take the end of a transaction")

// Spare are the transactional ids of a writer that no producer uses: free ones, and busy ones.
type Spare struct {
	await func(id string, free func()) // asks for a busy id until it is free

	mu     sync.Mutex
	free   []string
	busy   map[string]bool
	behind behind
}

// NewSpare looks after the ids that the producers of a writer do not use. A busy one is given to await, which returns at once, and calls
// free from a goroutine when the id is free (AwaitID).
func NewSpare(ids []string, await func(id string, free func())) *Spare {
	return &Spare{free: ids, busy: map[string]bool{}, await: await}
}

// AwaitID asks for a busy id until it is free, and then calls free; or until ctx ends.
func (m *Markers) AwaitID(ctx context.Context, cl *kgo.Client, id string, timeout time.Duration, free func()) {
	for pause := kafka.BusyAfter; wait.For(ctx, pause); pause = min(2*pause, busyMost) {
		if m.claim(ctx, cl, id, timeout, 0) == nil {
			free()
			return
		}
	}
}

// swap takes a busy id and gives a free one. The busy one is asked for until it is free: if its abort
// has not begun for whatever reason, that begins it.
func (s *Spare) swap(busy string) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		return "", false
	}
	id, s.free = s.free[0], s.free[1:]
	s.look(busy)
	return id, true
}

// look looks after an id until it is free. The caller holds the lock.
func (s *Spare) look(busy string) {
	s.busy[busy] = true
	s.await(busy, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, busy)
		s.free = append(s.free, busy)
	})
}

// Settle has those looked after that owe something.
func (s *Spare) Settle(owes func(id string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = slices.DeleteFunc(s.free, func(id string) bool {
		if !owes(id) {
			return false
		}
		s.look(id)
		return true
	})
}

// isBusy reports whether an id waits for a target.
func (s *Spare) isBusy(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[id]
}

// BusyID is an id that a target is thought to keep busy.
type BusyID struct {
	id   string
	from *Spare
}

// Still reports whether it does. Any goroutine may ask; nil is no such id.
func (b *BusyID) Still() bool { return b != nil && b.from.isBusy(b.id) }
