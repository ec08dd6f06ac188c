package state

import (
	"sync/atomic"
	"time"
)

const (
	// muchComes is how many bytes a second are written at least where compactions wait as long as nothing is read.
	muchComes = 8 << 20
	// mostDeferred is how many sublevels of L0 there are then at most.
	mostDeferred = 200
)

// deferral is whether compactions wait: while much comes and nothing is read, as when a store is made anew from the log. Each compaction writes again what others have
// written; one that is put off until there is more does the same for all of it, and only reads are slower meanwhile.
type deferral struct {
	is   atomic.Bool // as of the last flush
	read atomic.Bool // something was read since then

	// Those that end flushes have it for themselves, one after the other.
	at      time.Time // when the last one ended
	written int64     // bytes that were written until then
}

// flushed is called when a flush has ended, after which so much was written in all.
func (d *deferral) flushed(written int64) {
	now := time.Now()
	much := float64(written-d.written) > muchComes*now.Sub(d.at).Seconds()
	d.at, d.written = now, written
	d.is.Store(!d.read.Swap(false) && much)
}

// reads is called before something is read. It reports whether compactions have waited until now.
func (d *deferral) reads() bool {
	if !d.read.Load() {
		d.read.Store(true)
	}
	return d.is.Load() && d.is.Swap(false)
}
