package processor

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
)

// A partition of which nothing was decoded goes on where it was.
func TestCutFetchIsNoError(t *testing.T) {
	l := testLane(t)
	p := livePartition(t, l)
	l.read(t, p, testNow, req(0, ms(1000), "orders"))
	_, l.reading.endPoll = context.WithCancel(t.Context())
	l.acceptAll(t.Context(), kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: testTopic, Partitions: []kgo.FetchPartition{
		{Partition: testTP.Partition, Err: fmt.Errorf("decompress: %w", kafka.ErrCut)},
	}}}}})
	if l.partitions[testTP] != p || !p.live() {
		t.Error("it starts over")
	}
	equal(t, "pending", p.Pending(), 1)
}
