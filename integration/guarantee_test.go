package integration

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// An at_least_once group loses nothing, delivers nothing early, and doubles nothing as long as its processors end in order: through
// rebalances, restarts, and back and forth between the guarantees with records pending. The broker sets the timestamps of this delay
// topic, and compresses it.
func TestSwitchGuarantee(t *testing.T) {
	s := newTenant(t, shared(t), setting{
		targets: 2, seed: newSeed(t),
		delayConfig: map[string]string{"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"},
	})
	crowd := load.Config{Records: 3000, Bad: 0.01, Due: []load.Due{
		{Weight: 1, From: -time.Minute, To: -time.Second},
		{Weight: 2, To: 2 * time.Second},
		{Weight: 1, From: 3 * time.Second, To: 6 * time.Second},
	}}
	for _, guarantee := range []processor.Guarantee{
		processor.AtLeastOnce, processor.AtLeastOnce, processor.ExactlyOnce, processor.AtLeastOnce,
	} {
		c := s.replica(func(c *replicaConfig) {
			// What a lost session delivers again is no fault, and would be judged as one.
			c.Guarantee, c.SessionTimeout, c.HeartbeatInterval = guarantee, longSession, 200*time.Millisecond
		})
		p := s.start(c)
		s.awaitLive(p, 4)
		s.load(crowd)
		s.awaitDelivered(500)
		s.moveOut(p, c)
		p.stop()
		t.Logf("%s: stopped with %s", guarantee, s.watch.Counts().Summary())
	}
	p := s.start(s.replica())
	s.arrive()
	p.stop()
	s.judge()
}

// moveOut lets a second processor take half of the partitions and give them back.
func (s *tenant) moveOut(p *running, c replicaConfig) {
	s.t.Helper()
	c.Instance, c.StateDir = c.Instance+"-other", c.StateDir+"-other"
	other := s.start(c)
	s.awaitLive(other, 2)
	s.awaitLive(p, 2)
	other.stop()
	s.awaitLive(p, 4)
}

// When replicas of an at_least_once group are killed, what followed their last checkpoints comes again, and nothing else goes wrong.
func TestKillAtLeastOnce(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{
		partitions: 6, targets: 2, seed: newSeed(t), check: func(c *check.Config) { c.AllowDoubles = true },
	})
	k := s.newKiller(2, func(c *replicaConfig) { c.Guarantee = processor.AtLeastOnce })
	stop := s.keepLoading(load.Config{Rate: 1000})
	for k.kills < 4 || k.watch.Counts().Doubled == 0 && k.kills < mostKills {
		k.strike()
	}
	stop()
	s.arrive()
	k.terminate()
	report := s.judge()
	t.Logf("killed %d times; %d of %d came again", k.kills, report.Doubled, report.Requested)
	if report.Doubled == 0 {
		t.Error("nothing came again: no kill has hit what followed a checkpoint")
	}
}
