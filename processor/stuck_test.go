package processor

import (
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
)

// The disk fails while it has what comes first of the late list: the lane learns it, although the partition has nothing else in the store.
func TestStoreFailsWithTheLateList(t *testing.T) {
	var disk broken
	l := testLane(t, func(c *Config) { c.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(disk.inject)) })
	const many = 3000
	p, err := l.assign(state.Checkpoint{Watermark: state.Key{Due: testNow}}, 0, many, many)
	if err != nil {
		t.Fatal(err)
	}
	for offset := range int64(many) {
		l.read(t, p, testNow, req(offset, ms(-1000), "orders"))
	}
	if _, err := p.Fit(testNow, pending.Room{Window: pending.LeastWindow, Most: 4000, Budget: 1 << 10, Used: 1 << 10, Share: 1 << 10}); err != nil {
		t.Fatal(err)
	}
	if err := p.goLive(l.memory.room(1)); err != nil {
		t.Fatal(err)
	}
	disk.fail(syscall.ENOSPC)
	if err := l.store.opened.Load().Flush(); err == nil {
		t.Fatal("the disk works")
	}
	for pt := p.take(testNow, nil, 100, anyBytes); pt != nil; pt = p.take(testNow, nil, 100, anyBytes) {
		l.happened(pt)
	}
	if p.Pending() == 0 {
		t.Fatal("nothing was laid aside")
	}
	if failed, err := l.memory.load(l.order, testNow); err != nil {
		l.restart(t.Context(), failed, err)
	}
	equal(t, "it has a store", p.HasStore(), false)
	equal(t, "it is to be read again", p.UsedUp(testNow, l.memory.room(1)), true)
}
