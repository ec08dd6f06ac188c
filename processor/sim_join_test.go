//go:build synctests

package processor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// While turns are full of what is due in one partition for one target, the records of another partition wait for the turn in flight and their own,
// and not for the turn that was rendered ahead as well; and so do those of the same partition for another target.
func TestSimOthersJoinTheTurnRenderedAhead(t *testing.T) {
	for of, name := range []string{"of the same partition", "of another partition"} {
		t.Run(name, func(t *testing.T) { othersJoin(t, int32(of)) })
	}
}

func othersJoin(t *testing.T, of int32) {
	const hot, batch, each, others = 8000, 100, 7 * time.Millisecond, 40
	guarantees(t, worldConfig{partitions: of + 1, latency: 5 * time.Millisecond, tune: func(c *Config) { c.BatchRecords = batch }}, func(w *world) {
		a := w.live("a")
		due := in(5 * time.Second)
		var all []*kgo.Record
		for i := range hot {
			all = append(all, request(fmt.Sprint("h", i), due))
		}
		for i := range others {
			r := addressed("bills", request(fmt.Sprint("o", i), due.Add(50*time.Millisecond+time.Duration(i)*each)))
			r.Partition = of
			all = append(all, r)
		}
		w.send(all...)
		turns := func() int64 { return a.p.Stats().Transactions["committed"] }
		target := func(name string) *TargetStats {
			targets := a.p.Stats().Targets
			i := slices.IndexFunc(targets, func(s TargetStats) bool { return s.Target == name })
			return &targets[i]
		}
		time.Sleep(time.Until(due))
		before := turns()
		w.within(2*time.Minute, "the others are delivered", func() bool { return target("bills").Delivered == others })
		if n := target("orders").Delivered; n >= hot {
			t.Error("all is delivered before the last of the others is")
		}
		turn := time.Since(due) / time.Duration(turns()-before)
		if late := time.Duration(target("bills").Lateness.Sum / others * float64(time.Second)); late > 2*turn {
			t.Errorf("the others are late by %v in the mean, and a turn takes %v", late, turn)
		}
		w.finish()
	})
}
