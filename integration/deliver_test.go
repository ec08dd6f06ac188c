package integration

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/integration/load"
)

const (
	targetBytes = 20_000 // what targets of a tenant with limits take
	deadBytes   = 25_000 // what its dead-letter topic takes
	largeBytes  = 30_000 // a value that fits neither
)

// limited gives every target a limit that some requests exceed, and the dead-letter topic one that they exceed, too, so that they
// have to be cut down.
func limited(set setting) setting {
	set.targetConfig = map[string]string{"max.message.bytes": "20000"}
	set.deadConfig = map[string]string{"max.message.bytes": "25000"}
	set.check = func(c *check.Config) {
		for i := range c.Targets {
			c.Targets[i].MaxBytes = targetBytes
		}
	}
	return set
}

// Whatever is asked for, by whomever: a hundred thousand requests go through two lanes. A third is due already, a third within seconds,
// and the rest beyond the near window, so through the store; one in a hundred cannot be delivered. Two of the producers use
// transactions, of which a quarter is aborted.
func TestDeliver(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), limited(setting{
		partitions: 8, targets: 3, seed: newSeed(t),
		delayConfig: map[string]string{"segment.bytes": "1048576"}, // several in each partition
	}))
	p := s.start(s.replica())
	s.awaitLive(p, 8)
	crowd := load.Config{Bad: 0.01, LargeBytes: largeBytes, Due: []load.Due{
		{Weight: 1, From: -time.Hour, To: -time.Second},
		{Weight: 1, To: 3 * time.Second},
		{Weight: 1, From: 4 * time.Second, To: 10 * time.Second},
	}}
	plain, transactional := crowd, crowd
	plain.Records = 60_000
	transactional.Records, transactional.Transactional, transactional.Batch, transactional.Abort = 40_000, 2, 500, 0.25
	totals := s.load(plain, transactional)
	t.Logf("written in %v: %d, of them bad %v; aborted %d", totals.Elapsed.Round(time.Millisecond), totals.Committed, totals.Bad, totals.Aborted)
	s.arrive()
	stats := p.Stats()
	p.stop()
	t.Logf("turns %v, rebalances %d, dead-lettered %v", stats.Transactions, stats.Rebalances, stats.DeadLetters)
	report := s.judge()
	if totals.Committed != 100_000 || totals.Aborted == 0 || report.Requested != 100_000 {
		t.Errorf("%d committed, %d aborted, %d seen", totals.Committed, totals.Aborted, report.Requested)
	}
	for bad := load.NoDue; bad <= load.UnsupportedHeader; bad++ {
		if totals.Bad[bad] == 0 {
			t.Errorf("nothing was bad in this way: %v", bad)
		}
	}
}
