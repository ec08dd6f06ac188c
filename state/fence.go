package state

import (
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fence is the file system that pebble works on. From the first failure on nothing is changed through it, so that what
// is on disk stays what it was; that the directory was taken away is one.
//
// Pebble has no way back from a failed write of its manifest. If the process does not end then and there, it flushes the
// same memtable once more beside an edit that may well be on disk, its lists of tables do not match any longer, and
// this process panics or the next one does. So such a write, and the sync of a directory, marks the engine as failed and
// is reported to pebble as done: it goes on consistently with itself, in memory, until it is closed.
type fence struct {
	vfs.FS
	engine *engine
	lock   *dirLock
}

// vital tells the files of which pebble cannot bear an error: the manifest, and the marker that names it.
func (f *fence) vital(name string) bool {
	base := f.PathBase(name)
	return strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker.")
}

// judge is what pebble gets to hear of a change with this outcome.
func (f *fence) judge(vital bool, err error) error {
	if err == nil || !vital {
		return err
	}
	f.engine.fail(err)
	return nil
}

// change makes a change, unless the engine has failed. Files go by name, so nothing may be made or removed in a directory
// that is another one by now: it may be another process's.
func (f *fence) change(name string, do func() error) error {
	err := f.engine.failure()
	if err == nil {
		if err = f.lock.held(); err != nil {
			f.engine.fail(err)
		}
	}
	if err == nil {
		err = do()
	}
	return f.judge(f.vital(name), err)
}

// open opens a file for writing. When that does not succeed for a vital one, pebble writes into nothing.
func (f *fence) open(name string, do func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := f.change(name, func() (err error) {
		file, err = do()
		return err
	})
	if err != nil {
		return nil, err
	}
	if file == nil {
		file = vfs.NewMemFile(nil)
	}
	return &fencedFile{File: file, fence: f, vital: f.vital(name)}, nil
}

func (f *fence) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open(name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

func (f *fence) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return f.open(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, o...) })
}

func (f *fence) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.open(to, func() (vfs.File, error) { return f.FS.ReuseForWrite(from, to, c) })
}

// OpenDir opens a directory for syncing. Pebble panics when that fails for the marker.
func (f *fence) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &fencedFile{File: file, fence: f, vital: true}, nil
}

func (f *fence) Link(from, to string) error {
	return f.change(to, func() error { return f.FS.Link(from, to) })
}

func (f *fence) Remove(name string) error {
	return f.change(name, func() error { return f.FS.Remove(name) })
}

func (f *fence) RemoveAll(name string) error {
	return f.change(name, func() error { return f.FS.RemoveAll(name) })
}

func (f *fence) Rename(from, to string) error {
	return f.change(to, func() error { return f.FS.Rename(from, to) })
}

func (f *fence) MkdirAll(name string, perm os.FileMode) error {
	return f.change(name, func() error { return f.FS.MkdirAll(name, perm) })
}

func (f *fence) Unwrap() vfs.FS { return f.FS }

type fencedFile struct {
	vfs.File
	fence *fence
	vital bool
}

func (f *fencedFile) change(do func() error) error {
	err := f.fence.engine.failure()
	if err == nil {
		err = do()
	}
	return f.fence.judge(f.vital, err)
}

func (f *fencedFile) Write(b []byte) (int, error) {
	return f.write(b, func() (int, error) { return f.File.Write(b) })
}

func (f *fencedFile) WriteAt(b []byte, at int64) (int, error) {
	return f.write(b, func() (int, error) { return f.File.WriteAt(b, at) })
}

func (f *fencedFile) write(b []byte, do func() (int, error)) (n int, err error) {
	err = f.change(func() (err error) {
		n, err = do()
		return err
	})
	if err == nil {
		n = len(b) // also when it only seems so
	}
	return n, err
}

func (f *fencedFile) Preallocate(at, length int64) error {
	return f.change(func() error { return f.File.Preallocate(at, length) })
}

func (f *fencedFile) Sync() error { return f.change(f.File.Sync) }

func (f *fencedFile) SyncData() error { return f.change(f.File.SyncData) }

func (f *fencedFile) SyncTo(length int64) (full bool, err error) {
	err = f.change(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}
