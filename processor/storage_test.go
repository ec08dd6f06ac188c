package processor

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// broken is a disk that answers every write with an error while there is one.
type broken struct {
	with atomic.Pointer[syscall.Errno]
}

func (b *broken) inject(op errorfs.Op) error {
	if e := b.with.Load(); e != nil && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		return *e
	}
	return nil
}

func (b *broken) fail(e syscall.Errno) { b.with.Store(&e) }
func (b *broken) mend()                { b.with.Store(nil) }

func (b *broken) storage(t *testing.T) *storage {
	t.Helper()
	s := newStorage(state.Options{Dir: "state", FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(b.inject)), MemoryBudget: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(s.close)
	return s
}

var testPartitionID = state.PartitionID{Group: "g", Topic: testTopic, TopicID: testID, Partition: 3}

// A process starts without a store on a disk that cannot take one, and takes it up when it can.
func TestStorageStartsWithoutADisk(t *testing.T) {
	for errno, what := range map[syscall.Errno]string{syscall.ENOSPC: "the disk is full", syscall.EROFS: "the disk cannot be written", syscall.EIO: "the disk fails"} {
		t.Run(errno.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var disk broken
				disk.fail(errno)
				s := disk.storage(t)
				if err := s.open(); err != nil {
					t.Fatal(err)
				}
				if s.works() || !strings.HasPrefix(s.why(), what) {
					t.Errorf("it works: %v; what is said: %q, want %q", s.works(), s.why(), what)
				}
				if _, err := s.Partition(testPartitionID); !errors.Is(err, errNoStore) {
					t.Errorf("got %v, want errNoStore", err)
				}
				disk.mend()
				time.Sleep(probeFirst)
				if _, err := s.Partition(testPartitionID); err != nil || !s.works() || s.why() != "" {
					t.Errorf("when there is a disk: %v, %q", err, s.why())
				}
				s.close()
			})
		})
	}
}

// What an operator has got wrong keeps a process from starting: a directory that another process has,
// that may not be written, or that is none.
func TestStorageRefusesMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := t.TempDir()
	first := newStorage(state.Options{Dir: taken, Logger: slog.New(slog.DiscardHandler)})
	if err := first.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(first.close)
	forbidden := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		return &fs.PathError{Op: "mkdir", Path: op.Path, Err: syscall.EACCES}
	}))
	for name, c := range map[string]struct {
		options state.Options
		want    error
	}{
		"another process has it": {state.Options{Dir: taken}, state.ErrLocked},
		"it may not be written":  {state.Options{Dir: "state", FS: forbidden}, fs.ErrPermission},
		"it is a file":           {state.Options{Dir: filepath.Join(file, "state")}, syscall.ENOTDIR},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Logger = slog.New(slog.DiscardHandler)
			s := newStorage(c.options)
			t.Cleanup(s.close)
			if err := s.open(); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// A store that fails once is opened again at once. One that fails again soon is left alone for
// longer each time, and a disk that stays broken is looked at every 10 to 30 s.
func TestStorageTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk broken
		s := disk.storage(t)
		if err := s.open(); err != nil {
			t.Fatal(err)
		}
		fails := func() {
			t.Helper()
			disk.fail(syscall.EIO)
			if err := s.store.Flush(); !errors.Is(err, state.ErrFailed) {
				t.Fatalf("flush: %v", err)
			} else {
				s.failed(err)
				s.failed(err) // another lane that meets it
			}
		}
		fails()
		disk.mend()
		if err := s.try(); err != nil {
			t.Errorf("the first time: %v", err)
		}
		s.failed(state.ErrFailed) // a handle from before
		equal(t, "works after a late word of the failure", s.works(), true)
		for _, pause := range []time.Duration{2 * probeFirst, 4 * probeFirst} {
			fails()
			disk.mend()
			time.Sleep(pause - time.Second)
			if s.try() == nil {
				t.Errorf("it is tried again within %v", pause)
			}
			time.Sleep(time.Second)
			if err := s.try(); err != nil {
				t.Errorf("after %v: %v", pause, err)
			}
		}
		time.Sleep(relapseWithin)
		fails()
		looks := 0
		for range 600 {
			before := s.tried
			if s.try() == nil {
				t.Fatal("a disk that fails works")
			}
			if s.tried != before {
				looks++
			}
			time.Sleep(time.Second)
		}
		if looks < 15 || looks > 40 {
			t.Errorf("in ten minutes the disk is looked at %d times", looks)
		}
		s.close()
	})
}

