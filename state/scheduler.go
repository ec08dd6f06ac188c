package state

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// scheduler lets compactions run, but none before the database is open: pebble begins them while it still opens,
// and when opening then fails (a full disk), it closes the table cache under a compaction that uses it, which panics.
//
// Nothing waits for a compaction, and after much has come they go on for minutes. So they take what others leave of the CPUs, until they have fallen behind. When they
// fall far behind all the same, there is less room for more (HasRoom).
type scheduler struct {
	pebble.CompactionScheduler
	behind func() bool // whether those that begin now give way no longer; the database is locked meanwhile
	defers func() bool // whether none is to begin now; the same
	opened atomic.Bool
}

// Register is called when the database opens.
func (s *scheduler) Register(goroutines int, db pebble.DBForCompaction) {
	s.CompactionScheduler.Register(goroutines, granted{db, s})
}

// TrySchedule is called by the database that wants to compact.
func (s *scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	if !s.opened.Load() || s.defers() {
		return false, nil
	}
	may, h := s.CompactionScheduler.TrySchedule()
	return may, modest{h, s}
}

// UpdateGetAllowedWithoutPermission is called when a flush has ended. The database is locked meanwhile.
func (s *scheduler) UpdateGetAllowedWithoutPermission() {
	if s.opened.Load() {
		go s.poke()
	}
}

// open lets compactions run from now on.
func (s *scheduler) open() {
	s.opened.Store(true)
	s.poke()
}

// poke lets those run that have been waiting. A database that was refused one does not ask again, and the scheduler asks it only when a compaction has ended: so one is
// said to have.
func (s *scheduler) poke() {
	if s.defers() {
		return
	}
	if may, h := s.CompactionScheduler.TrySchedule(); may {
		h.Done()
	}
}

// granted is the database as the scheduler has it compact when another compaction has ended.
type granted struct {
	pebble.DBForCompaction
	s *scheduler
}

func (g granted) Schedule(h pebble.CompactionGrantHandle) bool {
	return !g.s.defers() && g.DBForCompaction.Schedule(modest{h, g.s})
}

// modest is a compaction that gives way to all else, unless they have fallen behind.
type modest struct {
	pebble.CompactionGrantHandle
	s *scheduler
}

// Started is called on the goroutine of the compaction, which ends with it.
func (m modest) Started() {
	if !m.s.behind() {
		giveWay()
	}
	m.CompactionGrantHandle.Started()
}
