//go:build synctests

package processor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// learnsOfPartitions is after what time every process knows of partitions that were added, and shares them.
const learnsOfPartitions = 45 * time.Second

// widen gives the delay topic one partition more, of up to six. With only one a cancel of an id had nowhere to go; the checker does not know when that was.
func (r *runner) widen() bool {
	if r.plan.Partitions < 2 || !r.addPartition(simTopic) {
		return false
	}
	r.plan.Partitions++
	for _, w := range []*world{r.world, r.rival} {
		if w != nil {
			w.cfg.partitions++
		}
	}
	return true
}

// Cancels by an id are passed on while partitions are added: each takes what has its id wherever that lies, in a partition of before or one that was added, and
// what was written after it stays. A partition that was added is taken up within half a minute.
func TestSimCancelsWhilePartitionsAreAdded(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			scenario(t, worldConfig{guarantee: guarantee, partitions: 2, widens: true, audit: true}, func(w *world) {
				r := &runner{world: w, plan: plan{Partitions: 2}}
				a, b := w.start("a", nil), w.start("b", nil)
				w.until("live", func() bool { return a.live(1) && b.live(1) })
				due, n := in(5*time.Minute), 0
				var cancelled, stays []string
				ask := func(id string, partition int32) string {
					n++
					rec := request(fmt.Sprint(n), due)
					rec.Partition, rec.Headers = partition, append(rec.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte(id)})
					w.send(rec)
					return string(rec.Value)
				}
				cancel := func(id string, partition int32) {
					w.send(&kgo.Record{Topic: simTopic, Partition: partition, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(id)}}})
				}
				for round := range 3 {
					id := func(what string, i int32) string { return fmt.Sprint(what, round, "-", i) }
					for p := range r.plan.Partitions {
						cancelled = append(cancelled, ask(id("x", p), p), ask(id("y", p), p), ask(id("z", p), p))
					}
					for p := range r.plan.Partitions { // from the partition behind it, before the new one is there
						cancel(id("x", p), (p+1)%r.plan.Partitions)
					}
					if !r.widen() {
						t.Fatal("no partition was added")
					}
					time.Sleep(turn.FreshLook + time.Second)
					added := r.plan.Partitions - 1
					cancelled = append(cancelled, ask(id("v", added), added)) // it is passed on to where no process reads yet
					cancel(id("v", added), 0)
					for p := range added { // from the new one, which no process knows yet, and from another one, to which it may have to go
						cancel(id("y", p), added)
					}
					time.Sleep(learnsOfPartitions)
					cancelled = append(cancelled, ask(id("w", added), added))
					for p := range added {
						cancel(id("z", p), added)
					}
					cancel(id("w", added), 0)
					time.Sleep(5 * time.Second)
					stays = append(stays, ask(id("x", 0), added), ask(id("w", added), added)) // as anew
				}
				c := a.p.Stats().Cancels
				for outcome, more := range b.p.Stats().Cancels {
					c[outcome] += more
				}
				if c["cancelled"] != int64(len(cancelled)) || c["forwarded"] != int64(len(cancelled)) {
					t.Errorf("of %d records that were cancelled elsewhere: %v", len(cancelled), c)
				}
				time.Sleep(time.Until(due) + time.Minute)
				w.finish()
				var came []string
				for _, r := range w.committedOf("orders") {
					if v := string(r.Value); slices.Contains(cancelled, v) {
						t.Errorf("%s came, and was cancelled by its id", v)
					} else if slices.Contains(stays, v) {
						came = append(came, v)
					}
				}
				if len(came) != len(stays) {
					t.Errorf("%d of %d came that were asked for after a cancel of their id", len(came), len(stays))
				}
			})
		})
	}
}
