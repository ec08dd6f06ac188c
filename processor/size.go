package processor

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

// A broker compares a batch with max.message.bytes of its topic as it comes: compressed. The client
// compares what goes into a batch before that, and refuses a record that is larger by itself. So a
// record is judged here as the broker will judge it. The client is given a bound that any record is
// within for topics that are to take such a one, and then the turn keeps their batches small.

// largestBatch bounds a batch before it is compressed: what the client sends in one request
// (kgo.BrokerMaxWriteBytes, 100 MiB) with room for the rest of the request.
const largestBatch = 96 << 20

// batchPrefix is the length that stands before a batch in a produce request. The client counts
// it when it compares a batch with its bound; brokers do not.
const batchPrefix = 4

// recordBytes is the size of the largest record (topics.RecordSize) that the target takes as it is.
func (s *targetState) recordBytes() int { return min(int(s.takes.maxBytes), largestBatch-batchPrefix) }

// fits reports whether the target takes a record, whose size is given, as it is or compressed. If
// not, it says how large it is.
func (r *renderer) fits(rec *kgo.Record, size int, st *targetState) (how string, ok bool) {
	if size <= st.recordBytes() {
		return "", true
	}
	how = fmt.Sprintf("%d bytes", size)
	compressor := r.compressor()
	if compressor == nil || st.takes.inflates || size > largestBatch-batchPrefix {
		return how, false
	}
	body := topics.AppendRecord(make([]byte, 0, size), rec.Key, rec.Value, rec.Headers)
	var buf bytes.Buffer
	compressed, _ := compressor.Compress(&buf, body)
	if compressed == nil || len(compressed) >= len(body) {
		return how, false
	}
	n := topics.BatchOverhead + len(compressed)
	return fmt.Sprintf("%s, and %d when they are compressed,", how, n), n <= int(st.takes.maxBytes)
}

// compressor is the one that the producers use, which have the same options; nil: none.
func (r *renderer) compressor() kgo.Compressor {
	c, _ := r.l.reader.OptValue(kgo.WithCompressor).(kgo.Compressor)
	return c
}

// bounds knows how large a batch of each topic the client of a producer makes. The client asks once
// for each topic, and remembers the answer for as long as it lives.
type bounds struct {
	takes func(topic string) int32 // the largest batch that the topic takes

	mu    sync.Mutex
	large map[string]bool  // topics that are to take a record that is larger before it is compressed
	told  map[string]int32 // since the client was made
}

func newBounds(takes func(topic string) int32) *bounds {
	return &bounds{takes: takes, large: map[string]bool{}, told: map[string]int32{}}
}

// of is the bound of a topic.
func (b *bounds) of(topic string) int32 {
	if topic == "" { // asked once, to validate
		return defaultMaxBytes
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := b.told[topic]
	if !ok {
		n = b.takes(topic)
		if b.large[topic] {
			n = largestBatch
		}
		b.told[topic] = n
	}
	return n
}

// least is the bound that a topic has, or would have if the client asked now.
func (b *bounds) least(topic string) int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch n, ok := b.told[topic]; {
	case ok:
		return n
	case b.large[topic]:
		return largestBatch
	}
	return b.takes(topic)
}

// outgrow raises the bound of a topic, and reports whether the client remembers the lower one.
func (b *bounds) outgrow(topic string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.large[topic] = true
	return b.told[topic] != 0
}

// forget is called when a new client is made.
func (b *bounds) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.told)
}

// makeRoom replaces the client of the turn's producer if it would refuse a record for its size.
// It is called when no transaction is open.
func (t *turn) makeRoom(ctx context.Context) error {
	topic, least, outgrown := "", int32(0), false
	for i := range t.render.outputs {
		o := &t.render.outputs[i]
		if o.rec.Topic != topic {
			topic = o.rec.Topic
			least = t.producer.bounds.least(topic)
		}
		if o.size+batchPrefix > int(least) {
			least = largestBatch
			outgrown = t.producer.bounds.outgrow(topic) || outgrown
		}
	}
	if !outgrown {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	return t.producer.renew(ctx)
}

// window keeps the batches of a topic within what it takes, where the client does not: the records
// that go together make no larger batch, or are a single one.
type window struct{ takes, used, round int }

// roundOf is which round the next record of this size goes with.
func (w *window) roundOf(size int) int {
	if w.used > 0 && w.used+size > w.takes {
		w.round, w.used = w.round+1, 0
	}
	w.used += size
	return w.round
}

// windows are those of a turn, by topic; nil for a topic whose batches the client keeps small.
type windows map[string]*window

func (ws windows) of(topic string, b *bounds) *window {
	w, ok := ws[topic]
	if !ok {
		if takes := b.takes(topic); b.of(topic) > takes {
			w = &window{takes: int(takes)}
		}
		ws[topic] = w
	}
	return w
}

// handOver hands the records to the client, which sends them when it is flushed. It returns those
// that have to wait until what goes before them has been answered, in rounds.
func (t *turn) handOver(promise func(*kgo.Record, error)) (later [][]*kgo.Record) {
	ws, topic, w := windows{}, "", (*window)(nil)
	for i := range t.render.outputs {
		o := &t.render.outputs[i]
		if o.rec.Topic != topic {
			topic = o.rec.Topic
			w = ws.of(topic, t.producer.bounds)
		}
		n := 0
		if w != nil {
			n = w.roundOf(o.size)
		}
		if n == 0 {
			t.producer.cl.Produce(context.Background(), o.rec, promise)
			continue
		}
		if n > len(later) {
			later = append(later, nil)
		}
		later[n-1] = append(later[n-1], o.rec)
	}
	return later
}

// flush sends what was handed over, and then one round after the other.
func flush(ctx context.Context, cl *kgo.Client, later [][]*kgo.Record, promise func(*kgo.Record, error)) {
	for cl.Flush(ctx) == nil && len(later) > 0 {
		for _, r := range later[0] {
			cl.Produce(context.Background(), r, promise)
		}
		later = later[1:]
	}
}
