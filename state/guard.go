package state

import (
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is the file system that pebble works on. From the first failure on nothing is changed through it, so that what
// is on disk stays what it was; that the directory was taken away is one.
//
// Pebble has no way back from a failed write of its manifest. If the process does not end then and there, it flushes the
// same memtable once more beside an edit that may well be on disk, its lists of tables do not match any longer, and
// this process panics or the next one does. So such a write, and the sync of a directory, marks the engine as failed and
// is reported to pebble as done: it goes on consistently with itself, in memory, until it is closed.
type guard struct {
	vfs.FS
	engine *engine
	lock   *dirLock
}

// vital tells the files of which pebble cannot bear an error: the manifest, and the marker that names it.
func (g *guard) vital(name string) bool {
	base := g.PathBase(name)
	return strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker.")
}

// heard is what pebble gets to hear of a change with this outcome.
func (g *guard) heard(vital bool, err error) error {
	if err == nil || !vital {
		return err
	}
	g.engine.fail(err)
	return nil
}

// change makes a change, unless the engine has failed. Files go by name, so nothing may be made or removed in a directory
// that is another one by now: it may be another process's.
func (g *guard) change(name string, do func() error) error {
	err := g.engine.failure()
	if err == nil {
		if err = g.lock.held(); err != nil {
			g.engine.fail(err)
		}
	}
	if err == nil {
		err = do()
	}
	return g.heard(g.vital(name), err)
}

// open opens a file for writing. When that does not succeed for a vital one, pebble writes into nothing.
func (g *guard) open(name string, do func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := g.change(name, func() (err error) {
		file, err = do()
		return err
	})
	if err != nil {
		return nil, err
	}
	if file == nil {
		file = vfs.NewMemFile(nil)
	}
	return &guardedFile{File: file, guard: g, vital: g.vital(name)}, nil
}

func (g *guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open(name, func() (vfs.File, error) { return g.FS.Create(name, c) })
}

func (g *guard) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return g.open(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, o...) })
}

func (g *guard) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open(to, func() (vfs.File, error) { return g.FS.ReuseForWrite(from, to, c) })
}

// OpenDir opens a directory for syncing. Pebble panics when that fails for the marker.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	file, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardedFile{File: file, guard: g, vital: true}, nil
}

func (g *guard) Link(from, to string) error {
	return g.change(to, func() error { return g.FS.Link(from, to) })
}

func (g *guard) Remove(name string) error {
	return g.change(name, func() error { return g.FS.Remove(name) })
}

func (g *guard) RemoveAll(name string) error {
	return g.change(name, func() error { return g.FS.RemoveAll(name) })
}

func (g *guard) Rename(from, to string) error {
	return g.change(to, func() error { return g.FS.Rename(from, to) })
}

func (g *guard) MkdirAll(name string, perm os.FileMode) error {
	return g.change(name, func() error { return g.FS.MkdirAll(name, perm) })
}

func (g *guard) Unwrap() vfs.FS { return g.FS }

type guardedFile struct {
	vfs.File
	guard *guard
	vital bool
}

func (f *guardedFile) change(do func() error) error {
	err := f.guard.engine.failure()
	if err == nil {
		err = do()
	}
	return f.guard.heard(f.vital, err)
}

func (f *guardedFile) Write(b []byte) (int, error) {
	return f.write(b, func() (int, error) { return f.File.Write(b) })
}

func (f *guardedFile) WriteAt(b []byte, at int64) (int, error) {
	return f.write(b, func() (int, error) { return f.File.WriteAt(b, at) })
}

func (f *guardedFile) write(b []byte, do func() (int, error)) (n int, err error) {
	err = f.change(func() (err error) {
		n, err = do()
		return err
	})
	if err == nil {
		n = len(b) // also when it only seems so
	}
	return n, err
}

func (f *guardedFile) Preallocate(at, length int64) error {
	return f.change(func() error { return f.File.Preallocate(at, length) })
}

func (f *guardedFile) Sync() error { return f.change(f.File.Sync) }

func (f *guardedFile) SyncData() error { return f.change(f.File.SyncData) }

func (f *guardedFile) SyncTo(length int64) (full bool, err error) {
	err = f.change(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
