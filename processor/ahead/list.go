package ahead

import "iter"

// Count is how many All returns, at most.
func (p *Partition) Count() int { return p.n - p.gone }

// Forget gives back the memory of all records. Parsers, and what was traced, stay.
func (p *Partition) Forget() { p.entries = entries{} }

// Pending is one record that waits to be delivered.
type Pending struct {
	Offset int64 // where the log had it first
	Place  int64 // where the log holds it now
	Due    int64 // ms: when it is delivered; of one that is AtOnce, about when its backoff is over
	Key    int64 // ms: its own due time; in a queue it waits for those before it, too
	Size   int   // bytes of key, value and headers
	Target string
	Late   bool // its time was over before it was read: it is delivered when O passes it
	AtOnce bool // of a retry route whose topic does not tell when it came: its owner has yet to give it its time
	Read   bool // an owner has read it: it lies below O, or lay there first
}

// All are those that were chosen, in the order of the log. It counts after Decide.
func (p *Partition) All() iter.Seq[Pending] {
	return func(yield func(Pending) bool) {
		last := int64(0)
		for _, entries := range p.chunks {
			for i := range entries {
				e := &entries[i]
				if e.condition != isHeld {
					continue
				}
				w := p.show(e)
				if p.queue {
					w.Due = max(w.Due, last)
					last = w.Due
				}
				if e.flags&chosen != 0 && !yield(w) {
					return
				}
			}
		}
	}
}

func (p *Partition) show(e *entry) Pending {
	w := Pending{Offset: p.seq(e), Place: e.offset, Due: e.due, Key: e.due, Size: int(e.size), Target: p.targets[e.target], Read: p.seq(e) < p.checkpoint.Offset}
	w.Late = !p.queue && !p.checkpoint.Watermark.Less(p.key(e))
	if w.AtOnce = e.flags&atOnce != 0; w.AtOnce {
		w.Due, w.Late = e.written, false
	}
	return w
}

// last is the one that a queue has taken in last, and whether it was chosen. There must be one.
func (p *Partition) last() (last Pending, isChosen bool) {
	e := p.at(int32(p.n - 1))
	last = p.show(e)
	last.Due = p.tail
	return last, e.flags&chosen != 0
}
