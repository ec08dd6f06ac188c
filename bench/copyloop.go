package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// copyBatches are how many records the copy loop takes into one transaction. The best of them counts.
var copyBatches = []int{5_000, 20_000, 50_000}

// speed is how fast records went through, and what that took.
type speed struct {
	rate float64 // records a second
	cpu  float64 // µs a record, of this process
}

// stopwatch measures a speed.
type stopwatch struct {
	at  time.Time
	cpu time.Duration
}

func startWatch() stopwatch { return stopwatch{time.Now(), cpuTime()} }

func (w stopwatch) stop(n int) speed {
	return speed{float64(n) / time.Since(w.at).Seconds(), float64((cpuTime() - w.cpu).Nanoseconds()) / 1000 / float64(n)}
}

// copyLoop is the yardstick: franz-go's exactly-once consume, transform, produce, with records copied as they
// are, so many of those in the stage's delay topics. It is measured from the first poll that returned records to the last commit.
func copyLoop(ctx context.Context, s *stage, n, batch int) (p speed, err error) {
	name := fmt.Sprintf("%s.copy-%d", s.name, batch)
	defer s.r.tidy(ctx, len(s.r.made), &err)
	s.r.made = append(s.r.made, made{group: name})
	if err := s.r.newTopic(ctx, name, s.r.o.Partitions); err != nil {
		return p, err
	}
	runtime.GC()
	sess, err := kgo.NewGroupTransactSession(append(slices.Clip(s.r.opts),
		kgo.ConsumerGroup(name),
		kgo.TransactionalID(name),
		kgo.ConsumeTopics(s.delays...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ProducerLinger(0),             // a full transaction is not waited for
		kgo.MaxBufferedRecords(2*batch+1), // nor does a large one block in the middle
	)...)
	if err != nil {
		return p, err
	}
	defer sess.Close()
	var watch stopwatch
	for copied := 0; copied < n; {
		fetches := sess.PollRecords(ctx, batch)
		if err := fetches.Err(); err != nil {
			return p, fmt.Errorf("copy loop: %w", err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if watch.at.IsZero() {
			watch = startWatch()
		}
		taken, err := copyBatch(ctx, sess, name, fetches, min(batch, n-copied))
		if err != nil {
			return p, fmt.Errorf("copy loop: %w", err)
		}
		copied += taken
	}
	return watch.stop(n), nil
}

// copyBatch copies at least want records in one transaction, beginning with those that were fetched.
func copyBatch(ctx context.Context, sess *kgo.GroupTransactSession, to string, fetches kgo.Fetches, want int) (taken int, err error) {
	if err := sess.Begin(); err != nil {
		return 0, err
	}
	for {
		fetches.EachRecord(func(r *kgo.Record) {
			sess.Produce(ctx, &kgo.Record{Topic: to, Key: r.Key, Value: r.Value, Headers: r.Headers}, nil)
		})
		if taken += fetches.NumRecords(); taken >= want {
			break
		}
		fetches = sess.PollRecords(ctx, want-taken)
		if err := fetches.Err(); err != nil {
			_, endErr := sess.End(context.WithoutCancel(ctx), kgo.TryAbort)
			return 0, errors.Join(err, endErr)
		}
	}
	switch committed, err := sess.End(ctx, kgo.TryCommit); {
	case err != nil:
		return 0, err
	case !committed:
		return 0, errors.New("a transaction was aborted") // a rebalance, though the loop is alone in its group
	}
	return taken, nil
}
