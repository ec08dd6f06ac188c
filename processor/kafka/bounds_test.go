package kafka

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Where a log ends is as old as the question, since what is answered first may have been so for as long. And what no transaction holds back ends where the first
// one begins that is open.
func TestBoundsOfALog(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var mu sync.Mutex
	var first time.Time
	c.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		if first.IsZero() {
			first = time.Now()
		}
		req, resp := kreq.(*kmsg.ListOffsetsRequest), kreq.ResponseKind().(*kmsg.ListOffsetsResponse)
		topic, p := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
		switch p.Timestamp = -1; {
		case req.Topics[0].Partitions[0].Timestamp == -2:
			p.Offset = 3
		case req.IsolationLevel == 1:
			p.Offset = 5
		default:
			p.Offset = 9
		}
		topic.Topic, topic.Partitions = testTopic, append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	tp := TopicPartition{Topic: testTopic}
	leader, err := LeaderOf(t.Context(), cl, tp)
	if err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func() (Bounds, error){
		"of all": func() (Bounds, error) {
			all, err := AskBounds(t.Context(), cl, []TopicPartition{tp})
			return all[tp], err
		},
		"of one": func() (Bounds, error) { return BoundsOf(t.Context(), leader, tp) },
	} {
		first = time.Time{}
		b, err := ask()
		if err != nil || b.Err != nil {
			t.Fatal(err, b.Err)
		}
		if b.Start != 3 || b.Stable != 5 || b.High != 9 {
			t.Errorf("%s: %+v", name, b)
		}
		if !b.Asked.Before(first) {
			t.Errorf("%s: it counts as asked %v after the first question", name, b.Asked.Sub(first))
		}
	}
}
