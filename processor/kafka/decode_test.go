package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchable is a cluster whose topic has an aborted transaction of two records, one that is committed, and the ends of both: offsets 0 to 5.
func fetchable(t *testing.T) (*kfake.Cluster, *kgo.Client, *kgo.Broker, TopicID) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.TransactionalID("id"), kgo.DefaultProduceTopic(testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	leader, err := LeaderOf(t.Context(), cl, TopicPartition{Topic: testTopic})
	if err != nil {
		t.Fatal(err)
	}
	return c, cl, leader, c.TopicInfo(testTopic).TopicID
}

// What is decoded is committed, markers included, and from the offset on that was asked for, though batches begin before.
func TestDecode(t *testing.T) {
	_, _, leader, id := fetchable(t)
	tp := TopicPartition{Topic: testTopic}
	for from, want := range map[int64][]int64{0: {2, 3, 4, 5}, 1: {2, 3, 4, 5}, 4: {4, 5}} {
		answer, err := FetchOnce(t.Context(), leader, tp, id, from, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		records, next, err := Decode(tp, from, answer)
		if err != nil || next != 6 {
			t.Errorf("from %d on: up to %d, %v", from, next, err)
		}
		var got []int64
		for _, r := range records {
			got = append(got, r.Offset)
			if r.Attrs.IsControl() != (r.Offset == 2 || r.Offset == 5) {
				t.Errorf("offset %d is a marker, or is none", r.Offset)
			}
		}
		if len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("from %d on: offsets %v, want %v", from, got, want)
		}
	}
	answer, err := FetchOnce(t.Context(), leader, tp, id, 3, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	answer.RecordBatches[len(answer.RecordBatches)-1] ^= 1 // of the last batch
	answer.RecordBatches[80] ^= 1
	if records, next, err := Decode(tp, 3, answer); err == nil {
		t.Errorf("what is broken on its way is decoded: %d records, up to %d", len(records), next)
	}
}

// What a leader refuses is an error, of the fetch or of the partition; and an answer that a quota delays is one.
func TestFetchOnceAnswers(t *testing.T) {
	c, _, leader, id := fetchable(t)
	tp := TopicPartition{Topic: testTopic}
	if _, err := FetchOnce(t.Context(), leader, tp, id, 100, 1<<20); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("above the log: %v", err)
	}
	if _, err := FetchOnce(t.Context(), leader, tp, TopicID{9}, 0, 1<<20); !errors.Is(err, kerr.UnknownTopicID) {
		t.Errorf("of another topic: %v", err)
	}
	asked, code := 0, int16(0)
	c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked++
		req, resp := kreq.(*kmsg.FetchRequest), kreq.ResponseKind().(*kmsg.FetchResponse)
		if of := req.Topics[0].Partitions[0]; req.IsolationLevel != 1 || req.MaxBytes != 1000 || of.PartitionMaxBytes != 1000 || req.SessionEpoch != -1 {
			t.Errorf("it asks for %+v", req)
		}
		if resp.ThrottleMillis, resp.ErrorCode = 10, code; code == 0 {
			topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
			topic.Topic, topic.TopicID, topic.Partitions = testTopic, req.Topics[0].TopicID, append(topic.Partitions, p)
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if answer, err := FetchOnce(ctx, leader, tp, id, 0, 1000); err != nil || answer == nil || asked != 1 {
		t.Errorf("delayed by a quota: %v, after %d requests", err, asked)
	}
	asked, code = 0, kerr.TopicAuthorizationFailed.Code
	if _, err := FetchOnce(ctx, leader, tp, id, 0, 1000); !errors.Is(err, kerr.TopicAuthorizationFailed) || asked != 1 {
		t.Errorf("refused: %v, after %d requests", err, asked)
	}
}

// The whole batches of an answer say up to where they go, and in which epoch they were written; one that is cut off says nothing.
func TestBeyond(t *testing.T) {
	batch := func(magic byte, base int64, delta, epoch int32) []byte {
		b := make([]byte, 61)
		binary.BigEndian.PutUint64(b, uint64(base))
		binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
		binary.BigEndian.PutUint32(b[12:], uint32(epoch))
		b[16] = magic
		binary.BigEndian.PutUint32(b[23:], uint32(delta))
		return b
	}
	join := func(of ...[]byte) (all []byte) {
		for _, b := range of {
			all = append(all, b...)
		}
		return all
	}
	broken := batch(2, 10, 5, 3)
	binary.BigEndian.PutUint32(broken[8:], 4)
	for _, test := range []struct {
		name   string
		in     []byte
		beyond int64
		epoch  int32
	}{
		{"nothing", nil, 7, -1},
		{"one", batch(2, 10, 5, 3), 16, 3},
		{"two", join(batch(2, 10, 5, 3), batch(2, 20, 0, 4)), 21, 4},
		{"of an older epoch", join(batch(2, 10, 0, 4), batch(2, 20, 0, 3)), 21, 4},
		{"before the offset", batch(2, 0, 2, 3), 7, 3},
		{"before epochs", batch(1, 10, 5, 3), 11, -1},
		{"cut off", join(batch(2, 10, 5, 3), batch(2, 20, 0, 4)[:60]), 16, 3},
		{"cut off early", join(batch(2, 10, 5, 3), batch(2, 20, 0, 4)[:26]), 16, 3},
		{"of no size", join(batch(2, 10, 5, 3), broken), 16, 3},
	} {
		answer := &kmsg.FetchResponseTopicPartition{RecordBatches: test.in}
		if got, epoch := Beyond(7, answer), EpochOf(answer); got != test.beyond || epoch != test.epoch {
			t.Errorf("%s: up to %d, in epoch %d, and not %d, %d", test.name, got, epoch, test.beyond, test.epoch)
		}
	}
}
