package processor

import (
	"context"
	"strings"
	"testing"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// A partition that its topic has not got, since that was made anew with fewer, holds up no other; the group is asked to share out what there is.
func TestRestoreOfWhatIsGone(t *testing.T) {
	l, w := testCluster(t)
	w.checkpoints(t, state.Checkpoint{Offset: -1}, nil)
	joined(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	there, gone := kafka.TopicPartition{Topic: testTopic, Partition: 0}, kafka.TopicPartition{Topic: testTopic, Partition: 99}
	l.assigned.remember(l.n, gone, nil)
	l.restore(ctx, []kafka.TopicPartition{there, gone}, 0)
	if r := <-l.restores.restored; r.p == nil || r.p.tp != there {
		t.Fatalf("%+v is brought", r)
	}
	select {
	case <-l.uneven:
	case r := <-l.restores.restored:
		t.Fatalf("%+v is brought, too", r)
	case <-ctx.Done():
	}
	for _, p := range l.assigned.pictures() {
		if p.Partition == gone.Partition && !strings.Contains(p.Reason, "has fewer partitions") {
			t.Errorf("it says %q", p.Reason)
		}
	}
}
