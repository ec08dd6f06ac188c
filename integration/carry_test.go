package integration

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/load"
)

// carriedAsComputed has some records wait for nearly three times as long as their topic keeps its log, where nothing breaks. What it returns waits until
// all have been delivered and counts the copies: no more than there are halves of that time until a record is due, and no fewer than there are where
// each is made three seconds late. Brokers are asked once a second how old a log is.
func carriedAsComputed(t *testing.T) (judge func()) {
	const records, keeps, wait, late = 200, 16 * time.Second, 46 * time.Second, 3 * time.Second
	s := newTenant(t, shared(t), setting{partitions: 2, seed: newSeed(t), delayConfig: map[string]string{"retention.ms": "16000", "segment.bytes": "1048576"}})
	p := s.start(s.replica(func(c *replicaConfig) { c.Instance = "steady" }))
	s.awaitLive(p, 2)
	s.load(load.Config{Records: records, ValueBytes: 100, Due: []load.Due{{Weight: 1, From: wait, To: wait}}})
	return func() {
		s.arrive()
		most, least := int64(records*(wait/(keeps/2))), int64(records*(wait/(keeps/2+late)))
		if carried := p.Stats().Topics[0].Carried; carried < least || carried > most {
			t.Errorf("%d records that waited for %v were carried %d times, want %d to %d", records, wait, carried, least, most)
		} else {
			t.Logf("%.2f writes a record, %.2f computed", 2+float64(carried)/records, 2+wait.Seconds()/(keeps/2).Seconds())
		}
		p.stop()
		s.judge()
	}
}
