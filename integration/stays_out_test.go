package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// A processor of a group that has given its checkpoints away was frozen meanwhile, or is started again by mistake. It does not begin anew: what it would deliver has been delivered, or is the other
// group's, and that one would take for its own what it writes into the topic.
func TestFormerGroupStaysOut(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{partitions: 2, groups: true, seed: newSeed(t)})
	former := s.spawn(s.replica())
	const loaded = 3000
	s.load(load.Config{Records: loaded, Bad: 0.01, Due: []load.Due{{Weight: 1, From: time.Second, To: 12 * time.Second}}})
	s.awaitDelivered(loaded / 10)
	if err := former.Freeze(); err != nil {
		t.Fatal(err)
	}
	s.moveTo(s.name + "-as")
	successor := s.start(s.replica(func(c *replicaConfig) { c.Group, c.Identity, c.StateDir = s.name+"-as", s.name, t.TempDir() }))
	s.awaitLive(successor, 2)
	if err := former.Thaw(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if n := s.log.count("the checkpoint was given to another group: group " + s.name + "-as"); n < 2 {
			return fmt.Sprintf("%d partitions have stopped", n)
		}
		return ""
	})
	s.terminate(former)
	again := s.start(s.replica(func(c *replicaConfig) { c.StateDir = t.TempDir() }))
	s.awaitStoppedBy(again, processor.ErrGiven)
	again.stop()
	s.arrive()
	successor.stop()
	if report := s.judge(); report.Requested != loaded {
		t.Errorf("%d were requested, want %d", report.Requested, loaded)
	}
}
