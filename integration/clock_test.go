package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// Kafka says what time it is, of either kind of transactions, and a replica whose clock is wrong delivers by that.
func (s *tenant) wrongClock(guarantee processor.Guarantee, ahead time.Duration) {
	s.t.Helper()
	p := s.start(s.replica(func(c *replicaConfig) { c.Guarantee, c.Ahead = guarantee, ahead }))
	eventually(s.t, func() string {
		if stats := p.Stats(); len(stats.Partitions) != 4 || stats.ClockTrouble == "" {
			return fmt.Sprintf("%d partitions assigned; of the clock: %q %q", len(stats.Partitions), stats.ClockTrouble, stats.ClockUnknown)
		}
		return ""
	})
	s.load(load.Config{Records: 500, Due: []load.Due{{Weight: 1, From: time.Second, To: 4 * time.Second}}})
	s.arrive()
	stats := p.Stats()
	// As exact as an answer that counts: one that took longer than max_clock_skew does not.
	if off := stats.ClockSkew + ahead; off.Abs() > time.Second {
		s.t.Errorf("the brokers' clocks, which are ours, are off by %v", off)
	}
	if ready, _ := p.Ready(); !ready || !strings.Contains(stats.ClockTrouble, "the brokers'") {
		s.t.Errorf("ready %v, of the clock it says %q", ready, stats.ClockTrouble)
	}
	s.t.Logf("%s; of the brokers' %v", stats.ClockTrouble, stats.BrokerClocks)
	p.stop()
	s.judge()
}

func TestWrongClock(t *testing.T) {
	for _, guarantee := range []processor.Guarantee{processor.ExactlyOnce, processor.AtLeastOnce} {
		for _, ahead := range []time.Duration{10 * time.Minute, -time.Hour} {
			t.Run(fmt.Sprint(guarantee, " ", ahead), func(t *testing.T) {
				t.Parallel()
				newTenant(t, shared(t), setting{seed: newSeed(t)}).wrongClock(guarantee, ahead)
			})
		}
	}
}
