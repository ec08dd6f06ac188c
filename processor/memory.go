package processor

import (
	"slices"
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
	step      int          // records that one step loads at most, of all partitions
	spilling  bool         // what is above the near window goes to the store, some in each step
	narrows   bool         // and the window gets shorter, since reading waits
	lacks     bool         // something is to be loaded from the store, and there is room
	next      int          // of which partition first
	published atomic.Int64 // used, a while ago
}

// room is what there is for the records of so many partitions.
func (m *memory) room(partitions int) pending.Room {
	return pending.Room{Window: m.window, Most: m.widest, Budget: m.budget, Used: m.used, Share: m.budget / int64(max(partitions, 1))}
}

const (
	// loadTime is how long a step may take: reading and turns wait for it.
	loadTime = 10 * time.Millisecond
	// fewestLoaded is how many records one step may load at least: finding the first ones costs as much.
	fewestLoaded = pending.LoadRecords / 8
	// leastStep is how many of them each partition may at least, however many of them lack some.
	leastStep = 100
)

// timed takes in how long a step took that has loaded some records. One that has loaded few, because there was no more, tells nothing.
func (m *memory) timed(loaded int, took time.Duration) {
	if loaded < m.step/2 {
		return
	}
	wanted := float64(loaded) * float64(loadTime) / float64(max(took, 1))
	m.step = (m.step + int(min(max(wanted, fewestLoaded), pending.LoadRecords))) / 2
}

// load brings what is due soon from the store into memory: one step, shared by the partitions that lack something, so that neither reading nor
// turns wait for long. Where a turn is decided meanwhile, it ends, and goes on with the next partition in the next one. It returns the partition whose store failed.
func (m *memory) load(ps []*partition, now int64, decided func() bool) (failed *partition, err error) {
	room := m.room(len(ps))
	lacking := 0
	for _, p := range ps {
		if p.live() && room.Lacks(p.Partition, now) {
			lacking++
		}
	}
	room.Step = max(m.step/max(lacking, 1), leastStep)
	m.lacks = false
	began, loaded := time.Now(), 0
	for i := range ps {
		at := (m.next + i) % len(ps)
		p := ps[at]
		if !p.live() {
			continue
		}
		lacks, had, far := room.Lacks(p.Partition, now), int64(0), 0
		if lacks {
			had, far = p.Memory(), p.Far()
		}
		if err := p.Load(now, room); err != nil {
			return p, err
		}
		if lacks {
			m.used += p.Memory() - had
			room.Used = m.used
			loaded += far - p.Far()
			m.lacks = m.lacks || room.Lacks(p.Partition, now)
			if i+1 < len(ps) && decided() {
				m.lacks, m.next = true, at+1
				break
			}
		}
	}
	m.timed(loaded, time.Since(began))
	return nil, nil
}

// pause is how soon loading or spilling has to go on.
func (m *memory) pause() time.Duration {
	switch {
	case m.lacks:
		return leastPause
	case m.spilling || m.narrows:
		return balanceEvery
	}
	return time.Hour
}

// balanceEvery is how often near records are kept inside the budget at most.
const balanceEvery = 5 * time.Millisecond

// spillEarly is how much of the budget is left, as a part of it, when near records begin to go to the store, so that reading need not wait for that.
const spillEarly = 8

// spillSteps is in how many steps near records would go to the store if all of them did, and there were not too many for that.
const spillSteps = 128

// fit keeps the near records inside the budget: the window shrinks and its far end goes to
// the store, step by step and while that has room; it widens again when there is room in memory. With an error it returns the partition that has failed.
func (m *memory) fit(ps []*partition, now int64, room bool) (*partition, error) {
	m.measure(ps)
	waits := room && m.awaited(ps)
	switch {
	case m.spilling:
	case m.used > m.budget-m.budget/spillEarly, waits:
		if m.window > pending.LeastWindow {
			m.window = max(m.window/2, pending.LeastWindow)
		}
		m.spilling = true
	case m.used < m.budget/4 && m.window < m.widest:
		m.window = min(2*m.window, m.widest)
	}
	m.narrows = false
	if !m.spilling || !room {
		return nil, nil
	}
	of := m.room(len(ps))
	of.Spill = min(m.budget/spillSteps, pending.SpillBytes) / int64(max(len(ps), 1))
	if waits {
		of.Share /= 2 // of what has no store: so much each may keep, and reading goes on
	}
	m.spilling = false
	for _, p := range ps {
		if !p.opened() {
			continue
		}
		more, err := p.Fit(now, of)
		if err != nil {
			return p, err
		}
		m.spilling = m.spilling || more
	}
	m.measure(ps)
	m.narrows = m.awaited(ps) && m.window > pending.LeastWindow
	return nil, nil
}

// awaited reports whether reading pauses for lack of memory. What is due last gives way until it goes on: to wait until that is due might take as long as the
// near window, and without a store for ever.
func (m *memory) awaited(ps []*partition) bool {
	return !m.room(len(ps)).Ample() && slices.ContainsFunc(ps, func(p *partition) bool { return p.paused })
}

func (m *memory) measure(ps []*partition) {
	m.used = 0
	for _, p := range ps {
		if p.opened() {
			m.used += p.Memory()
		}
	}
}
