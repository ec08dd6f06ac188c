package state

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// stuckTables is a disk on which no table is created, which flushes and compactions do, or none is opened, which only compactions do here: from when it is told
// until the function that it returns is called; then that ends with an error, if any.
func stuckTables(disk vfs.FS, kind errorfs.OpKind) (fs vfs.FS, stick func(end error) (release func())) {
	var end error
	gate := make(chan struct{})
	stuck := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == kind && strings.HasSuffix(op.Path, ".sst") {
			<-gate
			return end
		}
		return nil
	})}
	return errorfs.Wrap(disk, stuck), func(err error) func() {
		end = err
		stuck.On()
		return func() { close(gate) }
	}
}

// A store says in time that flushes do not keep up: after that more can be written than is read at once, and no writer waits. It says so when they do.
func TestHasRoom(t *testing.T) {
	const value, more = 50 << 10, minMemTable / 2
	synctest.Test(t, func(t *testing.T) {
		fs, stick := stuckTables(vfs.NewMem(), errorfs.OpCreate)
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

// A store says that there is less room when compactions fall behind, since each flush then makes all reads slower: the farther they are behind, the longer
// it takes until there is room for more. They give way no longer, before that. No writer waits for any of this.
func TestHasRoomForCompactions(t *testing.T) {
	const size = minMemTable / 8
	synctest.Test(t, func(t *testing.T) {
		fs, stick := stuckTables(vfs.NewMem(), errorfs.OpOpen)
		s, err := Open(Options{Dir: "store", FS: fs, MemoryBudget: 4 * minMemTable})
		must(t, err)
		p := openPartition(t, s, orders(0))
		release := stick(nil) // no compaction reads anything
		flushes := 0
		write := func() {
			flushes++
			s.engine.deferral.reads() // while nothing is read, compactions may fall behind
			must(t, errors.Join(p.Put(Key{1, 1}, make([]byte, size)), p.Commit(Position{}), s.Flush()))
			synctest.Wait()
		}
		gaveWay := 0
		roomed := time.Now() // until there is less room no time passes
		for s.HasRoom() {
			if write(); flushes > 2*roomySublevels {
				t.Fatal("there is room for all, and nothing is compacted")
			}
			if !s.engine.behind() {
				gaveWay = flushes
			}
		}
		if flushes < roomySublevels/2 {
			t.Errorf("there is no room after %d flushes", flushes)
		}
		if gaveWay < flushes/4 || gaveWay > flushes*3/4 {
			t.Errorf("compactions give way until %d flushes, and there is less room from %d on", gaveWay, flushes)
		}
		for _, beyond := range []int{1, 10, 50} {
			for flushes < roomySublevels+beyond || s.engine.sublevels.Load() < roomySublevels+int32(beyond) {
				write() // a writer that waits here waits for ever
			}
			for s.engine.written.Load()-s.engine.roomAt.Load() < size { // or there is room since nothing was written
				write()
			}
			over, since := int64(s.engine.sublevels.Load())-roomySublevels, s.engine.written.Load()-s.engine.roomAt.Load()
			want := time.Duration(float64(time.Second) * float64(since*over) / roomBytes)
			time.Sleep(want - time.Since(roomed) - time.Microsecond)
			if s.HasRoom() {
				t.Errorf("%d sublevels beyond: there is room before %v", over, want)
			}
			time.Sleep(2 * time.Microsecond)
			if !s.HasRoom() {
				t.Errorf("%d sublevels beyond: there is no room after %v", over, want)
			}
			roomed = time.Now()
		}
		write()
		write() // much, in no time
		if !s.engine.behind() {
			t.Error("compactions give way that have fallen behind, and more comes")
		}
		time.Sleep(time.Second*minMemTable/muchComes + time.Millisecond)
		if s.engine.behind() {
			t.Error("compactions give way no longer, and nothing comes any more")
		}
		for s.engine.sublevels.Load() <= 2*mostDeferred {
			write()
			time.Sleep(time.Second)
		}
		if !s.engine.behind() {
			t.Error("compactions give way that have fallen behind very far")
		}
		release()
		synctest.Wait()
		if s.engine.behind() || !s.HasRoom() { // which looks
			t.Error("there is no room when all is compacted, or compactions give way no longer")
		}
		must(t, s.Close())
	})
}

// While much is written and nothing is read, compactions wait, and there is room: up to so many sublevels. They begin with the first that is read.
func TestCompactionsWaitForReaders(t *testing.T) {
	const size = minMemTable / 8
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Options{Dir: "store", FS: vfs.NewMem(), MemoryBudget: 4 * minMemTable})
		must(t, err)
		p := openPartition(t, s, orders(0))
		write := func() (sublevels int) {
			must(t, errors.Join(p.Put(Key{1, 1}, make([]byte, size)), p.Commit(Position{}), s.Flush()))
			synctest.Wait()
			if !s.HasRoom() {
				t.Error("there is no room")
			}
			return int(s.engine.sublevels.Load())
		}
		for n := range mostDeferred - 1 {
			if got := write(); got != n+1 {
				t.Fatalf("%d sublevels after %d flushes", got, n+1)
			}
		}
		for range 3 {
			if got := write(); got > mostDeferred {
				t.Fatalf("%d sublevels, want %d at most", got, mostDeferred)
			}
		}
		for s.engine.sublevels.Load() < 4*mergedSublevels {
			write()
		}
		_, err = p.Get(Key{1, 1}, func([]byte) {})
		must(t, err)
		synctest.Wait()
		s.engine.look()
		if got := s.engine.sublevels.Load(); got > mergedSublevels {
			t.Errorf("%d sublevels when something was read", got)
		}
		for range 4 * mergedSublevels { // a little is no reason to wait
			time.Sleep(time.Second * size / muchComes * 2)
			if got := write(); got > mergedSublevels {
				t.Errorf("%d sublevels, and little is written", got)
			}
		}
		must(t, s.Close())
	})
}

