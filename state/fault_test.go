package state

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// lines collects the warnings of a store.
type lines struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), what)
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// A full disk is an error of the call, whatever it hits first: it neither ends the process nor holds the writer for ever.
// When there is room again the store goes on with a prefix of what was committed.
func TestFullDisk(t *testing.T) {
	for what, hits := range map[string]func(errorfs.Op) bool{
		"everything written": func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite },
		"new tables":         func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") },
		"tables":             func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") },
		"manifest": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "MANIFEST")
		},
		"manifest sync": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileSync && strings.Contains(op.Path, "MANIFEST")
		},
	} {
		t.Run(what, func(t *testing.T) {
			toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
				if hits(op) {
					return syscall.ENOSPC
				}
				return nil
			})}
			var log lines
			s := openStore(t, Options{FS: errorfs.Wrap(vfs.NewMem(), toggle), MemoryBudget: 4 << 20, Logger: log.logger()})
			h := history{seed: 3}
			handles := h.open(t, s)
			n := int64(0)
			for ; n < 200; n++ {
				must(t, h.run(n+1, handles))
			}
			must(t, s.Flush())
			toggle.On()
			var err error
			for err == nil {
				n++
				err = h.run(n, handles)
			}
			if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("write on a full disk: %v, want ErrFailed and ENOSPC", err)
			}
			if err := s.Flush(); !errors.Is(err, ErrFailed) {
				t.Errorf("flush of a failed store: %v, want ErrFailed", err)
			}
			if err := handles[0].Scan(Key{}, func(Key, []byte) bool { return true }); !errors.Is(err, ErrFailed) {
				t.Errorf("scan of a failed store: %v, want ErrFailed", err)
			}
			if _, err := s.Partition(orders(0)); !errors.Is(err, ErrFailed) {
				t.Errorf("open a partition of a failed store: %v, want ErrFailed", err)
			}
			toggle.Off()
			must(t, s.Reopen())
			must(t, s.Reopen()) // another lane asks as well
			if prefix := h.checkPrefix(t, s, n); prefix < 200 {
				t.Errorf("%d batches are left, and 200 were flushed", prefix)
			}
			if err := h.run(n+1, handles); !errors.Is(err, ErrFailed) {
				t.Errorf("write through a handle from before: %v, want ErrFailed", err)
			}
			must(t, h.run(n+1, h.open(t, s)))
			if got := log.count("store failed"); got != 1 {
				t.Errorf("%d lines about the failure, want 1", got)
			}
		})
	}
}

// A full disk is no reason to drop a database that opens as soon as there is room.
func TestFullDiskDropsNothing(t *testing.T) {
	toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		// The directory and its lock are there and take no room: what comes after them is to be reached.
		there := op.Kind == errorfs.OpMkdirAll || filepath.Base(op.Path) == "LOCK"
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && !there {
			return syscall.ENOSPC
		}
		return nil
	})}
	var log lines
	files := vfs.NewMem()
	o := Options{Dir: "store", FS: errorfs.Wrap(files, toggle), MemoryBudget: 4 << 20, Logger: log.logger()}
	s, err := Open(o)
	must(t, err)
	h := history{seed: 8}
	handles := h.open(t, s)
	for n := range int64(100) {
		must(t, h.run(n+1, handles))
	}
	must(t, s.Flush())
	must(t, h.run(101, handles))
	toggle.On()
	if err := s.Flush(); !errors.Is(err, ErrFailed) {
		t.Errorf("flush on a full disk: %v, want ErrFailed", err)
	}
	for range 3 {
		if err := s.Reopen(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("reopen on a full disk: %v, want ENOSPC", err)
		}
	}
	if err := s.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("close a failed store: %v", err)
	}
	if _, err := Open(o); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("open on a full disk: %v, want ENOSPC", err)
	}
	toggle.Off()
	s = openStore(t, Options{FS: o.FS, Logger: o.Logger})
	must(t, s.Try())
	if prefix := h.checkPrefix(t, s, 101); prefix < 100 {
		t.Errorf("%d batches are left, and 100 were flushed", prefix)
	}
	if got := log.count("store dropped"); got != 0 {
		t.Errorf("the store was dropped: %s", log.buf.String())
	}
}

// A store is of use when there is room for some memtables and the disk takes something.
func TestTry(t *testing.T) {
	toggle := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync {
			return syscall.EIO
		}
		return nil
	})}
	files := vfs.NewMem()
	s, err := Open(Options{Dir: "store", FS: errorfs.Wrap(files, toggle), MemoryBudget: 4 << 20})
	must(t, err)
	for _, c := range []struct {
		free uint64
		want error
	}{{4<<20 - 1, ErrNoRoom}, {4 << 20, nil}} {
		files.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: c.free, TotalBytes: 1 << 30})
		if err := s.Try(); !errors.Is(err, c.want) {
			t.Errorf("with %d bytes free: %v, want %v", c.free, err, c.want)
		}
	}
	must(t, s.Err())
	toggle.On()
	if err := s.Try(); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("on a bad disk: %v, want ErrFailed and EIO", err)
	}
	if err := s.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("close a failed store: %v, want ErrFailed", err)
	}
}

