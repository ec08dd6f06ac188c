package clients

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/topics"
)

const T = 1767225605123

// partitions are those of each topic.
const partitions = 5

// What real clients write for a time is read as the time that it is, or refused, and the golden vectors of the parser have it byte for byte.
func TestClients(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what fetches clients of other languages")
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "kcat", "confluent", "kafkapython", "kafkajs", "java"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broker, golden := c.ListenAddrs()[0], goldenRows(t)
	for _, client := range []struct {
		name  string
		least int                // records
		by    topics.Partitioner // that it has by default
		send  func(ctx context.Context, t *testing.T, broker, topic string)
	}{
		{"kcat", 8, topics.PartitionerCRC32, kcat},
		{"confluent", 20, topics.PartitionerCRC32, python("confluent.py", confluentKafka)},
		{"kafkapython", 6, topics.PartitionerMurmur2, python("kafkapython.py", kafkaPython)},
		{"kafkajs", 13, topics.PartitionerMurmur2, kafkajs},
		{"java", 78, topics.PartitionerMurmur2, java},
	} {
		t.Run(client.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), ready)
			defer cancel()
			client.send(ctx, t, broker, client.name)
			records := written(ctx, t, broker, client.name)
			if len(records) < client.least {
				t.Errorf("%d records were written, want %d at least", len(records), client.least)
			}
			for _, r := range records {
				due, code := judge(t, r)
				isGolden(t, client.name, golden, r, meaning(r, due, code))
				if got := partitionBy(client.by, r); got != r.Partition {
					t.Errorf("%s is in partition %d, and by %s it would be in %d", r.Key, r.Partition, client.by, got)
				}
			}
		})
	}
}

// judge compares what a request means with what its key says that it should, and returns that.
func judge(t *testing.T, r *kgo.Record) (due int64, code topics.Code) {
	t.Helper()
	parser, err := topics.ParserFor(topics.Spec(0))
	if err != nil {
		t.Fatal(err)
	}
	q, err := parser.Parse(r.Headers, topics.StampOf(r), r.Offset, topics.NewMark([4]byte{}, "g", 0))
	var refusal *topics.Refusal
	if errors.As(err, &refusal) {
		code = refusal.Code
	}
	expected, _, _ := strings.Cut(string(r.Key), "/")
	switch expected {
	case "T":
		due = T
	case "S":
		due = T - 123
	case "M":
		due = T - 5123
	case "5m":
		due = r.Timestamp.UnixMilli() + 300_000
	case "absent":
		if code != topics.CodeNoDue {
			t.Errorf("%s: %v is due at %d, %v", r.Key, r.Headers, q.Due, err)
		}
		return 0, code
	case "refused":
		if code != topics.CodeUnparsableDue || strings.HasSuffix(refusal.Message, "05.123Z") {
			t.Errorf("%s: %v is due at %d, %v: want advice", r.Key, r.Headers, q.Due, err)
		}
		return 0, code
	default:
		t.Errorf("a key %q", r.Key)
	}
	if err != nil || q.Due != due {
		t.Errorf("%s: %q is due at %d, %v, want %d", r.Key, r.Headers, q.Due, err, due)
	}
	return due, ""
}

// partitionBy is where we would deliver a record with this key.
func partitionBy(p topics.Partitioner, r *kgo.Record) int32 {
	if n := p.Of(r.Key, 0, partitions); n >= 0 {
		return n
	}
	return int32(producer.Partitioner().ForTopic("").Partition(&kgo.Record{Key: r.Key, Partition: producer.AnyPartition}, partitions))
}

// written are the records of a topic, up to where it ends now.
func written(ctx context.Context, t *testing.T, broker, topic string) (all []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	end := int64(0)
	ends.Each(func(o kadm.ListedOffset) { end += o.Offset })
	for int64(len(all)) < end {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		all = append(all, f.Records()...)
	}
	return all
}

func kcat(ctx context.Context, t *testing.T, broker, topic string) {
	for _, r := range [][]string{
		{"T/milliseconds", "-H", "delay-until=1767225605123"},
		{"T/date -Ins", "-H", "delay-until=2026-01-01T00:00:05,123000000+00:00"},
		{"T/date --rfc-3339=ns", "-H", "delay-until=2026-01-01 00:00:05.123000000+00:00"},
		{"S/date +%s", "-H", "delay-until=1767225605"},
		{"S/alias", "-H", "scheduler-epoch=1767225605", "-H", "scheduler-target-topic=orders"},
		{"5m/words", "-H", "delay-for=PT5M"},
		{"5m/a clock", "-H", "delay-for=0:05:00"},
		{"5m/an alias", "-H", "x-delay=300000"},
		{"absent/no value", "-H", "delay-for"},
	} {
		value := t.TempDir() + "/value"
		if err := os.WriteFile(value, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		runs(ctx, t, installed(t, kcatAdvice, "kcat"), append([]string{"-P", "-b", broker, "-t", topic, "-k", r[0]}, append(r[1:], value)...)...)
	}
}

// python runs a program of testdata with one package of PyPI.
func python(program, requirement string) func(ctx context.Context, t *testing.T, broker, topic string) {
	return func(ctx context.Context, t *testing.T, broker, topic string) {
		runs(ctx, t, pythonWith(ctx, t, program, requirement), broker, topic)
	}
}

func kafkajs(ctx context.Context, t *testing.T, broker, topic string) {
	runs(ctx, t, node(ctx, t, "kafkajs.js"), broker, topic)
}

func java(ctx context.Context, t *testing.T, broker, topic string) {
	runs(ctx, t, javaWith(ctx, t, "Send.java"), broker, topic)
}
