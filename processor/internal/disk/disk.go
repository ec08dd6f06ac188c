// Package disk makes disks that fail, for tests.
package disk

import (
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Broken is a disk that answers every write with an error while there is one. The zero value works. Every goroutine may use it.
type Broken struct {
	with atomic.Pointer[syscall.Errno]
}

// FS is a file system on the disk.
func (b *Broken) FS(fs vfs.FS) vfs.FS { return errorfs.Wrap(fs, errorfs.InjectorFunc(b.inject)) }

func (b *Broken) inject(op errorfs.Op) error {
	if e := b.with.Load(); e != nil && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		return *e
	}
	return nil
}

// Fail has it fail from now on.
func (b *Broken) Fail(e syscall.Errno) { b.with.Store(&e) }

// Mend has it work again.
func (b *Broken) Mend() { b.with.Store(nil) }