// Whatever operation fails once, the store either does not notice or says so, and what it then shows is a prefix.
func TestOneFault(t *testing.T) {
	noticed := 0
	for at := int64(0); at < 400; at += 9 {
		if oneFault(t, at) {
			noticed++
		}
	}
	if noticed < 10 {
		t.Errorf("only %d faults were noticed", noticed)
	}
}

// oneFault lets one operation fail, counted from when the store is open, and tells whether the store noticed.
func oneFault(t *testing.T, at int64) (noticed bool) {
	t.Helper()
	var left atomic.Int64
	left.Store(math.MaxInt64)
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if left.Add(-1) == 0 {
			return fmt.Errorf("%v: %w", op.Kind, syscall.EIO)
		}
		return nil
	})
	s, err := Open(Options{Dir: "store", FS: errorfs.Wrap(vfs.NewMem(), inject), MemoryBudget: 1 << 20})
	must(t, err)
	h := history{seed: uint64(at)}
	handles := h.open(t, s)
	left.Store(at + 1)
	const batches = 150
	for n := int64(1); n <= batches; n++ {
		err := h.run(n, handles)
		if err == nil && n%10 == 0 {
			err = s.Flush()
		}
		if err == nil && n%20 == 0 {
			err = handles[0].Scan(h.batch(n).position.Watermark, func(Key, []byte) bool { return true })
		}
		if err == nil {
			continue
		}
		if noticed || !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("after operation %d failed: %v, want ErrFailed and EIO, once", at, err)
		}
		noticed = true
		must(t, s.Reopen())
		n = h.checkPrefix(t, s, n)
		handles = h.open(t, s)
	}
	err = s.Close()
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	left.Store(math.MaxInt64)
	again, openErr := Open(s.options)
	must(t, openErr)
	if prefix := h.checkPrefix(t, again, batches); err == nil && prefix != batches {
		t.Fatalf("after operation %d failed: closed without an error, but %d batches of %d are there", at, prefix, batches)
	}
	must(t, again.Close())
	return noticed
}

// damage changes one byte in the midst of the largest table.
func damage(t *testing.T, files vfs.FS) {
	t.Helper()
	names, err := files.List("store")
	must(t, err)
	var largest string
	var size int64
	for _, name := range names {
		path := files.PathJoin("store", name)
		stat, err := files.Stat(path)
		must(t, err)
		if strings.HasSuffix(name, ".sst") && stat.Size() > size {
			largest, size = path, stat.Size()
		}
	}
	f, err := files.OpenReadWrite(largest, vfs.WriteCategoryUnspecified)
	must(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, size/2)
	must(t, err)
	b[0] ^= 0x55
	_, err = f.WriteAt(b, size/2)
	must(t, err)
	must(t, f.Close())
}

// remove removes the database's files with a prefix or suffix.
func remove(t *testing.T, files vfs.FS, what string) {
	t.Helper()
	names, err := files.List("store")
	must(t, err)
	hit := false
	for _, name := range names {
		if strings.HasPrefix(name, what) || strings.HasSuffix(name, what) {
			must(t, files.Remove(files.PathJoin("store", name)))
			hit = true
		}
	}
	if !hit {
		t.Fatalf("none of %v is called %s", names, what)
	}
}

