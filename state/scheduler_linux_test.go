package state

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
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

// However a compaction is let run, at once or when another one has ended, it gives way, and nothing else does; but not while compactions are behind.
func TestCompactionsGiveWay(t *testing.T) {
	c := &anyCompaction{}
	s := &scheduler{CompactionScheduler: c}
	s.Register(1, c)
	s.open()
	for _, behind := range []bool{false, true} {
		want := niceness
		if behind {
			want = 0
		}
		s.behind.Store(behind)
		for name, run := range map[string]func(){
			"at once": func() { _, h := s.TrySchedule(); h.Started() },
			"later":   func() { c.db.Schedule(c) },
		} {
			if its, others := threadNice(t, run); its != want || others != 0 {
				t.Errorf("%s, behind %v: niceness %d, and %d of others; want %d and 0", name, behind, its, others, want)
			}
		}
	}
}

// A store that is written to finds out that compactions are behind, and that they are not any more.
func TestCompactionsBehind(t *testing.T) {
	s, err := Open(Options{Dir: "store", FS: vfs.NewMem(), MemoryBudget: 4 * minMemTable})
	must(t, err)
	p := openPartition(t, s, orders(0))
	n := int64(0)
	flush := func() {
		n++
		must(t, errors.Join(p.Put(Key{1 + n%3, 1}, fmt.Append(nil, n)), p.Commit(Position{}), s.Flush()))
	}
	behind := func(want bool) {
		t.Helper()
		s.engine.keepsUp(mostTables)
		if got := s.engine.compactions.behind.Load(); got != want {
			t.Errorf("behind: %v, after %d flushes, with %d sublevels", got, n, s.engine.db.Metrics().Levels[0].Sublevels)
		}
	}
	s.engine.compactions.opened.Store(false) // none begins
	for range manySublevels {
		flush()
	}
	s.engine.compactions.behind.Store(true) // as it was
	behind(false)
	flush()
	flush()
	behind(true)
	must(t, s.Close())
}
