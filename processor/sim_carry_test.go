//go:build synctests

package processor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// age cuts the log of the delay topic as brokers do that keep it for some time: whatever is older, pending or not.
func (w *world) age(keeps time.Duration) (went int64) {
	w.t.Helper()
	old, err := kadm.NewClient(w.client).ListOffsetsAfterMilli(context.Background(), time.Now().Add(-keeps).UnixMilli(), simTopic)
	if err != nil {
		w.fail("offsets by age: %v", err)
	}
	for partition := range w.cfg.partitions {
		o, _ := old.Lookup(simTopic, partition)
		info := w.cluster.PartitionInfo(simTopic, partition)
		to := min(o.Offset, w.watch.Position(simTopic, partition)) // the checker must have seen what goes
		if to <= info.LogStartOffset {
			continue
		}
		if err := w.cluster.DeleteRecords(simTopic, partition, to); err != nil {
			w.fail("cut the log at %d: %v", to, err)
		}
		w.note("---- the log of %s/%d is older than %v below %d", simTopic, partition, keeps, to)
		went += to - info.LogStartOffset
	}
	return went
}

// carried is how many copies a process has written.
func (p *process) carried() int64 { return p.p.Stats().Topics[0].Carried }

// Delays of minutes go through a topic that keeps its log for 40 seconds, through crashes that leave nothing but Kafka.
func TestSimCarryAge(t *testing.T) {
	const keeps = 40 * time.Second
	guarantees(t, worldConfig{partitions: 2, tune: func(c *Config) { c.NearWindow = 2 * time.Second }}, func(w *world) {
		w.set("retention.ms", fmt.Sprint(keeps.Milliseconds()))
		a := w.live("a")
		for i := range 60 {
			w.send(request(fmt.Sprint("far", i), in(time.Duration(150+i)*time.Second)))
		}
		var went, carried int64
		for i := range 300 {
			w.send(request(fmt.Sprint(i), in(time.Duration(1+i%3)*time.Second)))
			time.Sleep(time.Second)
			went += w.age(keeps)
			if i%90 == 80 {
				carried += a.carried()
				a.kill()
				a = w.start(fmt.Sprint("b", i), nil)
				w.within(soonEnough, "live from nothing", func() bool { return a.live(2) })
			}
		}
		carried += a.carried()
		// A copy for each half of what is kept. Of the last one half has not passed, on average.
		computed := -30.0
		for i := range 60 {
			computed += float64((150+i)*int(time.Second)) / float64(keeps/2)
		}
		t.Logf("%d copies of 60 records, %.0f as computed", carried, computed)
		if went < 300 || float64(carried) < 0.9*computed || float64(carried) > 1.1*computed {
			t.Errorf("%d offsets went, and %d copies were written; as computed it is %.0f", went, carried, computed)
		}
		w.finish()
	})
}

// A log that is trimmed is no longer than about twice what is pending, also when some of that is pending for long.
func TestSimCarryLength(t *testing.T) {
	guarantees(t, worldConfig{tune: func(c *Config) { c.NearWindow, c.TrimInterval = 2*time.Second, 2*time.Second }}, func(w *world) {
		w.set("retention.ms", "-1")
		a := w.live("a")
		w.send(request("far", in(8*time.Minute)))
		for i := range 60 {
			for k := range 500 {
				w.send(request(fmt.Sprint(i, k), in(time.Second)))
			}
			time.Sleep(time.Second)
		}
		w.within(soonEnough, "delivered", func() bool { return w.outstanding() == 1 })
		time.Sleep(3 * time.Minute)
		if n, carried := w.logLength(), a.carried(); n > 2_000 || carried < 1 || carried > 120 {
			t.Errorf("the log has %d offsets, and %d copies were written", n, carried)
		}
		a.kill()
		b := w.start("b", nil)
		w.within(soonEnough, "live from nothing", func() bool { return b.live(1) })
		w.finish()
	})
}

// Where a quota allows for less than is to be carried, what is due waits for a few copies at most.
func TestSimCarryQuota(t *testing.T) {
	guarantees(t, worldConfig{tune: func(c *Config) { c.NearWindow = 2 * time.Second }}, func(w *world) {
		const rate = 50_000
		w.set("retention.ms", "40000")
		a := w.live("a")
		for i := range 400 {
			r := request(fmt.Sprint("far", i), in(200*time.Second))
			r.Value = []byte(noise(w, 10_000))
			w.send(r)
		}
		a.limit(rate)
		most := int64(0)
		for i := range 180 {
			w.send(request(fmt.Sprint(i), in(time.Second)))
			time.Sleep(time.Second)
			most = max(most, w.outstanding()-400)
		}
		carried := a.carried()
		t.Logf("%d waited at once; %d copies; %v", most, carried, a.p.Stats().Transactions)
		if most > 30 || carried < 100 {
			t.Errorf("%d records waited at once that were due, and %d copies were written", most, carried)
		}
		a.limit(0)
		w.finish()
	})
}
