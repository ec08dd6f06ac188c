package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/state"
)

// A process of at_least_once that was frozen for longer than its session delivers nothing when it wakes up: others have delivered what fell due meanwhile.
func TestWokenAtLeastOnce(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 4, targets: 1, seed: newSeed(t)})
	k := s.newKiller(2, func(c *replicaConfig) { c.Guarantee = processor.AtLeastOnce })
	k.awaitMembers(2)
	for _, r := range k.replicas {
		s.load(load.Config{Records: 100, Due: []load.Due{{Weight: 1, To: time.Second}}})
		s.awaitDelivery(r)
	}
	s.arrive()
	s.awaitNothingOwed()
	const records, quiet = 1000, 6 * time.Second
	began := time.Now()
	s.load(load.Config{Records: records, Due: []load.Due{{Weight: 1, From: quiet, To: quiet + time.Second}}})
	if err := k.replicas[0].Freeze(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > quiet {
		t.Fatalf("it was frozen %v after the first record was written: some had fallen due", took)
	}
	k.awaitMembers(1)
	s.awaitDelivered(records)
	if err := k.replicas[0].Thaw(); err != nil {
		t.Fatal(err)
	}
	k.awaitMembers(2)
	s.load(load.Config{Records: 100, Due: []load.Due{{Weight: 1, To: time.Second}}})
	s.arrive()
	k.terminate()
	s.judge()
	if n := s.log.count("the process did not run, or waited for brokers, for a while"); n == 0 {
		t.Error("it did not notice that it was frozen")
	}
}

// awaitNothingOwed waits until the checkpoints say that all that was written has been delivered.
func (s *tenant) awaitNothingOwed() {
	s.t.Helper()
	eventually(s.t, func() string {
		got, err := s.admin.FetchOffsets(s.t.Context(), s.name)
		if err != nil {
			return err.Error()
		}
		for partition := range int32(4) {
			o, _ := got.Lookup(s.route.Topic, partition)
			c, err := state.ParseCheckpoint(o.At, o.LeaderEpoch, o.Metadata)
			if end := s.end(partition); err != nil || c.LowWater < end {
				return fmt.Sprintf("L of partition %d is %d, and its log ends at %d: %v", partition, c.LowWater, end, err)
			}
		}
		return ""
	})
}
