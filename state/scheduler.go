package state

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler lets compactions run, but none before the database is open: pebble begins them while it still opens,
// and when opening then fails (a full disk), it closes the table cache under a compaction that uses it, which panics.
//
// Nobody waits for a compaction, and after much has come they go on for minutes. So they take what others leave of the CPUs, while they are not far behind.
type scheduler struct {
	pebble.CompactionScheduler
	opened atomic.Bool
	behind atomic.Bool // compactions are
}

// Register is called when the database opens.
func (s *scheduler) Register(goroutines int, db pebble.DBForCompaction) {
	s.CompactionScheduler.Register(goroutines, granted{db, s})
}

// TrySchedule is called by the database that wants to compact.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !s.opened.Load() {
		return false, nil
	}
	may, h := s.CompactionScheduler.TrySchedule()
	return may, modest{h, s}
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

// granted is the database to whoever lets it compact when another compaction has ended.
type granted struct {
	pebble.DBForCompaction
	by *scheduler
}

func (g granted) Schedule(h pebble.CompactionGrantHandle) bool {
	return g.DBForCompaction.Schedule(modest{h, g.by})
}

// modest is a compaction that gives way to all else.
type modest struct {
	pebble.CompactionGrantHandle
	by *scheduler
}

// Started is called on the goroutine of the compaction, which ends with it.
func (m modest) Started() {
	if !m.by.behind.Load() {
		giveWay()
	}
	m.CompactionGrantHandle.Started()
}
