package processor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// A partition that its topic has not got, since that was made anew with fewer, holds up no other; the group is asked to share out what there is.
func TestRestoreOfWhatIsGone(t *testing.T) {
	l, w := testCluster(t)
	w.checkpoints(t, state.Checkpoint{Offset: -1}, nil)
	joined(t, l)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	there, gone := kafka.TopicPartition{Topic: testTopic, Partition: 0}, kafka.TopicPartition{Topic: testTopic, Partition: 99}
	l.assigned.Remember(l.n, gone, nil)
	l.restore(ctx, []kafka.TopicPartition{there, gone}, 0)
	for asked, brought := false, false; !asked || !brought; {
		select {
		case <-l.uneven:
			asked = true
		case r := <-l.restores.restored:
			if brought = r.p != nil && r.p.tp == there; !brought {
				t.Fatalf("%+v is brought", r)
			}
		case <-ctx.Done():
			t.Fatalf("asked %v, brought %v", asked, brought)
		}
	}
	for _, p := range l.assigned.All() {
		if p.Partition == gone.Partition && !strings.Contains(p.Reason, "has fewer partitions") {
			t.Errorf("it says %q", p.Reason)
		}
	}
}
