package processor

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
)

// assignedSet is the partitions of this process by lane. Every goroutine may ask it.
type assignedSet struct {
	mu sync.Mutex
	m  map[assignedKey]*partition // nil: being restored
	of map[assignedKey]awaited    // of what is being restored
}

// awaited is what can be told of a partition that is being restored.
type awaited struct {
	since time.Time
	why   string        // what it is waiting for
	seen  *picture.Seen // nil: nothing was, or that does not last
}

type assignedKey struct {
	lane int
	tp   kafka.TopicPartition
}

// remember shows a partition in Stats; nil means that it is being restored.
func (a *assignedSet) remember(lane int, tp kafka.TopicPartition, p *partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.m == nil {
		a.m, a.of = map[assignedKey]*partition{}, map[assignedKey]awaited{}
	}
	a.m[assignedKey{lane, tp}] = p
	if delete(a.of, assignedKey{lane, tp}); p == nil {
		a.of[assignedKey{lane, tp}] = awaited{since: time.Now()}
	}
}

// explain shows in Stats what the restore of partitions is waiting for.
func (a *assignedSet) explain(lane int, tps []kafka.TopicPartition, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, tp := range tps {
		a.await(lane, tp, func(w *awaited) { w.why = why })
	}
}

// see takes in how a partition was before the transaction that its restore waits for.
func (a *assignedSet) see(lane int, tp kafka.TopicPartition, as picture.Seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.await(lane, tp, func(w *awaited) { w.seen = &as })
}

// await changes what is told of a partition, unless its restore has come to an end meanwhile. mu is held.
func (a *assignedSet) await(lane int, tp kafka.TopicPartition, change func(*awaited)) {
	key := assignedKey{lane, tp}
	if p, ok := a.m[key]; ok && p == nil {
		w := a.of[key]
		change(&w)
		a.of[key] = w
	}
}

// has reports whether a lane has a partition or is restoring it.
func (a *assignedSet) has(tp kafka.TopicPartition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hasLocked(tp)
}

func (a *assignedSet) hasLocked(tp kafka.TopicPartition) bool {
	for key := range a.m {
		if key.tp == tp {
			return true
		}
	}
	return false
}

// forget says that a lane has a partition no more.
func (a *assignedSet) forget(lane int, tp kafka.TopicPartition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.m, assignedKey{lane, tp})
	delete(a.of, assignedKey{lane, tp})
}

// pictures are those of the partitions that the process has.
func (a *assignedSet) pictures() []PartitionStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []PartitionStats
	for key, pt := range a.m {
		of := a.of[key]
		restoring := PartitionStats{Topic: key.tp.Topic, Partition: key.tp.Partition, Lane: key.lane, Phase: PhaseRestoring, Reason: of.why, Since: of.since, Seen: of.seen}
		if pt == nil {
			out = append(out, restoring)
		} else if pic := pt.picture.Load(); pic != nil {
			out = append(out, *pic)
		} else {
			out = append(out, restoring)
		}
	}
	slices.SortFunc(out, func(a, b PartitionStats) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}
