package pending

import "github.com/duewheel/duewheel/state"

// changedKind takes note of an owner that keeps what is pending otherwise than the one before.
func (v *life) changedKind(was *Partition) {
	switch {
	case was == nil:
	case !was.Ordered() && v.p.Ordered():
		if v.note("a queue from now on"); v.committed.Offset < v.end() {
			v.note("a queue, of what was written for keys")
		}
	case was.Ordered() && !v.p.Ordered():
		if v.note("no queue any more"); v.committed.Offset < v.end() {
			v.note("no queue any more, with some in it")
		}
	case !v.p.Ordered() && v.told().fixed:
		v.note("a fixed delay, and keys are pending")
	}
}

// sightedIn takes in what a checkpoint of a queue says: at that time the log reached up to that offset. One by keys says nothing of that, and what was said
// before is forgotten.
func (v *life) sightedIn(c state.Checkpoint) {
	if !v.p.Ordered() {
		for offset := range v.log {
			v.log[offset].known = 0
		}
		return
	}
	for offset := c.Offset; offset < min(c.Watermark.Seq, v.end()); offset++ {
		if e := &v.log[offset]; e.known == 0 || c.Watermark.Due < e.known {
			e.known = c.Watermark.Due
		}
	}
}

// known is when a record of a queue counts as written at the latest.
func (v *life) known(e *entry) int64 {
	if e.known == 0 {
		return v.latest
	}
	return min(e.known, v.latest)
}
