//go:build synctests

package processor

import (
	"fmt"
	"testing"
	"time"
)

// computedWrites is what Kafka writes for a record that waits for some time in a topic that keeps its log for some time, at least and at most: the
// request, the delivery, and a copy each time that it has lain where it is for half of what the topic keeps, as README says. It lies there for a little longer: until it
// is looked how old the log is, and until a pass over all that is to be carried has come to it.
func computedWrites(delay, keeps, pass time.Duration) (least, most int) {
	look := min(max(keeps/20, time.Second), time.Minute)
	copies := func(each time.Duration) int { return int((delay - 1) / each) }
	return 2 + copies(keeps/2+look+time.Second+pass), 2 + copies(keeps/2)
}

// What Kafka writes for a delayed record is what is computed from its delay, what its topic keeps, and how fast it is carried.
func TestSimWrites(t *testing.T) {
	for _, c := range []struct {
		delay, keeps time.Duration
		records      int
		rate         int // carry_records; 0: as by default
	}{
		{delay: 4 * time.Minute, keeps: 10 * time.Minute, records: 50},
		{delay: 9 * time.Minute, keeps: 10 * time.Minute, records: 50},
		{delay: 29 * time.Minute, keeps: 8 * time.Minute, records: 50},
		{delay: 100 * time.Minute, keeps: 10 * time.Minute, records: 20}, // as 30 days at 3 days' retention
		{delay: 29 * time.Minute, keeps: 8 * time.Minute, records: 200, rate: 10},
	} {
		t.Run(fmt.Sprintf("%v of %v, %d records at %d a second", c.delay, c.keeps, c.records, c.rate), func(t *testing.T) {
			if testing.Short() && c.delay > 30*time.Minute {
				t.Skip("it takes long")
			}
			scenario(t, worldConfig{guarantee: ExactlyOnce, partitions: 1, tune: func(cfg *Config) {
				if c.rate > 0 {
					cfg.CarryRecords = c.rate
				}
			}}, func(w *world) {
				w.set("retention.ms", fmt.Sprint(c.keeps.Milliseconds()))
				a := w.live("a")
				for i := range c.records {
					w.send(request(fmt.Sprint(i), in(c.delay)))
				}
				time.Sleep(c.delay)
				w.within(soonEnough, "delivered", func() bool { return w.outstanding() == 0 })
				var pass time.Duration
				if c.rate > 0 {
					pass = time.Duration(c.records/c.rate+1) * time.Second
				}
				least, most := computedWrites(c.delay, c.keeps, pass)
				// What is counted is what the log has: the requests, their copies, and a marker for each transaction with some.
				log, counted := w.cluster.PartitionInfo(simTopic, 0).HighWatermark, int64(c.records)+a.carried()
				if log < counted || log > counted+max(counted/5, 1) {
					t.Errorf("the log has come to %d, and %d records are counted", log, counted)
				}
				written := counted + int64(c.records) // the checker says that each was delivered once
				got := float64(written) / float64(c.records)
				t.Logf("%.2f writes a record, %d to %d as computed; %d copies", got, least, most, a.carried())
				if got < float64(least) || got > float64(most) {
					t.Errorf("%.2f writes a record, and as computed it is %d to %d", got, least, most)
				}
				if most > 20 && least < most*9/10 {
					t.Errorf("%d to %d is not within a tenth", least, most)
				}
				w.finish()
			})
		})
	}
}