// A store that is opened knows at once how far its compactions have fallen behind, and has them go on.
func TestCompactionsBehindWhenOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func(disk vfs.FS) *Store {
			s, err := Open(Options{Dir: "store", FS: disk, MemoryBudget: 4 * minMemTable})
			must(t, err)
			return s
		}
		disk := vfs.NewMem()
		fs, stick := stuckTables(disk, errorfs.OpOpen)
		first := open(fs)
		p := openPartition(t, first, orders(0))
		release := stick(nil) // no compaction reads anything
		for !first.engine.behind() {
			must(t, errors.Join(p.Put(Key{1, 1}, []byte("a")), p.Commit(Position{}), first.Flush()))
			synctest.Wait()
		}
		for range 5 { // a flush of nothing that has ended before the question makes the store look, too: not each time
			copied := vfs.NewMem()
			_, err := vfs.Clone(disk, copied, "store", "store")
			must(t, err)
			fs, stick := stuckTables(copied, errorfs.OpCreate)
			goOn := stick(nil) // no compaction writes anything
			second := open(fs)
			if n := second.engine.sublevels.Load(); n <= modestSublevels {
				t.Errorf("%d sublevels, and compactions had fallen behind before the store was opened", n)
			}
			goOn()
			synctest.Wait()
			if n := second.engine.sublevels.Load(); n > mergedSublevels {
				t.Errorf("%d sublevels, and nothing is compacted of what the store had when it was opened", n)
			}
			must(t, second.Close())
		}
		release()
		must(t, first.Close())
	})
}

// While flushes stand still, a writer waits when some memtables are full: what is not on the disk is memory. It goes on when they do, and
// gets an error when they fail.
func TestWritersWaitForFlushes(t *testing.T) {
	const value, values = 100 << 10, 200
	for _, end := range []error{nil, syscall.EIO} {
		t.Run(map[bool]string{true: "they go on", false: "they fail"}[end == nil], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fs, stick := stuckTables(vfs.NewMem(), errorfs.OpCreate)
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

// What was read before a flush, and what was written before the last one, say nothing of what comes after.
func TestFlushBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deferral{begun: time.Now()}
		d.reads()
		for i, is := range []bool{false, true, false} {
			time.Sleep(time.Second)
			if d.flushed([]int64{2 * muchComes, 4 * muchComes, 4 * muchComes}[i]); d.is.Load() != is {
				t.Errorf("after flush %d compactions wait: %v", i, !is)
			}
		}
	})
}
