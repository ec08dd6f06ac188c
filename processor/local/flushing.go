package local

import "sync/atomic"

// flushing counts flushes of the store, so that it can be told whether something is on the disk. Every goroutine may use it.
type flushing struct{ begun, done atomic.Int64 }

// next is the first flush that begins from now on: when it is done, all is on the disk that was written until now.
func (f *flushing) next() int64 { return f.begun.Load() + 1 }

// has reports whether that flush is done, or a later one.
func (f *flushing) has(n int64) bool { return f.done.Load() >= n }

// run flushes.
func (f *flushing) run(flush func() error) error {
	n := f.begun.Add(1)
	if err := flush(); err != nil {
		return err
	}
	for {
		if done := f.done.Load(); n <= done || f.done.CompareAndSwap(done, n) {
			return nil
		}
	}
}
