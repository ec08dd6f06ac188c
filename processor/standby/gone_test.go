package standby

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
)

// A reader holds on to the id of a topic that it has seen first, so what is gone is purged from it, and read anew when it is there again. Other topics are read on, and
// what else may go wrong purges nothing.
func TestTopicThatIsGoneIsPurged(t *testing.T) {
	for _, c := range []struct {
		err  error
		gone bool
	}{{kerr.UnknownTopicID, true}, {kerr.UnknownTopicOrPartition, true}, {kerr.InconsistentTopicID, true}, {errors.New("no answer"), false}} {
		s := New(testEnv(t))
		s.readsFrom(t, nowhere)
		beside, other := kafka.TopicPartition{Topic: testTopic, Partition: 0}, kafka.TopicPartition{Topic: "other"}
		add := map[string]map[int32]kgo.Offset{}
		for _, tp := range []kafka.TopicPartition{testTP, beside, other} {
			s.reading[tp] = true
			if add[tp.Topic] == nil {
				add[tp.Topic] = map[int32]kgo.Offset{}
			}
			add[tp.Topic][tp.Partition] = kgo.NewOffset().At(0)
		}
		s.reader.AddConsumePartitions(add)
		s.restAfter(testTP, fmt.Errorf("read: %w", c.err))
		equal(t, c.err.Error()+": it is read on", s.reading[testTP], !c.gone)
		equal(t, c.err.Error()+": so is another partition", s.reading[beside], !c.gone)
		equal(t, c.err.Error()+": another topic is read on", s.reading[other], true)
		names := map[string]bool{}
		for _, name := range s.reader.GetConsumeTopics() {
			names[name] = true
		}
		equal(t, c.err.Error()+": the reader has it", names[testTopic], !c.gone)
		equal(t, c.err.Error()+": the reader has the other one", names["other"], true)
	}
}
