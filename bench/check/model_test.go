package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// now is when every test begins.
var now = time.UnixMilli(1_767_225_605_123)

// world is a delay topic, and a processor that keeps its promises: what it makes is then broken on purpose.
type world struct {
	config Config
	next   map[topicPartition]int64 // offsets
}

func newWorld() *world {
	return &world{
		config: Config{
			Routes: []Route{{
				Topic: "requests", Allow: []string{"orders", "bills.*", "gone"}, MaxDelay: 366 * 24 * time.Hour,
				TopicID: [16]byte{0xab, 0xcd, 0xef, 0x01, 2}, Emit: emitAll,
			}},
			Targets: []Target{{Topic: "orders", MaxBytes: 10_000}, {Topic: "bills.de", Partitions: 4}},
		},
		next: make(map[topicPartition]int64),
	}
}

// append gives a record its place at the end of a partition.
func (w *world) append(r *kgo.Record) *kgo.Record {
	key := topicPartition{r.Topic, r.Partition}
	r.Offset = w.next[key]
	w.next[key]++
	return r
}

// request makes a request. Headers are given as "name=value".
func (w *world) request(key, value string, headers ...string) *kgo.Record {
	return w.append(&kgo.Record{Topic: "requests", Partition: 1, Key: []byte(key), Value: []byte(value), Timestamp: now, Headers: parse(headers)})
}

func parse(headers []string) []kgo.RecordHeader {
	var all []kgo.RecordHeader
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		all = append(all, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return all
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// deliver makes the record that a request for orders must become, five milliseconds late.
func (w *world) deliver(q *kgo.Record, due time.Time) *kgo.Record {
	r := &kgo.Record{Topic: "orders", Key: q.Key, Value: q.Value, Timestamp: due.Add(5 * time.Millisecond)}
	for _, h := range q.Headers {
		if passes(h.Key) {
			r.Headers = append(r.Headers, h)
		}
	}
	r.Headers = append(r.Headers, parse([]string{
		"delay-due=" + millis(due), fmt.Sprintf("delay-source=%s/%d/%d", q.Topic, q.Partition, q.Offset),
		"delay-source-timestamp=" + millis(q.Timestamp), "delay-fired=" + millis(due.Add(time.Millisecond)),
	})...)
	return w.append(r)
}

// condemn makes the dead letter of a request.
func (w *world) condemn(q *kgo.Record, code string) *kgo.Record {
	r := &kgo.Record{Topic: q.Topic + ".dead", Key: q.Key, Value: q.Value, Timestamp: q.Timestamp}
	r.Headers = append(slices.Clone(q.Headers), parse([]string{
		errorPrefix + "topic=" + q.Topic, fmt.Sprint(errorPrefix, "partition=", q.Partition), fmt.Sprint(errorPrefix, "offset=", q.Offset),
		errorPrefix + "timestamp=" + millis(q.Timestamp), errorPrefix + "stage=" + stageOf(code), errorPrefix + "code=" + code, errorPrefix + "message=why",
	})...)
	return w.append(r)
}

// stageOf is where a request is refused with a code, mostly.
func stageOf(code string) string {
	for _, s := range stages {
		if s.codes&codeOf([]byte(code)) != 0 {
			return s.name
		}
	}
	return "PARSE"
}

// triedBefore has a dead letter say how often it was tried before.
func triedBefore(letter *kgo.Record, times int) *kgo.Record {
	letter.Headers = append(letter.Headers, parse([]string{fmt.Sprint(errorPrefix, "attempts=", times)})...)
	return letter
}

// retry makes the retry record of a request.
func (w *world) retry(q *kgo.Record, due, again time.Time) *kgo.Record {
	r := &kgo.Record{Topic: q.Topic, Partition: q.Partition, Key: q.Key, Value: q.Value, Timestamp: now.Add(time.Second)}
	r.Headers = append(slices.Clone(q.Headers), parse([]string{
		fmt.Sprintf("delay-retry=abcdef01:g:%d:%d:%s:%s:1:%s", q.Partition, q.Offset, millis(q.Timestamp), millis(due), millis(again)),
	})...)
	return w.append(r)
}

// set replaces a header's value.
func set(r *kgo.Record, name, value string) {
	for i := range r.Headers {
		if r.Headers[i].Key == name {
			r.Headers[i].Value = []byte(value)
		}
	}
}

// drop removes a header.
func drop(r *kgo.Record, name string) {
	r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
}
