package local

import (
	"errors"
	"testing"
)

// What was written before a flush began is on the disk when that is done, or a later one, and not with one that has failed, or began before.
func TestFlushing(t *testing.T) {
	var f flushing
	var during int64
	before := f.next()
	equal(t, "before any", f.has(before), false)
	f.run(func() error {
		during = f.next()
		return nil
	})
	equal(t, "what was written before", f.has(before), true)
	equal(t, "and meanwhile", f.has(during), false)
	failed := f.next()
	if err := f.run(func() error { return errors.New("disk") }); err == nil {
		t.Error("it has not failed")
	}
	equal(t, "after one that has failed", f.has(failed), false)
	f.run(func() error {
		f.run(func() error { return nil }) // begins later, and is done before
		return nil
	})
	equal(t, "after a later one", f.has(failed), true)
	equal(t, "the last that is done", f.done.Load(), 4)
}