// A partition of a log that has lost what is needed waits for the store that may have it, even if
// a loss is accepted.
func TestTruncatedWithoutAStore(t *testing.T) {
	l := testLane(t, func(c *Config) { c.AcceptLoss = true })
	l.store.lost(syscall.ENOSPC)
	l.store.tried, l.store.pause = time.Now(), time.Hour
	_, err := l.assign(state.Checkpoint{Offset: 20, LowWater: 5}, 10, 30, 30)
	if !errors.Is(err, ErrLogTruncated) || !errors.Is(err, errNoStore) {
		t.Errorf("got %v", err)
	}
	l.store.trouble.Store(nil)
	if p, err := l.assign(state.Checkpoint{Offset: 20, LowWater: 5}, 10, 30, 30); err != nil || p.Marks().Committed.LowWater != 10 {
		t.Errorf("with a store that has nothing: %v", err)
	}
}

// Where nearly all is due soon a memtable is not full for hours. The store on the disk keeps up with the logs nevertheless, so that a kill has
// little read again; and it is not flushed for less.
func TestStorageKeepsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		s := newStorage(state.Options{Dir: "state", FS: fs, MemoryBudget: 1 << 20, Logger: slog.New(slog.DiscardHandler)})
		defer s.close()
		if err := s.open(); err != nil {
			t.Fatal(err)
		}
		p, err := s.Partition(testPartitionID)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.run(ctx) }()
		left := func() int64 {
			t.Helper()
			time.Sleep(flushEvery + time.Second)
			crashed, err := state.Open(state.Options{Dir: "state", FS: fs.CrashClone(vfs.CrashCloneCfg{}), MemoryBudget: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer crashed.Close()
			return crashed.Positions()[testPartitionID].Resume
		}
		for _, step := range []struct{ at, left int64 }{
			{flushBehind, flushBehind}, {2*flushBehind - 1, flushBehind}, {2 * flushBehind, 2 * flushBehind}, {2*flushBehind + 1, 2 * flushBehind},
		} {
			if err := p.Commit(state.Position{Resume: step.at, Offset: step.at}); err != nil {
				t.Fatal(err)
			}
			if got := left(); got != step.left {
				t.Errorf("at %d a crash leaves the store at %d, want %d", step.at, got, step.left)
			}
		}
		cancel()
		<-done
	})
}

// What never was far from due is not in the store, and its position is, some seconds later and at the end of a process: so what was delivered does
// not come again when the group's offsets have expired.
func TestCheckpointFromAStoreThatHoldsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, l *lane, p *partition)
	}{
		{"some seconds later", func(t *testing.T, l *lane, p *partition) {
			p.syncedAt = time.Now().Add(-2 * syncInterval)
			if err := p.tidyStore(); err != nil {
				t.Fatal(err)
			}
		}},
		{"at the end", func(t *testing.T, l *lane, _ *partition) { l.storePositions(l.order) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testLane(t)
			p := livePartition(t, l)
			l.order = []*partition{p}
			l.read(t, p, testNow, req(0, testNow, "orders"), req(1, testNow, "orders"), req(2, ms(1000), "orders"))
			l.happened(p.take(testNow, nil, 10, anyBytes))
			c.end(t, l, p)
			p, err := l.assign(state.Checkpoint{Offset: -1}, 0, 3, 3)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "W", p.Marks().Judge, state.Key{Due: testNow, Seq: 1})
			equal(t, "start", p.Marks().Start, 2)
		})
	}
}

// A store that was brought to a later checkpoint, by a process that then ended, has taken out what that says is resolved, and its position is that of
// before. If the group's offsets expire by then, the log is read from its beginning: by that position a record that was carried would be lost, as the store
// holds neither it nor, yet, its copy.
func TestCheckpointFromAStoreOnTheWay(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	copied := req(3, 0, "orders")
	copied.Headers, _ = topics.AppendCopy(nil, req(0, ms(farMs), "orders").Headers, p.mark, topics.Copy{Due: ms(farMs), Timestamp: testNow}, nil)
	l.read(t, p, testNow, req(0, ms(farMs), "orders"), req(1, ms(farMs+1), "orders"), req(2, ms(farMs+2), "orders"))
	l.happened(p.part(p.Checkpoint()))
	l.read(t, p, testNow, copied) // above O
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(p.Flush())
	l.happened(p.part(p.Checkpoint())) // O passes it, and L the record
	equal(t, "L", p.Marks().Committed.LowWater, 1)
	_, err := l.assign(p.Marks().Committed, 0, 4, 4)
	must(err)
	p, err = l.assign(state.Checkpoint{Offset: -1}, 0, 4, 4)
	must(err)
	equal(t, "O", p.Marks().Committed.Offset, 0)
}
