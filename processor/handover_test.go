package processor

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// claimant is a member, of which brokers know nothing.
type claimant struct{}

func (claimant) Member() kafka.Member { return kafka.Member{ID: "me", Generation: 1} }

// What is taken in while a partition is adopted may start others over, and with them this one: a
// partition that the lane does not have must not be read.
func TestAdoptReadsOnlyWhatItHas(t *testing.T) {
	l, w := testCluster(t)
	w.Checkpoints(t, testTopic, state.Checkpoint{Offset: -1}, nil)
	l.membership = outsider{}
	l.restores.Start(t.Context(), claimant{}, []kafka.TopicPartition{testTP}, 0)
	r := <-l.restores.Restored
	other := kafka.TopicPartition{Topic: testTopic, Partition: testTP.Partition + 1}
	l.partitions = map[kafka.TopicPartition]*partition{other: {tp: other, phase: PhaseCatchUp, log: l.log}}
	l.order = inOrder(l.partitions)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.reading.polling, l.reading.endPoll = true, func() {}
	l.reading.fetched <- kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: testTopic, Partitions: []kgo.FetchPartition{{Partition: other.Partition, Err: kerr.UnknownTopicID}}}}}}
	l.adopt(ctx, r)
	if has, reads := l.partitions[testTP] != nil, len(l.reader.GetConsumeTopics()) > 0; has != reads {
		t.Errorf("the lane has the partition: %v; it reads it: %v", has, reads)
	}
}
