package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/integration/load"
)

// A delay topic that is deleted and made anew under its old name, while a processor runs or while none does, is another topic: what was
// pending in the old one is gone, and its checkpoints and stores say nothing of the new one. It may have fewer partitions, which the group shares out.
func TestTopicMadeAnew(t *testing.T) {
	for name, partitions := range map[string]int32{"running": 2, "stopped": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTenant(t, shared(t), setting{seed: newSeed(t)})
			p := s.start(s.replica())
			s.awaitLive(p, 4)
			due := []load.Due{{Weight: 1, To: time.Second}}
			s.load(load.Config{Records: 1000, Due: due})
			s.arrive()
			// These are pending when the topic is deleted, and must never be seen.
			s.targets = []string{s.name + ".target-anew"}
			s.create(targetPartitions, nil, s.targets...)
			s.load(load.Config{Records: 500, Due: []load.Due{{Weight: 1, From: 7 * time.Second, To: 8 * time.Second}}})
			if name == "stopped" {
				p.stop()
			}
			s.makeAnew(partitions)
			if name == "stopped" {
				p = s.start(s.replica())
			}
			s.awaitLive(p, int(partitions))
			s.load(load.Config{Records: 2000, Bad: 0.01, Due: []load.Due{{Weight: 9, To: time.Second}, {Weight: 1, To: 9 * time.Second}}})
			s.arrive()
			p.stop()
			if report := s.judge(); report.Requested != 2000 {
				t.Errorf("%d requests seen", report.Requested)
			}
		})
	}
}

// makeAnew deletes the delay topic and makes it again, with a watch that knows only of the new one and of the targets by now.
func (s *tenant) makeAnew(partitions int32) {
	s.t.Helper()
	if _, err := s.admin.DeleteTopic(s.t.Context(), s.route.Topic); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, func() string {
		topics, err := s.admin.ListTopics(s.t.Context(), s.route.Topic)
		if err == nil && errors.Is(topics[s.route.Topic].Err, kerr.UnknownTopicOrPartition) {
			return ""
		}
		return fmt.Sprintf("the topic is still there: %v", err)
	})
	s.create(partitions, nil, s.route.Topic)
	s.startWatch(setting{})
}
