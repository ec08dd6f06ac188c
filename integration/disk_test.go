package integration

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/duewheel/duewheel/integration/load"
)

// smallDisk is the disk of a directory that has room for some bytes only.
type smallDisk struct {
	dir  string
	room atomic.Int64
}

func (d *smallDisk) fs() vfs.FS {
	return errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpRemove && d.used() > d.room.Load() {
			return syscall.ENOSPC
		}
		return nil
	}))
}

func (d *smallDisk) used() (n int64) {
	_ = filepath.WalkDir(d.dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // files come and go
		}
		if i, err := e.Info(); err == nil {
			n += i.Size()
		}
		return nil
	})
	return n
}

// A processor whose disk fills up says so and goes on: near and far records are delivered from memory and the log. When there is room
// again it uses the store again, by itself.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{targets: 2, seed: newSeed(t)})
	c := s.replica()
	disk := &smallDisk{dir: c.StateDir}
	disk.room.Store(6 << 20)
	c.FS = disk.fs()
	p := s.start(c)
	s.awaitLive(p, 4)
	far := []load.Due{{Weight: 1, From: 12 * time.Second, To: 20 * time.Second}}
	s.load(load.Config{Records: 40_000, ValueBytes: 1000, Due: far}, load.Config{Records: 4000, Rate: 1000, Due: []load.Due{{Weight: 1, To: 3 * time.Second}}})
	eventually(t, func() string {
		if trouble := p.Stats().StoreTrouble; trouble == "" {
			return fmt.Sprintf("the disk is full; it takes %d bytes", disk.used())
		}
		return ""
	})
	t.Logf("without a store: %s", p.Stats().StoreTrouble)
	s.arrive()
	t.Logf("%d times read again; %s", p.Stats().ReadAgain, s.watch.Counts().Summary())
	disk.room.Store(1 << 40)
	eventually(t, func() string { return p.Stats().StoreTrouble })
	eventually(t, func() string {
		for _, part := range p.Stats().Partitions {
			if part.Reason != "" {
				return part.Reason
			}
		}
		return ""
	})
	s.load(load.Config{Records: 4000, Due: []load.Due{{Weight: 1, From: 3 * time.Second, To: 9 * time.Second}}})
	eventually(t, func() string {
		var pending, near int64
		for _, part := range p.Stats().Partitions {
			pending, near = pending+part.Pending, near+part.Near
		}
		if pending == near {
			return fmt.Sprintf("far records are in the store again: %d pending, %d in memory", pending, near)
		}
		return ""
	})
	s.arrive()
	p.stop()
	s.judge()
}
