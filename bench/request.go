package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/topics"
)

// valueBytes is the size of every record's value.
const valueBytes = 100

// stamp is what a value begins with, so that a consumer knows a record without its headers.
type stamp struct {
	due   int64  // ms
	mark  uint32 // which part of the case it belongs to
	index uint32 // within that part
}

const stampBytes = 16

// value writes the value of a record: its stamp, and noise that differs from record to record and that
// no compression makes smaller.
func (s stamp) value() []byte {
	b := make([]byte, stampBytes, valueBytes+8)
	binary.BigEndian.PutUint64(b, uint64(s.due))
	binary.BigEndian.PutUint32(b[8:], s.mark)
	binary.BigEndian.PutUint32(b[12:], s.index)
	for x := noise(uint64(s.mark)<<32 | uint64(s.index)); len(b) < valueBytes; x = noise(x) {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b[:valueBytes:valueBytes]
}

// stampOf reads what value wrote.
func stampOf(value []byte) (stamp, bool) {
	if len(value) != valueBytes {
		return stamp{}, false
	}
	return stamp{
		due:  int64(binary.BigEndian.Uint64(value)),
		mark: binary.BigEndian.Uint32(value[8:]), index: binary.BigEndian.Uint32(value[12:]),
	}, true
}

// noise is SplitMix64: the same input always gives the same output, and neighbours have nothing in common.
func noise(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s stamp) request(topic string) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Value: s.value(),
		Headers: []kgo.RecordHeader{{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, s.due, 10)}},
	}
}

// request is what asks for a record of the stage's.
func (s *stage) request(st stamp, topic string) *kgo.Record {
	rec := st.request(topic)
	rec.Key = s.key(st)
	if len(s.targets) > 1 {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: topics.HeaderTargetTopic, Value: []byte(s.targetOf(st))})
	}
	return rec
}

// delivered is the record that is asked for.
func (s *stage) delivered(st stamp) *kgo.Record {
	return &kgo.Record{Topic: s.targetOf(st), Key: s.key(st), Value: st.value()}
}

func (s *stage) targetOf(st stamp) string { return s.targets[int(st.index)%len(s.targets)] }

func (s *stage) key(st stamp) []byte {
	if s.keys == 0 {
		return nil
	}
	return strconv.AppendUint(nil, noise(uint64(st.index))%uint64(s.keys), 10)
}

// writer writes requests, spread evenly over partitions.
type writer struct {
	cl     *kgo.Client
	failed atomic.Pointer[error] // the first
}

func (r *runner) newWriter(more ...kgo.Opt) (*writer, error) {
	cl, err := r.client(append(more, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(2*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	return &writer{cl: cl}, nil
}

// write hands over a record. Acked, if any, is called when it is acknowledged.
func (w *writer) write(ctx context.Context, rec *kgo.Record, acked func()) {
	w.cl.Produce(ctx, rec, func(_ *kgo.Record, err error) {
		switch {
		case err != nil:
			w.failed.CompareAndSwap(nil, &err)
		case acked != nil:
			acked()
		}
	})
}

// flush waits until everything is acknowledged.
func (w *writer) flush(ctx context.Context) error {
	err := w.cl.Flush(ctx)
	if first := w.failed.Load(); first != nil {
		return errors.Join(*first, err)
	}
	return err
}

// end is flush, and the end of the writer.
func (w *writer) end(ctx context.Context) error {
	defer w.cl.Close()
	return w.flush(ctx)
}

// fill writes n requests as fast as the cluster takes them, to all delay topics in turn.
func (s *stage) fill(ctx context.Context, n int, make func(i int) stamp) error {
	w, err := s.r.newWriter()
	if err != nil {
		return err
	}
	s.writeAll(ctx, w, n, make)
	return errors.Join(w.end(ctx), ctx.Err())
}

func (s *stage) writeAll(ctx context.Context, w *writer, n int, make func(i int) stamp) {
	for i := 0; i < n && ctx.Err() == nil && w.failed.Load() == nil; i++ {
		w.write(ctx, s.request(make(i), s.delays[i%len(s.delays)]), nil)
	}
}

// holdLimit is how long held requests may stay held; a cluster allows 15 minutes unless that was changed.
const holdLimit = 10 * time.Minute

// hold writes n requests in a transaction, so that no read_committed consumer sees any of them until reveal is called, and
// then all of them at once. Forget ends a hold that may not have been revealed.
func (s *stage) hold(ctx context.Context, n int, make func(i int) stamp) (reveal func(context.Context) error, forget func(), err error) {
	w, err := s.r.newWriter(kgo.TransactionalID(s.name+".writer"), kgo.TransactionTimeout(holdLimit))
	if err != nil {
		return nil, nil, err
	}
	held := false
	forget = func() {
		if held { // else the broker would wait for the end of holdLimit
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
			defer cancel()
			_ = w.cl.AbortBufferedRecords(ctx)
			_ = w.cl.EndTransaction(ctx, kgo.TryAbort)
		}
		w.cl.Close()
	}
	if err = w.cl.BeginTransaction(); err == nil {
		held = true
		s.writeAll(ctx, w, n, make)
		err = errors.Join(w.flush(ctx), ctx.Err())
	}
	if err != nil {
		forget()
		return nil, nil, fmt.Errorf("write requests: %w", err)
	}
	return func(ctx context.Context) error {
		if err := producer.Stored(ctx, w.cl, s.firsts()); err != nil {
			return err
		}
		err := w.cl.EndTransaction(ctx, kgo.TryCommit)
		held = err != nil
		return err
	}, forget, nil
}

// firsts are records of the first partition of each delay topic.
func (s *stage) firsts() iter.Seq[*kgo.Record] {
	return func(yield func(*kgo.Record) bool) {
		for _, topic := range s.delays {
			if !yield(&kgo.Record{Topic: topic}) {
				return
			}
		}
	}
}

// pace writes n requests one after the other, the i-th of them at start plus i intervals.
func (s *stage) pace(ctx context.Context, n int, start time.Time, interval time.Duration, make func(i int) stamp, acked func(topic int)) error {
	w, err := s.r.newWriter()
	if err != nil {
		return err
	}
	tick := time.NewTicker(max(interval, time.Millisecond))
	defer tick.Stop()
	for i := 0; i < n && w.failed.Load() == nil; {
		for until := min(n, int(time.Since(start)/interval)+1); i < until; i++ {
			topic := i % len(s.delays)
			w.write(ctx, s.request(make(i), s.delays[topic]), func() {
				if acked != nil {
					acked(topic)
				}
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(w.end(ctx), ctx.Err())
		}
	}
	return w.end(ctx)
}
