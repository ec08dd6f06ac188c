package processor

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// When a transaction is decided, its coordinator writes the end of it to every partition that took
// part, and until the last one has taken that, the transactional id begins no other. A target that
// takes nothing (below min.insync.replicas, or without a leader) keeps the id busy for as long. So a
// writer has ids to spare, and a target is not tried again before the id that it keeps is free.

// busyMost is the longest pause between two questions whether an id is free.
const busyMost = 2 * time.Second

// errBusyIDs means that every transactional id of a writer waits for a target.
var errBusyIDs = errors.New("processor: every transactional id waits for targets to take the end of a transaction")

// spareIDs are the transactional ids of a lane that no producer uses: free ones, and busy ones.
type spareIDs struct {
	await func(id string, free func()) // asks for a busy id until it is free

	mu   sync.Mutex
	free []string
	busy map[string]bool
}

// swap takes a busy id and gives a free one. The busy one is asked for until it is free: if its abort
// has not begun for whatever reason, that begins it.
func (s *spareIDs) swap(busy string) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		return "", false
	}
	id, s.free = s.free[0], s.free[1:]
	s.busy[busy] = true
	s.await(busy, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, busy)
		s.free = append(s.free, busy)
	})
	return id, true
}

// isBusy reports whether an id waits for a target.
func (s *spareIDs) isBusy(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[id]
}

// busyID is an id that a target is thought to keep busy.
type busyID struct {
	id   string
	from *spareIDs
}

func (b *busyID) still() bool { return b != nil && b.from.isBusy(b.id) }

// newSpareIDs looks after the ids that the producers of a lane do not use, until ctx ends.
func (l *lane) newSpareIDs(ctx context.Context, free []string) *spareIDs {
	return &spareIDs{free: free, busy: map[string]bool{}, await: func(id string, free func()) {
		l.wg.Go(func() {
			for pause := kafka.BusyAfter; wait.For(ctx, pause); pause = min(2*pause, busyMost) {
				if err := kafka.AskForEpoch(ctx, l.reader, id, l.cfg.TransactionTimeout, 0); err == nil {
					free()
					return
				}
			}
		})
	}}
}
