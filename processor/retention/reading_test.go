package retention

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// readable is a log of 100 records that are their offsets, and the carriage that reads it.
func readable(t *testing.T) (*kfake.Cluster, *kgo.Client, *carriage) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kafka.Options([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic(testTopic)})...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	for i := range 100 {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return c, cl, &carriage{tp: kafka.TopicPartition{Topic: testTopic}, id: c.TopicInfo(testTopic).TopicID}
}

func offsetsOf(t *testing.T, records []*kgo.Record) (offsets []int64) {
	t.Helper()
	for _, r := range records {
		if string(r.Value) != fmt.Sprint(r.Offset) {
			t.Errorf("the record at offset %d is %q", r.Offset, r.Value)
		}
		offsets = append(offsets, r.Offset)
	}
	return offsets
}

// What is wanted is read and nothing else; where the room ends, the rest begins with what is wanted next. What the log has lost is passed over.
func TestReadsWhatIsWanted(t *testing.T) {
	_, cl, g := readable(t)
	for _, test := range []struct {
		name   string
		wanted []int64
		room   int
		want   []int64
		next   int64
	}{
		{"nothing", nil, 1 << 20, nil, 90},
		{"some", []int64{0, 1, 7, 80}, 1 << 20, []int64{0, 1, 7, 80}, 90},
		{"without room", []int64{0, 1, 7, 80}, 0, nil, 0},
	} {
		records, next, err := g.read(t.Context(), cl, test.wanted, 90, test.room)
		if err != nil || next != test.next {
			t.Errorf("%s: %v, and the rest begins at %d, not %d", test.name, err, next, test.next)
		}
		equals(t, test.name+": offsets", offsetsOf(t, records), test.want)
	}
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), kadm.Offsets{testTopic: {0: {Topic: testTopic, At: 50}}}); err != nil {
		t.Fatal(err)
	}
	records, next, err := g.read(t.Context(), cl, []int64{0, 1, 50, 80}, 90, 1<<20)
	if err != nil || next != 90 {
		t.Errorf("%v, and the rest begins at %d", err, next)
	}
	equals(t, "what the log has left: offsets", offsetsOf(t, records), []int64{50, 80})
}

// A message of Kafka before 0.10 without key and value is shorter than the header of a batch.
func TestReadsTheShortestMessage(t *testing.T) {
	c, cl, g := readable(t)
	body := []byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff} // magic, attributes, no key, no value
	message := binary.BigEndian.AppendUint64(nil, 3)
	message = binary.BigEndian.AppendUint32(message, uint32(4+len(body)))
	message = append(binary.BigEndian.AppendUint32(message, crc32.ChecksumIEEE(body)), body...)
	c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		req, resp := kreq.(*kmsg.FetchRequest), kreq.ResponseKind().(*kmsg.FetchResponse)
		topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		p.HighWatermark, p.LastStableOffset, p.RecordBatches = 100, 100, message
		topic.Topic, topic.TopicID, topic.Partitions = testTopic, req.Topics[0].TopicID, append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	records, next, err := g.read(t.Context(), cl, []int64{3}, 90, 1<<20)
	if err != nil || next != 90 || len(records) != 1 || records[0].Offset != 3 || records[0].Key != nil || records[0].Value != nil {
		t.Errorf("%d records, %v, and the rest begins at %d", len(records), err, next)
	}
}

// A leader that sends nothing where something was committed is asked once, and an error ends the reading behind what was read.
func TestReadsNothingFromALeaderThatSendsNothing(t *testing.T) {
	c, cl, g := readable(t)
	g.weight = 1 // so that the second one takes another fetch
	asked, well, code := 0, 0, int16(0)
	c.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if asked++; asked <= well {
			return nil, nil, false
		}
		req, resp := kreq.(*kmsg.FetchRequest), kreq.ResponseKind().(*kmsg.FetchResponse)
		topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		p.ErrorCode, p.HighWatermark = code, 100
		topic.Topic, topic.TopicID, topic.Partitions = testTopic, req.Topics[0].TopicID, append(topic.Partitions, p)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if records, _, err := g.read(ctx, cl, []int64{3, 80}, 90, 1<<20); !errors.Is(err, errNothingThere) || asked != 1 || len(records) != 0 {
		t.Errorf("%d records, after %d requests: %v", len(records), asked, err)
	}
	code = kerr.KafkaStorageError.Code
	asked = 0
	if _, _, err := g.read(ctx, cl, []int64{3, 80}, 90, 1<<20); !errors.Is(err, kerr.KafkaStorageError) || asked != 1 {
		t.Errorf("refused, after %d requests: %v", asked, err)
	}
	asked, well = 0, 1
	records, next, err := g.read(ctx, cl, []int64{3, 95}, 99, 1<<20)
	if err != nil || next != 95 {
		t.Errorf("refused behind the first: %v, and the rest begins at %d", err, next)
	}
	equals(t, "refused behind the first: offsets", offsetsOf(t, records), []int64{3})
}
