package kafka

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Where the log of a leader was given up is where the next one's begins.
func TestAskEpochs(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(2, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	produce := func(n int) {
		for range n {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: testTopic}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produce(3)
	first := c.PartitionInfo(testTopic, 0)
	if err := c.MoveTopicPartition(testTopic, 0, 1-first.Leader); err != nil {
		t.Fatal(err)
	}
	produce(2)
	second := c.PartitionInfo(testTopic, 0).Epoch
	tp, other := TopicPartition{Topic: testTopic, Partition: 0}, TopicPartition{Topic: testTopic, Partition: 1}
	if bounds, err := AskBounds(t.Context(), cl, []TopicPartition{tp}); err != nil || bounds[tp].High != 5 || bounds[tp].Epoch != second {
		t.Errorf("the log ends at %+v (%v), and epoch %d at 5", bounds[tp], err, second)
	}
	for epoch, want := range map[int32]int64{first.Epoch: 3, second: 5, second + 1: -1, -1: -1} {
		ends, err := AskEpochs(t.Context(), cl, map[TopicPartition]int32{tp: epoch, other: -1})
		if err != nil {
			t.Fatal(err)
		}
		end, known := ends[tp]
		if !known {
			end = -1
		}
		if _, is := ends[other]; end != want || is {
			t.Errorf("epoch %d ends at %d, want %d; of a partition that was not asked for: %v", epoch, end, want, is)
		}
	}
	for high, want := range map[int64]bool{5: true, 6: false} { // a leader whose log ends at 5
		if tells, err := TellsEpochs(t.Context(), cl, tp, high); tells != want || (err == nil) != want {
			t.Errorf("with a high watermark of %d it tells how epochs are: %v, %v", high, tells, err)
		}
	}
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		rt, rp := kmsg.NewOffsetForLeaderEpochResponseTopic(), kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		rp.ErrorCode, rp.EndOffset = kerr.InvalidRequest.Code, -1
		rt.Topic, rt.Partitions = testTopic, append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true // once
	})
	if ends, err := AskEpochs(t.Context(), cl, map[TopicPartition]int32{tp: first.Epoch}); err != nil || ends[tp] != -1 {
		t.Errorf("refused: %v, %v", ends, err)
	}
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return nil, context.DeadlineExceeded, true // the connection is closed
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if ends, err := AskEpochs(ctx, cl, map[TopicPartition]int32{tp: 0}); err == nil {
		t.Errorf("nobody has answered, and it is known: %v", ends)
	}
}

// What is committed bears its leader epoch.
func TestCommitsBearEpochs(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var got []int32
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch r := req.(type) {
		case *kmsg.OffsetCommitRequest:
			got = append(got, r.Topics[0].Partitions[0].LeaderEpoch)
			return r.ResponseKind(), nil, true
		case *kmsg.TxnOffsetCommitRequest:
			got = append(got, r.Topics[0].Partitions[0].LeaderEpoch)
			return r.ResponseKind(), nil, true
		}
		return nil, nil, false
	})
	co, m := NewCoordinator("g"), Member{ID: "m", Generation: 1}
	of := []Commit{{TP: TopicPartition{Topic: testTopic}, Offset: 5, Epoch: 4}}
	if err := co.Commit(t.Context(), cl, m, of); err != nil {
		t.Fatal(err)
	}
	if err := co.CommitIn(t.Context(), cl, "t", ProducerID{ID: 1}, m, of); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0] != 4 || got[1] != 4 {
		t.Errorf("epochs are %v, want 4 twice", got)
	}
}

// Brokers are asked for ends of leader epochs where the right to Describe a topic is enough for that.
func TestAwaitVersionsSaysOfEpochs(t *testing.T) {
	for version, want := range map[int16]bool{2: false, 3: true} {
		speaks := kversion.Stable()
		speaks.SetMaxKeyVersion(int16(kmsg.OffsetForLeaderEpoch), version)
		c, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.MaxVersions(speaks))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if epochs, err := AwaitVersions(t.Context(), cl, true, slog.New(slog.DiscardHandler)); err != nil || epochs != want {
			t.Errorf("version %d: %v, %v", version, epochs, err)
		}
	}
}
