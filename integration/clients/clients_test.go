package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/topics"
)

// The versions are pinned: what a client writes is what this test is about.
const (
	confluentKafka = "confluent-kafka==2.16.1"
	kafkaPython    = "kafka-python==3.0.12"
	kafkaJS        = "kafkajs@2.2.4"
)

var javaArtifacts = []string{"org.apache.kafka:kafka-clients:4.3.1", "org.apache.kafka:connect-api:4.3.1", "org.apache.kafka:connect-json:4.3.1", "org.springframework.kafka:spring-kafka:3.3.10",
	"com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.21.2"}

// ready is how long a client may take, with fetching it for the first time.
const ready = 5 * time.Minute

const T = 1767225605123

// partitions are those of each topic.
const partitions = 5

// What real clients write for a time is read as the time that it is, or refused.
func TestClients(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what fetches clients of other languages")
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "kcat", "confluent", "kafkapython", "kafkajs", "java"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	broker := c.ListenAddrs()[0]
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
		{"java", 50, topics.PartitionerMurmur2, java},
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
				judge(t, r)
				if got := partitionBy(client.by, r); got != r.Partition {
					t.Errorf("%s is in partition %d, and by %s it would be in %d", r.Key, r.Partition, client.by, got)
				}
			}
		})
	}
}

// judge compares what a request means with what its key says that it should.
func judge(t *testing.T, r *kgo.Record) {
	t.Helper()
	parser, err := topics.ParserFor(topics.Spec(0))
	if err != nil {
		t.Fatal(err)
	}
	q, err := parser.Parse(r.Headers, topics.StampOf(r), r.Offset, topics.NewMark([4]byte{}, "g", 0))
	var refusal *topics.Refusal
	code := topics.Code("")
	if errors.As(err, &refusal) {
		code = refusal.Code
	}
	expected, _, _ := strings.Cut(string(r.Key), "/")
	var due int64
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
		return
	case "refused":
		if code != topics.CodeUnparsableDue || strings.HasSuffix(refusal.Message, "05.123Z") {
			t.Errorf("%s: %v is due at %d, %v: want advice", r.Key, r.Headers, q.Due, err)
		}
		return
	default:
		t.Errorf("a key %q", r.Key)
	}
	if err != nil || q.Due != due {
		t.Errorf("%s: %q is due at %d, %v, want %d", r.Key, r.Headers, q.Due, err, due)
	}
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

// run runs a program to its end.
func run(ctx context.Context, t *testing.T, env []string, advice, program string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%v: %s", err, advice)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), append(env, "TZ=UTC")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

const (
	kcatAdvice   = "install kcat (Debian: apt-get install kcat)"
	pythonAdvice = "install Python 3 with pip (Debian: apt-get install python3-pip)"
	nodeAdvice   = "install Node.js with npm (Debian: apt-get install nodejs npm)"
	javaAdvice   = "install a JDK 17 or newer and Maven (Debian: apt-get install openjdk-17-jdk-headless maven)"
)

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
		run(ctx, t, nil, kcatAdvice, "kcat", append([]string{"-P", "-b", broker, "-t", topic, "-k", r[0]}, append(r[1:], value)...)...)
	}
}

// python runs a program of testdata with one package of PyPI.
func python(program, requirement string) func(ctx context.Context, t *testing.T, broker, topic string) {
	return func(ctx context.Context, t *testing.T, broker, topic string) {
		dir, err := brokers.Cached("python", func(dir string) error {
			return fetch(ctx, pythonAdvice, "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", dir, requirement)
		}, requirement)
		if err != nil {
			t.Fatal(err)
		}
		run(ctx, t, []string{"PYTHONPATH=" + dir}, pythonAdvice, "python3", "testdata/"+program, broker, topic)
	}
}

func kafkajs(ctx context.Context, t *testing.T, broker, topic string) {
	dir, err := brokers.Cached("node", func(dir string) error {
		return fetch(ctx, nodeAdvice, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, kafkaJS)
	}, kafkaJS)
	if err != nil {
		t.Fatal(err)
	}
	run(ctx, t, []string{"NODE_PATH=" + dir + "/node_modules", "KAFKAJS_NO_PARTITIONER_WARNING=1"}, nodeAdvice, "node", "testdata/kafkajs.js", broker, topic)
}

func java(ctx context.Context, t *testing.T, broker, topic string) {
	if _, err := exec.LookPath("mvn"); err != nil {
		t.Fatalf("%v: %s", err, javaAdvice)
	}
	dir, err := brokers.Jars(ctx, "clients", t.Logf, javaArtifacts...)
	if err != nil {
		t.Fatal(err)
	}
	run(ctx, t, nil, javaAdvice, "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", dir+"/*", "testdata/Send.java", broker, topic)
}

// fetch lets a package manager install something.
func fetch(ctx context.Context, advice, program string, args ...string) error {
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s\n%s", program, strings.Join(args, " "), err, advice, out)
	}
	return nil
}
