package processor

import (
	"sync/atomic"
	"time"

	"github.com/duewheel/duewheel/processor/pending"
)

// memory is what a lane has for near records. It belongs to the lane; every goroutine may read what was published.
type memory struct {
	budget    int64
	widest    int64 // the near window where there is room, in ms
	window    int64 // ms ahead of the clock that is kept in memory
	used      int64
	lacks     bool         // something is to be loaded from the store, and there is room
	published atomic.Int64 // used, a while ago
}

// room is what there is for the records of so many partitions.
func (m *memory) room(partitions int) pending.Room {
	return pending.Room{Window: m.window, Most: m.widest, Budget: m.budget, Used: m.used, Share: m.budget / int64(max(partitions, 1))}
}

// leastStep is how many records each partition may load in a step at least, however many of them lack some: finding the first costs as much.
const leastStep = 100

// load brings what is due soon from the store into memory: one step, shared by the partitions that lack something, so that neither reading nor
// turns wait for long. It returns the partition whose store failed.
func (m *memory) load(ps []*partition, now int64) (failed *partition, err error) {
	room := m.room(len(ps))
	lacking := 0
	for _, p := range ps {
		if p.live() && p.Lacks(now, room) {
			lacking++
		}
	}
	room.Step = max(pending.LoadRecords/max(lacking, 1), leastStep)
	m.lacks = false
	for _, p := range ps {
		if !p.live() {
			continue
		}
		lacks, had := p.Lacks(now, room), int64(0)
		if lacks {
			had = p.Memory()
		}
		if err := p.Load(now, room); err != nil {
			return p, err
		}
		if lacks {
			m.used += p.Memory() - had
			room.Used = m.used
			m.lacks = m.lacks || p.Lacks(now, room)
		}
	}
	return nil, nil
}

// pause is how soon load has to go on.
func (m *memory) pause() time.Duration {
	if m.lacks {
		return leastPause
	}
	return time.Hour
}

// fit keeps the near records inside the budget: the window shrinks and its far end goes to
// the store; it widens again when there is room.
func (m *memory) fit(ps []*partition, now int64) error {
	m.used = 0
	for _, p := range ps {
		if p.opened() {
			m.used += p.Memory()
		}
	}
	switch {
	case m.used > m.budget:
		if m.window > pending.LeastWindow {
			m.window = max(m.window/2, pending.LeastWindow)
		}
		for _, p := range ps {
			if !p.opened() {
				continue
			}
			if err := p.Fit(now, m.room(len(ps))); err != nil {
				return err
			}
		}
	case m.used < m.budget/4 && m.window < m.widest:
		m.window = min(2*m.window, m.widest)
	}
	return nil
}