func write(t *testing.T, files vfs.FS, name, text string) {
	t.Helper()
	f, err := files.Create(name, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write([]byte(text))
	must(t, err)
	must(t, f.Close())
}

// A database that does not open is made anew, with one line in the log, and what is not the database's stays.
func TestOpenDropsWhatDoesNotOpen(t *testing.T) {
	for what, breakIt := range map[string]func(*testing.T, vfs.FS){
		"manifest lost": func(t *testing.T, files vfs.FS) { remove(t, files, "MANIFEST") },
		"tables lost":   func(t *testing.T, files vfs.FS) { remove(t, files, ".sst") },
		"manifest is nonsense": func(t *testing.T, files vfs.FS) {
			names, err := files.List("store")
			must(t, err)
			for _, name := range names {
				if strings.HasPrefix(name, "MANIFEST") {
					write(t, files, files.PathJoin("store", name), strings.Repeat("nonsense", 1000))
				}
			}
		},
		"other comparer": func(t *testing.T, files vfs.FS) {
			write(t, files, "store/OPTIONS-999999", "[Version]\n  pebble_version=0.1\n[Options]\n  comparer=other\n")
		},
		"made by another program": func(t *testing.T, files vfs.FS) {
			remove(t, files, "marker")
			write(t, files, "store/CURRENT", "MANIFEST-000001\n")
		},
		"format of the future": func(t *testing.T, files vfs.FS) {
			remove(t, files, "marker.format-version")
			write(t, files, "store/marker.format-version.000999.999", "")
		},
		"other layout": func(t *testing.T, files vfs.FS) {
			s, err := Open(Options{Dir: "store", FS: files})
			must(t, err)
			must(t, s.engine.db.Set(layoutKey(), []byte("duewheel 1"), pebble.NoSync))
			must(t, s.Close())
		},
		"foreign database": func(t *testing.T, files vfs.FS) {
			s, err := Open(Options{Dir: "store", FS: files})
			must(t, err)
			must(t, s.engine.db.DeleteRange([]byte{0}, appendPart(nil, 1), pebble.NoSync))
			must(t, s.engine.db.Set([]byte{0, 1, 2}, nil, pebble.NoSync))
			must(t, s.Close())
		},
	} {
		t.Run(what, func(t *testing.T) {
			files := vfs.NewMem()
			s := openStore(t, Options{FS: files})
			h := history{seed: 5}
			handles := h.open(t, s)
			for n := range int64(50) {
				must(t, h.run(n+1, handles))
			}
			must(t, s.Close())
			must(t, files.MkdirAll("store/1", 0o755)) // the directory of another process
			write(t, files, "store/notes.txt", "mine")
			breakIt(t, files)

			var log lines
			s = openStore(t, Options{FS: files, Logger: log.logger()})
			if got := log.count("store dropped"); got != 1 {
				t.Errorf("%d lines about the drop, want 1: %s", got, log.buf.String())
			}
			if prefix := h.checkPrefix(t, s, 50); prefix != 0 {
				t.Errorf("%d batches are left of a dropped store", prefix)
			}
			must(t, h.run(1, h.open(t, s)))
			for _, name := range []string{"store/1", "store/notes.txt"} {
				if _, err := files.Stat(name); err != nil {
					t.Errorf("%s is gone with the database: %v", name, err)
				}
			}
		})
	}
}

// Damage that shows only when a record is read is the failure of the store, and reopening drops it.
func TestDamagedTable(t *testing.T) {
	files := vfs.NewMem()
	s := openStore(t, Options{FS: files, MemoryBudget: 64 << 20})
	p := openPartition(t, s, orders(0))
	fill(t, p, 5_000) // one table: with two, the compaction at opening may see it first
	must(t, s.Close())
	damage(t, files)

	var log lines
	s = openStore(t, Options{FS: files, Logger: log.logger()})
	p = openPartition(t, s, orders(0))
	err := p.Scan(Key{}, func(Key, []byte) bool { return true })
	if !errors.Is(err, ErrFailed) || !errors.Is(err, ErrCorrupt) {
		t.Fatalf("scan of a damaged table: %v, want ErrFailed and ErrCorrupt", err)
	}
	if !errors.Is(s.Err(), ErrCorrupt) {
		t.Errorf("Err is %v, want ErrCorrupt", s.Err())
	}
	must(t, s.Reopen())
	if got := log.count("store dropped"); got != 1 {
		t.Errorf("%d lines about the drop, want 1", got)
	}
	p = openPartition(t, s, orders(0))
	if pos, ok := p.Position(); ok {
		t.Errorf("a dropped store has position %+v", pos)
	}
	if got := keys(t, p, Key{}); len(got) != 0 {
		t.Errorf("a dropped store has %d records", len(got))
	}
}

// A directory that may not be read is no reason to drop anything.
func TestOpenKeepsWhatItMayNotRead(t *testing.T) {
	files := vfs.NewMem()
	s := openStore(t, Options{FS: files})
	must(t, s.Close())
	denied := errorfs.Wrap(files, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpOpen && strings.Contains(op.Path, "MANIFEST") {
			return &fs.PathError{Op: "open", Path: op.Path, Err: fs.ErrPermission}
		}
		if op.Kind == errorfs.OpRemove && strings.Contains(op.Path, "MANIFEST") {
			t.Errorf("%s is removed", op.Path)
		}
		return nil
	}))
	if _, err := Open(Options{Dir: "store", FS: denied}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want ErrPermission", err)
	}
}

func TestOnlyOneStoreInADirectory(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrLocked) {
		t.Errorf("open a second time: %v, want ErrLocked", err)
	}
	must(t, s.Close())
	openStore(t, Options{Dir: dir})
}
