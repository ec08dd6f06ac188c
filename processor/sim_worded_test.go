//go:build synctests

package processor

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// Requests of a schedule may ask by the headers of other tools, by headers with another prefix, and in other forms. What they mean is drawn
// first, with our own headers, and put into other words then; the checker reads these by itself.

// meant are the headers of a record before it was put into other words.
type meant struct{}

// meaning is what was meant by the headers of a record.
func meaning(r *kgo.Record) []kgo.RecordHeader {
	if r.Context != nil {
		if headers, ok := r.Context.Value(meant{}).([]kgo.RecordHeader); ok {
			return headers
		}
	}
	return r.Headers
}

// prefixed gives the headers of a request the prefix of its route.
func (w *world) prefixed(r *kgo.Record) *kgo.Record {
	prefix := w.host.cfg.prefix
	if prefix == "" || r.Topic != simTopic {
		return r
	}
	if r.Context == nil {
		r.Context = context.WithValue(context.Background(), meant{}, r.Headers)
	}
	r.Headers = slices.Clone(r.Headers)
	for i := range r.Headers {
		if rest, ours := strings.CutPrefix(r.Headers[i].Key, topics.HeaderPrefix); ours {
			r.Headers[i].Key = prefix + rest
		}
	}
	return r
}

// worded puts a request into other words, or leaves it as it is.
func (r *runner) worded(rec *kgo.Record) *kgo.Record {
	n := r.rng.IntN
	plain := slices.Clone(rec.Headers)
	if rec.Topic == simTopic {
		if n(4) == 0 {
			r.wrap(rec)
		}
		if n(4) == 0 {
			if tool := tools[n(len(tools))]; r.borrow(rec, tool) {
				r.borrowed++
				if plain = rec.Headers; r.knows(tool.name) && n(5) > 0 {
					plain = meaning(rec)
				} else if n(2) == 0 { // beside one of ours it means nothing
					rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: topics.HeaderTargetTopic, Value: []byte("orders")})
				} else { // and two contradict each other
					rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: "deliver-at", Value: strconv.AppendInt(nil, in(time.Second).UnixMilli(), 10)}, kgo.RecordHeader{Key: "scheduler-epoch", Value: []byte("1")})
				}
			}
		}
	}
	rec.Context = context.WithValue(context.Background(), meant{}, plain)
	if r.prefixed(rec); r.cfg.prefix != "" && n(10) == 0 { // which is a header of users then
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: topics.HeaderUntil, Value: []byte("of users")})
	}
	return rec
}

// knows reports whether the delay topic's route knows the headers of a tool.
func (r *runner) knows(tool string) bool {
	if r.cfg.tools == nil {
		return tool != "spring-retry"
	}
	return slices.Contains(r.cfg.tools, tool)
}

// wrap puts values into JSON quotes, or into the envelope of Connect's JsonConverter.
func (r *runner) wrap(rec *kgo.Record) {
	for i := range rec.Headers {
		switch h := &rec.Headers[i]; h.Key {
		case topics.HeaderUntil, topics.HeaderFor, topics.HeaderTargetTopic, topics.HeaderExpires, topics.HeaderTargetPartition:
			if h.Value = fmt.Appendf(nil, "%q", h.Value); r.rng.IntN(2) == 0 {
				h.Value = fmt.Appendf(nil, `{"schema":{"type":"string","optional":false},"payload":%s}`, h.Value)
			}
		}
	}
}

// tool is another scheduler: how it calls what our headers say, and how it writes it.
type tool struct {
	name  string
	says  map[string]string         // our names to its own
	until func(millis int64) []byte // nil: in ms
	more  []kgo.RecordHeader
}

func inSeconds(millis int64) []byte { return fmt.Appendf(nil, "%d.%03d", millis/1000, millis%1000) }

func asInstant(millis int64) []byte {
	return time.UnixMilli(millis).UTC().AppendFormat(nil, "2006-01-02T15:04:05.000Z07:00")
}

func bigEndian(millis int64) []byte { return big.NewInt(millis).Bytes() }

var tools = []tool{
	{"plain", map[string]string{topics.HeaderUntil: "deliver-at", topics.HeaderFor: "deliver-after"}, nil, nil},
	{"plain", map[string]string{topics.HeaderUntil: "deliver-at", topics.HeaderFor: "x-delay"}, asInstant, nil},
	{"etf1", map[string]string{topics.HeaderUntil: "scheduler-epoch", topics.HeaderTargetTopic: "scheduler-target-topic", topics.HeaderTargetKey: "scheduler-target-key"}, inSeconds, nil},
	{"karafka", map[string]string{topics.HeaderUntil: "schedule_target_epoch", topics.HeaderTargetTopic: "schedule_target_topic", topics.HeaderTargetKey: "schedule_target_key", topics.HeaderTargetPartition: "schedule_target_partition"},
		inSeconds, []kgo.RecordHeader{{Key: "schedule_schema_version", Value: []byte("1.0.0")}, {Key: "schedule_source_type", Value: []byte("schedule")}}},
	{"cloudevents", map[string]string{topics.HeaderUntil: "ce_deliverat", topics.HeaderFor: "ce_deliverafter", topics.HeaderExpires: "ce_expirytime"}, asInstant, nil},
	{"spring-retry", map[string]string{topics.HeaderUntil: "retry_topic-backoff-timestamp", topics.HeaderTargetTopic: "kafka_original-topic"}, bigEndian, nil},
}

// borrow asks by the headers of a tool for what a request asks for, as far as it has words for it: what it has none for is left out of the
// record, and of what was meant. It reports whether the record says when, and asks for nothing that concerns another one.
func (r *runner) borrow(rec *kgo.Record, t tool) bool {
	says := false
	for _, h := range rec.Headers {
		switch h.Key {
		case topics.HeaderUntil, topics.HeaderFor:
			says = says || t.says[h.Key] != ""
		case topics.HeaderID, topics.HeaderCancel, topics.HeaderReplace:
			return false
		}
	}
	if !says {
		return false
	}
	var plain, theirs []kgo.RecordHeader
	for _, h := range rec.Headers {
		if !strings.HasPrefix(h.Key, topics.HeaderPrefix) {
			plain, theirs = append(plain, h), append(theirs, h)
			continue
		}
		name := t.says[h.Key]
		if name == "" {
			continue
		}
		plain = append(plain, h)
		value := h.Value
		if millis, err := strconv.ParseInt(string(value), 10, 64); err == nil && t.until != nil && (h.Key == topics.HeaderUntil || h.Key == topics.HeaderExpires) {
			value = t.until(millis)
		}
		theirs = append(theirs, kgo.RecordHeader{Key: name, Value: value})
	}
	rec.Headers = append(theirs, t.more...)
	rec.Context = context.WithValue(context.Background(), meant{}, plain)
	return true
}

// sourceOf is the request of a delivered record: what was delivered on several routes is of the last one.
func (w *world) sourceOf(r *kgo.Record) (source string) {
	for _, h := range r.Headers {
		if h.Key == topics.HeaderSource || w.host.cfg.prefix != "" && h.Key == w.host.cfg.prefix+strings.TrimPrefix(topics.HeaderSource, topics.HeaderPrefix) {
			source = string(h.Value)
		}
	}
	return source
}
