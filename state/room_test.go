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

// While flushes stand still, a writer waits when some memtables are full: what is not on the disk is memory. It goes on when they do, and
// gets an error when they fail.
func TestWritersWaitForFlushes(t *testing.T) {
	const value, values = 100 << 10, 200
	for _, end := range []error{nil, syscall.EIO} {
		t.Run(map[bool]string{true: "they go on", false: "they fail"}[end == nil], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				stuck := &errorfs.Toggle{Injector: errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
						<-gate
						return end
					}
					return nil
				})}
				s, err := Open(Options{Dir: "store", FS: errorfs.Wrap(vfs.NewMem(), stuck), MemoryBudget: 4 * minMemTable})
				must(t, err)
				p := openPartition(t, s, orders(0))
				stuck.On()
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
				close(gate)
				if err := <-ended; end == nil && err != nil || end != nil && !errors.Is(err, ErrFailed) {
					t.Errorf("it ended with %v", err)
				}
				stuck.Off()
				if err := s.Close(); end == nil {
					must(t, err)
				}
			})
		})
	}
}
