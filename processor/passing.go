package processor

import (
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/turn"
)

// passing has what is overdue in partitions that this process was just given wait until all of their topic that it has have passed on to each other the cancels
// that they have found in their logs: these were written while no replica was running, and elsewhere than what they name. Lanes share it.
type passing struct {
	mu   sync.Mutex
	have map[kafka.TopicPartition]bool  // passed on all that they had when they went live, or are not waited for
	upTo map[kafka.TopicPartition]int64 // what was passed on to it lies below
}

// passingPatience is for how long one that is live waits for the others at most: they may take long to be read, and brokers may not take what they pass on.
const passingPatience = 5 * time.Second

// begin is for a partition that goes live: what is due in it waits.
func (pa *passing) begin(p *partition) {
	p.found = p.Marks().Position
	among(p).Await(true)
}

// look lets what is due in partitions of a lane go where it has waited for what it has to, or for long enough.
func (pa *passing) look(ps []*partition, assigned *picture.Set) {
	var all map[string]bool
	for _, p := range ps {
		if !p.passed && (p.phase == PhaseStopped || p.live() && among(p).Passed(p.found)) {
			p.passed = true
			pa.passed(p.tp)
		}
	}
	for _, p := range ps {
		if !p.live() || !among(p).Awaits() {
			continue
		}
		topic := p.tp.Topic
		if all == nil {
			all = map[string]bool{}
		}
		if _, known := all[topic]; !known {
			all[topic] = pa.all(assigned.Of(topic))
		}
		inVain := time.Since(p.liveAt) > passingPatience
		if inVain { // nor does what starts over wait for them
			pa.passed(assigned.Of(topic)...)
		}
		if all[topic] && p.Marks().Position >= pa.end(p.tp) || inVain {
			among(p).Await(false)
		}
	}
}

// all reports whether each of some partitions has passed on what it had to.
func (pa *passing) all(tps []kafka.TopicPartition) bool {
	pa.mu.Lock()
	defer pa.mu.Unlock()
	for _, tp := range tps {
		if !pa.have[tp] {
			return false
		}
	}
	return true
}

func (pa *passing) passed(tps ...kafka.TopicPartition) {
	pa.mu.Lock()
	defer pa.mu.Unlock()
	if pa.have == nil {
		pa.have = map[kafka.TopicPartition]bool{}
	}
	for _, tp := range tps {
		pa.have[tp] = true
	}
}

// end is where what was passed on to a partition ends.
func (pa *passing) end(tp kafka.TopicPartition) int64 {
	pa.mu.Lock()
	defer pa.mu.Unlock()
	return pa.upTo[tp]
}

// wrote takes in where a turn has written what it has passed on.
func (pa *passing) wrote(t *turn.Turn) {
	if len(t.PassedOn) == 0 {
		return
	}
	pa.mu.Lock()
	defer pa.mu.Unlock()
	if pa.upTo == nil {
		pa.upTo = map[kafka.TopicPartition]int64{}
	}
	for tp, end := range t.PassedOn {
		pa.upTo[tp] = max(pa.upTo[tp], end)
	}
}

// forget is for a partition that a lane has no more, or begins with anew.
func (pa *passing) forget(tp kafka.TopicPartition) {
	pa.mu.Lock()
	defer pa.mu.Unlock()
	delete(pa.have, tp)
	delete(pa.upTo, tp)
}
