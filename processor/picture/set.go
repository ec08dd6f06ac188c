package picture

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
)

// Set is the partitions of this process by lane. Every goroutine may ask it.
type Set struct {
	mu sync.Mutex
	m  map[place]*atomic.Pointer[Partition] // nil: being restored
	of map[place]awaited                    // of what is being restored
}

// awaited is what can be told of a partition that is being restored.
type awaited struct {
	since time.Time
	why   string // what it is waiting for
	seen  *Seen  // nil: nothing was, or that does not last
}

type place struct {
	lane int
	tp   kafka.TopicPartition
}

// Remember shows a partition by what its lane publishes of it; nil means that it is being restored.
func (a *Set) Remember(lane int, tp kafka.TopicPartition, p *atomic.Pointer[Partition]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m == nil {
		a.m, a.of = map[place]*atomic.Pointer[Partition]{}, map[place]awaited{}
	}
	a.m[place{lane, tp}] = p
	if delete(a.of, place{lane, tp}); p == nil {
		a.of[place{lane, tp}] = awaited{since: time.Now()}
	}
}

// Explain shows what the restore of partitions is waiting for.
func (a *Set) Explain(lane int, tps []kafka.TopicPartition, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, tp := range tps {
		a.await(lane, tp, func(w *awaited) { w.why = why })
	}
}

// See takes in how a partition was before the transaction that its restore waits for.
func (a *Set) See(lane int, tp kafka.TopicPartition, as Seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.await(lane, tp, func(w *awaited) { w.seen = &as })
}

// await changes what is told of a partition, unless its restore has come to an end meanwhile. mu is held.
func (a *Set) await(lane int, tp kafka.TopicPartition, change func(*awaited)) {
	key := place{lane, tp}
	if p, ok := a.m[key]; ok && p == nil {
		w := a.of[key]
		change(&w)
		a.of[key] = w
	}
}

// Has reports whether a lane has a partition or is restoring it.
func (a *Set) Has(tp kafka.TopicPartition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.has(tp)
}

// Unless does something unless a lane has a partition, and reports whether it has done it. A lane that is given the partition at the same time waits for that.
func (a *Set) Unless(tp kafka.TopicPartition, do func() error) (done bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.has(tp) {
		return false, nil
	}
	return true, do()
}

// has reports it while mu is held.
func (a *Set) has(tp kafka.TopicPartition) bool {
	for key := range a.m {
		if key.tp == tp {
			return true
		}
	}
	return false
}

// Of are the partitions of a topic that the process has.
func (a *Set) Of(topic string) (tps []kafka.TopicPartition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.m {
		if key.tp.Topic == topic {
			tps = append(tps, key.tp)
		}
	}
	return tps
}

// Forget says that a lane has a partition no more.
func (a *Set) Forget(lane int, tp kafka.TopicPartition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.m, place{lane, tp})
	delete(a.of, place{lane, tp})
}

// All are the pictures of the partitions that the process has.
func (a *Set) All() []Partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Partition
	for key, pt := range a.m {
		of := a.of[key]
		restoring := Partition{Topic: key.tp.Topic, Partition: key.tp.Partition, Lane: key.lane, Phase: Restoring, Reason: of.why, Since: of.since, Seen: of.seen}
		if pt == nil {
			out = append(out, restoring)
		} else if pic := pt.Load(); pic != nil {
			out = append(out, *pic)
		} else {
			out = append(out, restoring)
		}
	}
	slices.SortFunc(out, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}
