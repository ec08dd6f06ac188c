package pending

import "github.com/duewheel/duewheel/state"

// sightedIn takes in what a checkpoint of a queue says: at that time the log reached up to that offset.
func (v *life) sightedIn(c state.Checkpoint) {
	if !v.queue {
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
