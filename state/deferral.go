package state

import (
	"sync/atomic"
	"time"
)

const (
	// muchComes is how many bytes a second are much.
	muchComes = 8 << 20
	// mostDeferred is how many sublevels of L0 there are at most while compactions wait for a reader.
	mostDeferred = 200
)

// deferral is whether compactions wait: while much comes and nothing is read, as when a store is made anew from the log. Each compaction writes again what others have
// written; one that is put off until there is more does the same for all of it, and only reads are slower meanwhile.
type deferral struct {
	begun time.Time
	is    atomic.Bool  // as of the last flush
	read  atomic.Bool  // something was read since then
	much  atomic.Bool  // much came before it
	at    atomic.Int64 // when it ended, in ns since begun

	written int64 // bytes that were written until then; who ends a flush has it for itself
}

// flushed is called when a flush has ended, after which so much was written in all.
func (d *deferral) flushed(written int64) {
	now := time.Since(d.begun)
	much := float64(written-d.written) > muchComes*(now-time.Duration(d.at.Swap(int64(now)))).Seconds()
	d.written = written
	d.much.Store(much)
	d.is.Store(!d.read.Swap(false) && much)
}

// reads is called before something is read. It reports whether compactions have waited until now.
func (d *deferral) reads() bool {
	if !d.read.Load() {
		d.read.Store(true)
	}
	return d.is.Load() && d.is.Swap(false)
}

// muchNow reports whether much comes, where a flush is worth so many bytes.
func (d *deferral) muchNow(flush uint64) bool {
	since := time.Since(d.begun) - time.Duration(d.at.Load())
	return d.much.Load() && since.Seconds() <= float64(flush)/muchComes
}
