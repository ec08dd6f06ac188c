package integration

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

// Records of 3 MiB go through topics that take 1 MiB, because they are compressed (by `kafka.compression: auto`), among others that cannot be. A topic that the
// broker recompresses takes them, too; one that it keeps uncompressed does not, and the dead letters are whole.
func TestCompressed(t *testing.T) {
	t.Parallel()
	const takes = 1_048_588
	types := []string{"producer", "gzip", "uncompressed"}
	s := newTenant(t, shared(t), setting{partitions: 1, targets: len(types), seed: newSeed(t), check: func(c *check.Config) {
		c.Targets[2].MaxBytes = takes
	}})
	for i, value := range types {
		altered, err := s.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "compression.type", Value: &value}}, s.targets[i])
		if err == nil {
			_, err = altered.On(s.targets[i], func(r *kadm.AlterConfigsResponse) error { return r.Err })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p := s.start(s.replica(func(c *replicaConfig) { c.Lanes, c.As = 1, append(s.opts(), kgo.WithCompressor(kafka.LargeOnly())) }))
	s.awaitLive(p, 1)
	cl, err := kgo.NewClient(append(s.opts(), kgo.ProducerBatchMaxBytes(20<<20), kgo.ProducerBatchCompression(kgo.GzipCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	large, other := make([]byte, 3<<20), make([]byte, 100_000)
	for i := range large {
		large[i] = byte('a' + i/1000%26)
	}
	random := rand.NewChaCha8([32]byte{byte(s.seed)})
	// The first few are small, so that the producers have been told of the topics when large ones come.
	for i, due := range []time.Duration{0, time.Second, 3 * time.Second} {
		at := strconv.FormatInt(time.Now().Add(due).UnixMilli(), 10)
		for n := range 30 {
			r := &kgo.Record{Topic: s.route.Topic, Headers: []kgo.RecordHeader{
				{Key: topics.HeaderUntil, Value: []byte(at)},
				{Key: topics.HeaderTargetTopic, Value: []byte(s.targets[n%len(types)])},
			}}
			if r.Value = large; i < 2 || n%5 > 0 {
				random.Read(other)
				r.Value = bytes.Clone(other)
			}
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.arrive()
	stats := p.Stats()
	p.stop()
	report := s.judge()
	if report.Delivered != 88 || report.DeadLettered != 2 {
		t.Errorf("%d delivered, %d dead-lettered", report.Delivered, report.DeadLettered)
	}
	if n := s.log.count("turn given up", "TOO_LARGE"); n > 0 {
		t.Errorf("%d times a turn was given up for the size of a record; turns %v", n, stats.Transactions)
	}
	dead, err := kgo.NewClient(append(s.opts(), kgo.ConsumeTopics(s.route.DeadLetter), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	for n := 0; n < 2; {
		dead.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			if n++; !bytes.Equal(r.Value, large) {
				t.Errorf("the value of the dead letter at %d has %d bytes", r.Offset, len(r.Value))
			}
		})
	}
}
