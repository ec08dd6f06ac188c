package state

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// stuckFlushes is a disk on which no table is written, from when it is told until the function that it returns is called; then that ends with an error,
// if any.
func stuckFlushes() (fs vfs.FS, stick func(end error) (release func())) {
	var end error
	gate := make(chan struct{})
	stuck := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-gate
			return end
		}
		return nil
	})}
	return errorfs.Wrap(vfs.NewMem(), stuck), func(err error) func() {
		end = err
		stuck.On()
		return func() { close(gate) }
	}
}

// A store says in time that flushes do not keep up: after that more can be written than is read at once, and no writer waits. It says so when they do.
func TestHasRoom(t *testing.T) {
	const value, more = 50 << 10, minMemTable / 2
	synctest.Test(t, func(t *testing.T) {
		fs, stick := stuckFlushes()
		s, err := Open(Options{Dir: "store", FS: fs, MemoryBudget: 4 * minMemTable})
		must(t, err)
		p := openPartition(t, s, orders(0))
		written := 0
		write := func() {
			written++
			must(t, errors.Join(p.Put(Key{int64(written), int64(written)}, make([]byte, value)), p.Commit(Position{})))
		}
		write()
		release := stick(nil)
		for s.HasRoom() {
			if write(); written*value > 4*minMemTable {
				t.Fatal("there is room for all, and nothing is flushed")
			}
		}
		if written*value < minMemTable {
			t.Errorf("there is no room when %d KiB are written, with memtables of %d KiB", written*value>>10, minMemTable>>10)
		}
		for range more / value {
			write() // a writer that waits here waits for ever
		}
		if s.HasRoom() {
			t.Error("there is room again, and nothing was flushed")
		}
		release()
		synctest.Wait()
		if !s.HasRoom() {
			t.Error("there is no room when all is flushed")
		}
		must(t, s.Close())
		if !s.HasRoom() {
			t.Error("who uses a store that is closed waits for room, and hears nothing")
		}
	})
}

// A store says that there is no room, too, when compactions fall behind, since each flush then makes all reads slower. No writer waits for that.
func TestHasRoomForCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		stuck := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpOpen && strings.HasSuffix(op.Path, ".sst") {
				<-gate
			}
			return nil
		})}
		s, err := Open(Options{Dir: "store", FS: errorfs.Wrap(vfs.NewMem(), stuck), MemoryBudget: 4 * minMemTable})
		must(t, err)
		p := openPartition(t, s, orders(0))
		stuck.On() // no compaction reads anything
		flushes := 0
		for s.HasRoom() {
			if flushes++; flushes > 2*roomySublevels {
				t.Fatal("there is room for all, and nothing is compacted")
			}
			must(t, errors.Join(p.Put(Key{1, 1}, make([]byte, minMemTable/8)), p.Commit(Position{}), s.Flush()))
		}
		if flushes < roomySublevels/2 {
			t.Errorf("there is no room after %d flushes", flushes)
		}
		must(t, errors.Join(p.Put(Key{1, 1}, make([]byte, minMemTable/8)), p.Commit(Position{}))) // a writer that waits here waits for ever
		close(gate)
		synctest.Wait()
		if !s.HasRoom() {
			t.Error("there is no room when all is compacted")
		}
		must(t, s.Close())
	})
}

// While flushes stand still, a writer waits when some memtables are full: what is not on the disk is memory. It goes on when they do, and
// gets an error when they fail.
func TestWritersWaitForFlushes(t *testing.T) {
	const value, values = 100 << 10, 200
	for _, end := range []error{nil, syscall.EIO} {
		t.Run(map[bool]string{true: "they go on", false: "they fail"}[end == nil], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs, stick := stuckFlushes()
				s, err := Open(Options{Dir: "store", FS: fs, MemoryBudget: 4 * minMemTable})
				must(t, err)
				p := openPartition(t, s, orders(0))
				release := stick(end)
				var written atomic.Int64
				ended := make(chan error, 1)
				go func() {
					for k := range int64(values) {
						err := errors.Join(p.Put(Key{1 + k, k}, make([]byte, value)), p.Commit(Position{}))
						if err != nil {
							ended <- err
							return
						}
						written.Add(value)
					}
					ended <- nil
				}()
				synctest.Wait()
				if n := written.Load(); n < minMemTable || n > 4*minMemTable {
					t.Errorf("%d KiB were written while nothing is flushed, with memtables of %d KiB", n>>10, minMemTable>>10)
				}
				release()
				if err := <-ended; end == nil && err != nil || end != nil && !errors.Is(err, ErrFailed) {
					t.Errorf("it ended with %v", err)
				}
				if err := s.Close(); end == nil {
					must(t, err)
				}
			})
		})
	}
}
