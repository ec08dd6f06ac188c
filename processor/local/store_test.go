package local

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/duewheel/duewheel/processor/internal/disk"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/state"
)

const testTopic = "requests"

var (
	testID          = kafka.TopicID{1, 2, 3, 4, 5}
	testTP          = kafka.TopicPartition{Topic: testTopic, Partition: 3}
	testPartitionID = state.PartitionID{Group: "g", Topic: testTopic, TopicID: testID, Partition: testTP.Partition}
)

// testStore is one that is not opened; it is closed when the test ends.
func testStore(t *testing.T, o state.Options) *Store {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	s := New(o, "g", &picture.Set{})
	t.Cleanup(s.Close)
	return s
}

func storeOn(t *testing.T, d *disk.Broken) *Store {
	t.Helper()
	return testStore(t, state.Options{Dir: "state", FS: d.FS(vfs.NewMem()), MemoryBudget: 1 << 20})
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// A process starts without a store on a disk that cannot take one, and takes it up when it can.
func TestStorageStartsWithoutADisk(t *testing.T) {
	for errno, what := range map[syscall.Errno]string{syscall.ENOSPC: "the disk is full", syscall.EROFS: "the disk cannot be written", syscall.EIO: "the disk fails"} {
		t.Run(errno.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken disk.Broken
				broken.Fail(errno)
				s := storeOn(t, &broken)
				if err := s.Open(); err != nil {
					t.Fatal(err)
				}
				if s.Works() || !strings.HasPrefix(s.Why(), what) {
					t.Errorf("it works: %v; what is said: %q, want %q", s.Works(), s.Why(), what)
				}
				if _, err := s.Partition(testPartitionID); !errors.Is(err, ErrNoStore) {
					t.Errorf("got %v, want ErrNoStore", err)
				}
				broken.Mend()
				time.Sleep(probeFirst)
				if _, err := s.Partition(testPartitionID); err != nil || !s.Works() || s.Why() != "" {
					t.Errorf("when there is a disk: %v, %q", err, s.Why())
				}
				s.Close()
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
	if err := testStore(t, state.Options{Dir: taken}).Open(); err != nil {
		t.Fatal(err)
	}
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
			if err := testStore(t, c.options).Open(); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// A store that fails once is opened again at once. One that fails again soon is left alone for
// longer each time, and a disk that stays broken is looked at every 10 to 30 s.
func TestStorageTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken disk.Broken
		s := storeOn(t, &broken)
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		fails := func() {
			t.Helper()
			broken.Fail(syscall.EIO)
			if err := s.store.Flush(); !errors.Is(err, state.ErrFailed) {
				t.Fatalf("flush: %v", err)
			} else {
				s.Failed(err)
				s.Failed(err) // another lane that meets it
			}
		}
		fails()
		broken.Mend()
		if err := s.Try(); err != nil {
			t.Errorf("the first time: %v", err)
		}
		s.Failed(state.ErrFailed) // a handle from before
		equal(t, "works after a late word of the failure", s.Works(), true)
		for _, pause := range []time.Duration{2 * probeFirst, 4 * probeFirst} {
			fails()
			broken.Mend()
			time.Sleep(pause - time.Second)
			if s.Try() == nil {
				t.Errorf("it is tried again within %v", pause)
			}
			time.Sleep(time.Second)
			if err := s.Try(); err != nil {
				t.Errorf("after %v: %v", pause, err)
			}
		}
		time.Sleep(relapseWithin)
		fails()
		looks := 0
		for range 600 {
			before := s.tried
			if s.Try() == nil {
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
		s.Close()
	})
}

// Where nearly all is due soon a memtable is not full for hours. The store on the disk keeps up with the logs nevertheless, so that a kill has
// little read again; and it is not flushed for less.
func TestStorageKeepsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		s := testStore(t, state.Options{Dir: "state", FS: fs, MemoryBudget: 1 << 20})
		defer s.Close()
		if err := s.Open(); err != nil {
			t.Fatal(err)
		}
		p, err := s.Partition(testPartitionID)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		left := func() int64 {
			t.Helper()
			time.Sleep(FlushEvery + time.Second)
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
