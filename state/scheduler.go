package state

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler lets compactions run, but none before the database is open: pebble begins them while it still opens,
// and when opening then fails (a full disk), it closes the table cache under a compaction that uses it, which panics.
type scheduler struct {
	pebble.CompactionScheduler
	opened atomic.Bool
}

// TrySchedule is called by the database that wants to compact.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !s.opened.Load() {
		return false, nil
	}
	return s.CompactionScheduler.TrySchedule()
}

// UpdateGetAllowedWithoutPermission is called when a flush has ended.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {
	if s.opened.Load() {
		s.CompactionScheduler.UpdateGetAllowedWithoutPermission()
	}
}

// open lets those run that have been waiting.
func (s *scheduler) open() {
	s.opened.Store(true)
	s.UpdateGetAllowedWithoutPermission()
}
