package state

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sys/unix"
)

// anyCompaction is what a scheduler of pebble knows, and what it grants.
type anyCompaction struct {
	pebble.CompactionScheduler
	pebble.CompactionGrantHandle
	db pebble.DBForCompaction
}

func (c *anyCompaction) Register(_ int, db pebble.DBForCompaction)         { c.db = db }
func (c *anyCompaction) TrySchedule() (bool, pebble.CompactionGrantHandle) { return true, c }
func (c *anyCompaction) UpdateGetAllowedWithoutPermission()                {}
func (c *anyCompaction) Started()                                          {}
func (c *anyCompaction) Done()                                             {}
func (c *anyCompaction) Schedule(h pebble.CompactionGrantHandle) (took bool) {
	h.Started()
	return true
}
func (c *anyCompaction) GetAllowedWithoutPermission() int { return 1 }
func (c *anyCompaction) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	return true, pebble.WaitingCompaction{}
}

// threadNice is the niceness of a goroutine's thread after something was called on it, and of another goroutine's afterwards.
func threadNice(t *testing.T, call func()) (its, others int) {
	t.Helper()
	nice := func(call func()) (n int) {
		done := make(chan error)
		go func() {
			call()
			raw, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
			n = 20 - raw // as the system call gives it
			done <- err
		}()
		must(t, <-done)
		return n
	}
	its = nice(call)
	return its, nice(func() {})
}

// However a compaction is let run, at once or when another one has ended, it gives way, and nothing else does. When they have fallen behind it gives way no longer.
func TestCompactionsGiveWay(t *testing.T) {
	c, behind := &anyCompaction{}, false
	s := &scheduler{CompactionScheduler: c, behind: func() bool { return behind }, defers: func() bool { return false }}
	s.Register(1, c)
	s.open()
	_, usual := threadNice(t, func() {})
	for name, run := range map[string]func(){
		"at once": func() { _, h := s.TrySchedule(); h.Started() },
		"later":   func() { c.db.Schedule(c) },
	} {
		for _, behind = range []bool{false, true} {
			want := min(usual+niceness, 19)
			if behind {
				want = usual
			}
			if its, others := threadNice(t, run); its != want || others != usual {
				t.Errorf("%s: niceness %d, and %d of others; want %d and %d", name, its, others, want, usual)
			}
		}
	}
}
