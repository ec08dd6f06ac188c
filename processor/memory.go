package processor

import (
	"sync/atomic"

	"github.com/duewheel/duewheel/processor/pending"
)

// memory is what a lane has for near records. It belongs to the lane; every goroutine may read what was published.
type memory struct {
	budget    int64
	widest    int64 // the near window where there is room, in ms
	window    int64 // ms ahead of the clock that is kept in memory
	used      int64
	published atomic.Int64 // used, a while ago
}

// room is what there is for the records of so many partitions.
func (m *memory) room(partitions int) pending.Room {
	return pending.Room{Window: m.window, Most: m.widest, Budget: m.budget, Used: m.used, Share: m.budget / int64(max(partitions, 1))}
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
