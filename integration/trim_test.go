package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
)

// A delay topic that keeps everything is trimmed on a real Kafka, by an owner with the default rights of a topic's creator. What is pending stays, and
// a process that starts from nothing finds it.
func TestTrim(t *testing.T) {
	t.Parallel()
	trim(t, shared(t))
}

func trim(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{seed: newSeed(t)})
	quick := func(c *replicaConfig) { c.TrimInterval, c.CommitInterval = time.Second, 100*time.Millisecond }
	p := s.start(s.replica(quick))
	s.awaitLive(p, 4)
	s.load(load.Config{Records: 4000, Due: []load.Due{{Weight: 1, To: time.Second}}})
	s.arrive()
	s.load(load.Config{Records: 1000, Due: []load.Due{{Weight: 1, From: 10 * time.Second, To: 12 * time.Second}}})
	eventually(t, func() string {
		topic := p.Stats().Topics[0]
		if topic.Untrimmed != "" {
			t.Fatal(topic.Untrimmed)
		}
		if topic.Trimmed < 4000 {
			return fmt.Sprintf("%d offsets were deleted, of those of 4000 records", topic.Trimmed)
		}
		return ""
	})
	starts, err := s.admin.ListStartOffsets(t.Context(), s.route.Topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range starts[s.route.Topic] {
		if of.Offset == 0 {
			t.Errorf("partition %d begins where it began", of.Partition)
		}
	}
	p.stop()
	if err := os.RemoveAll(filepath.Join(s.dir, "a")); err != nil {
		t.Fatal(err)
	}
	p = s.start(s.replica(quick))
	s.awaitLive(p, 4)
	s.arrive()
	p.stop()
	if report := s.judge(); report.Requested != 5000 {
		t.Errorf("%d requests seen", report.Requested)
	}
}
