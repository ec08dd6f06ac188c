package turn

import (
	"bytes"
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// A broker compares a batch with max.message.bytes of its topic as it comes: compressed. The client
// compares what goes into a batch before that, and refuses a record that is larger by itself. So a
// record is judged here as the broker will judge it. The client is given a bound that any record is
// within for topics that are to take such a one, and then the turn keeps their batches small.

// fits reports whether the target takes a record, whose size is given, as it is or compressed. If
// not, it says how large it is.
func (r *Renderer) fits(rec *kgo.Record, size int, st *targets.State) (how string, ok bool) {
	if size <= st.Takes.RecordBytes() || st.Takes.Guessed && size <= kafka.LargestBatch-kafka.BatchPrefix { // what it does not take it refuses
		return "", true
	}
	how = fmt.Sprintf("%d bytes", size)
	compressor, _ := r.Reader.OptValue(kgo.WithCompressor).(kgo.Compressor) // the producers have the same options; nil: none
	if compressor == nil || st.Takes.Inflates || size > kafka.LargestBatch-kafka.BatchPrefix {
		return how, false
	}
	body := topics.AppendRecord(make([]byte, 0, size), rec.Key, rec.Value, rec.Headers)
	var buf bytes.Buffer
	compressed, _ := compressor.Compress(&buf, body)
	if compressed == nil || len(compressed) >= len(body) {
		return how, false
	}
	n := topics.BatchOverhead + len(compressed)
	return fmt.Sprintf("%s, and %d when they are compressed,", how, n), n <= int(st.Takes.MaxBytes)
}

// makeRoom replaces the client of the turn's producer if it would refuse a record for its size, or
// since it does not know its partition. It is called when no transaction is open.
func (t *Turn) makeRoom(ctx context.Context) error {
	topic, least, refuses := "", int32(0), false
	known := int32(producer.AnyPartition) // and all below it
	for i := range t.Renderer.Outputs {
		o := &t.Renderer.Outputs[i]
		if o.Record.Topic != topic {
			topic = o.Record.Topic
			least = t.Producer.Bounds().Least(topic)
			known = producer.AnyPartition
		}
		if p := o.Record.Partition; p > known {
			known = p
			refuses = !t.Producer.Knows(topic, p) || refuses
		}
		if o.Size+kafka.BatchPrefix > int(least) {
			least = kafka.LargestBatch
			refuses = t.Producer.Bounds().Outgrow(topic) || refuses
		}
	}
	if !refuses {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	return t.Producer.Renew(ctx)
}

// packing keeps the batches of a topic within what it takes, where the client does not: the records
// that go together make no larger batch, or are a single one.
type packing struct{ takes, used, round int }

// roundOf is which round the next record of this size goes with.
func (w *packing) roundOf(size int) int {
	if w.used > 0 && w.used+size > w.takes {
		w.round, w.used = w.round+1, 0
	}
	w.used += size
	return w.round
}

// packings are those of a turn, by topic; nil for a topic whose batches the client keeps small.
type packings map[string]*packing

func (ws packings) of(topic string, b *producer.Bounds) *packing {
	w, ok := ws[topic]
	if !ok {
		if takes, larger := b.Exceeds(topic); larger {
			w = &packing{takes: int(takes)}
		}
		ws[topic] = w
	}
	return w
}

// handOver hands the records to the client, which sends them when it is flushed. It returns those
// that have to wait until what goes before them has been answered: in rounds, and then in stages.
func (t *Turn) handOver(promise func(*kgo.Record, error)) (later [][]*kgo.Record, stages []rounds) {
	stages = make([]rounds, lastStage+1)
	ws, in, topic, w := [lastStage + 1]packings{}, 0, "", (*packing)(nil)
	for stage := range ws {
		ws[stage] = packings{}
	}
	for i := range t.Renderer.Outputs {
		o := &t.Renderer.Outputs[i]
		stage := t.stage(o)
		if o.Record.Topic != topic || stage != in {
			topic, in = o.Record.Topic, stage
			w = ws[stage].of(topic, t.Producer.Bounds())
		}
		n := 0
		if w != nil {
			n = w.roundOf(o.Size)
		}
		if stage > stageRecords {
			stages[stage] = stages[stage].add(follower{o.Record, o.Of}, n)
			continue
		}
		if n == 0 {
			t.Producer.Client().Produce(context.Background(), o.Record, promise)
			continue
		}
		if n > len(later) {
			later = append(later, nil)
		}
		later[n-1] = append(later[n-1], o.Record)
	}
	return later, stages
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
