package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/topics"
)

const connectFile = "org.apache.kafka.connect.file.FileStream"

// Lines of a file become requests by nothing but the configuration of Kafka Connect, wait, and become lines of another file.
func TestConnect(t *testing.T) {
	s := newTenant(t, shared(t), setting{partitions: 1, seed: newSeed(t), check: func(c *check.Config) {
		c.Targets[0].Partitions = 0 // a line has no key
	}})
	p := s.start(s.replica())
	dir := t.TempDir()
	source, sink := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	began := time.Now()
	if err := os.WriteFile(source, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	const delay = 4 * time.Second
	_, err := s.cluster.Connect(t.Context(), map[string]string{
		"name":                         "source-" + s.name,
		"connector.class":              connectFile + "SourceConnector",
		"file":                         source,
		"topic":                        s.route.Topic,
		"transforms":                   "for,to",
		"transforms.for.type":          "org.apache.kafka.connect.transforms.InsertHeader",
		"transforms.for.header":        "delay-for",
		"transforms.for.value.literal": "PT4S",
		"transforms.to.type":           "org.apache.kafka.connect.transforms.InsertHeader",
		"transforms.to.header":         "delay-target-topic",
		"transforms.to.value.literal":  s.targets[0],
	}, map[string]string{
		"name":            "sink-" + s.name,
		"connector.class": connectFile + "SinkConnector",
		"file":            sink,
		"topics":          s.targets[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		b, _ := os.ReadFile(sink)
		if n := strings.Count(string(b), "\n"); n < 100 {
			return fmt.Sprintf("%d of 100 lines came out", n)
		}
		return ""
	})
	took := time.Since(began)
	p.stop()
	s.judge()
	if out, _ := os.ReadFile(sink); sorted(string(out)) != sorted(lines.String()) || took < delay {
		t.Errorf("after %v came out:\n%s", took, out)
	}
}

func sorted(lines string) string {
	all := strings.Split(lines, "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// The dead letter queue of a sink of Kafka Connect is a retry topic, by nothing but configuration. Its converter refuses every value; each comes back
// as often as it may, no larger than it was, and is parked. What fails until the sink is repaired is written once, by the attempt after that.
func TestConnectRetries(t *testing.T) {
	const records, attempts = 20, 20
	retrying := &topics.Retrying{
		Backoff: topics.Backoff{Initial: 100 * time.Millisecond, Factor: 1.1, Max: 200 * time.Millisecond}, MaxAttempts: attempts, FromHeaders: true, Strip: topics.ErrorHeaders,
	}
	s := newTenant(t, shared(t), setting{partitions: 2, delayConfig: map[string]string{"message.timestamp.type": "LogAppendTime"}, route: func(r *topics.Route) {
		r.Retry = retrying
	}})
	p := s.start(s.replica())
	s.awaitLive(p, 2)
	out := filepath.Join(t.TempDir(), "out")
	sink := map[string]string{
		"name": "sink-" + s.name, "connector.class": connectFile + "SinkConnector", "file": out, "topics": s.targets[0],
		"value.converter": "org.apache.kafka.connect.json.JsonConverter", "errors.tolerance": "all",
		"errors.deadletterqueue.topic.name": s.route.Topic, "errors.deadletterqueue.topic.replication.factor": "1",
		"errors.deadletterqueue.context.headers.enable": "true",
	}
	worker, err := s.cluster.Connect(t.Context(), sink)
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{tenant: s}
	for i := range records {
		f.write(s.targets[0], fmt.Sprint(i), time.Now().Add(-time.Hour))
	}
	trips := s.consume(s.targets[0], records*(attempts+1))
	parked := s.consume(s.route.DeadLetter, records)
	came := tripsOf(t, trips)
	for _, r := range parked {
		key := string(r.Key)
		if came[key] != attempts+1 || value(r, "delay-attempt") != fmt.Sprint(attempts) || value(r, "__delay.errors.code") != "attempts_exhausted" ||
			value(r, "__connect.errors.topic") != s.targets[0] || !strings.Contains(value(r, "__connect.errors.exception.class.name"), "DataException") {
			t.Errorf("%s came %d times, and is parked with %v", key, came[key], r.Headers)
		}
	}

	for i := range records {
		f.write(s.targets[0], fmt.Sprint("later-", i), time.Now().Add(-time.Hour))
	}
	s.consumeUntil(s.targets[0], func(all []*kgo.Record) bool {
		twice := 0
		for _, r := range all {
			if value(r, "delay-attempt") == "2" && strings.HasPrefix(string(r.Key), "later") {
				twice++
			}
		}
		return twice == records
	})
	sink["value.converter"] = "org.apache.kafka.connect.storage.StringConverter"
	if err := worker.Configure(t.Context(), sink); err != nil {
		t.Fatal(err)
	}
	var lines []string
	eventually(t, func() string {
		b, _ := os.ReadFile(out)
		if lines = strings.Fields(string(b)); len(lines) < records {
			return fmt.Sprintf("%d of %d records were written", len(lines), records)
		}
		return ""
	})
	p.stop()
	came = tripsOf(t, s.visible(s.targets[0]))
	failed := map[string]int{}
	for _, r := range s.visible(s.route.Topic) {
		failed[string(r.Key)]++
	}
	for i := range records {
		key := fmt.Sprint("later-", i)
		if n := came[key]; n < 3 || n > attempts || failed[key] != n-1 || !slices.Contains(lines, lineOf(key)) {
			t.Errorf("%s failed %d times, came %d times, and %d records were written:\n%s", key, failed[key], n, len(lines), strings.Join(lines, "\n"))
		}
	}
	if n := len(s.visible(s.route.DeadLetter)); n != records || len(lines) != records {
		t.Errorf("%d records were parked and %d written, want %d and %d", n, len(lines), records, records)
	}
}

// tripsOf counts how often each record has come: with the number of its attempt, its own headers and those of no error, and no larger than the
// first time that it came back.
func tripsOf(t *testing.T, all []*kgo.Record) map[string]int {
	t.Helper()
	size, came := map[string]int{}, map[string]int{}
	for _, r := range all {
		key := string(r.Key)
		if n := came[key]; n > 0 && value(r, "delay-attempt") != fmt.Sprint(n) || value(r, "__connect.errors.topic") != "" || value(r, "trace") != key {
			t.Errorf("trip %d of %s has %v", n, key, r.Headers)
		}
		came[key]++
		if n := topics.RecordSize(r.Key, r.Value, r.Headers); size[key] == 0 || came[key] == 2 {
			size[key] = n
		} else if n > size[key]+16 {
			t.Errorf("trip %d of %s has %d bytes, and the first had %d", came[key]-1, key, n, size[key])
		}
	}
	return came
}

// consume reads so many committed records of a topic from its beginning, and fails if there are more.
func (s *tenant) consume(topic string, n int) []*kgo.Record {
	s.t.Helper()
	all := s.consumeUntil(topic, func(all []*kgo.Record) bool { return len(all) >= n })
	if len(all) > n {
		s.t.Errorf("%d records came to %s, want %d", len(all), topic, n)
	}
	return all
}

// consumeUntil reads what is committed in a topic from its beginning until that is enough.
func (s *tenant) consumeUntil(topic string, enough func(all []*kgo.Record) bool) (all []*kgo.Record) {
	s.t.Helper()
	cl, err := kgo.NewClient(append(s.opts(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for !enough(all) {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			s.t.Fatalf("%d records came to %s, and more were wanted", len(all), topic)
		}
		fs.EachRecord(func(r *kgo.Record) { all = append(all, r) })
	}
	return all
}
