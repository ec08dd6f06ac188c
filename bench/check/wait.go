package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Wait waits until every request that is in the delay topics now, and due by Config.Until, has arrived, and every topic
// has been read to where it ends then. Past the deadline of ctx it returns an error that is ErrWaiting and tells what it was waiting for.
func (w *Watch) Wait(ctx context.Context) error {
	if err := w.Settle(ctx); err != nil {
		return err
	}
	if err := w.until(ctx, func() string {
		if n := w.checker.Counts().Outstanding; n > 0 {
			return fmt.Sprintf("for %d of %d requests", n, w.checker.Counts().Requested)
		}
		return ""
	}); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Errorf("%w, such as %s", err, exampleOf(w.checker))
	}
	return w.Settle(ctx)
}

// Settle waits until every topic has been read to where it ends now. What is in an open transaction is waited for, too.
func (w *Watch) Settle(ctx context.Context) error {
	ends, err := w.ends(ctx)
	if err != nil {
		return err
	}
	return w.reach(ctx, ends)
}

// reach waits until the topics have been read up to ends.
func (w *Watch) reach(ctx context.Context, ends map[topicPartition]int64) error {
	unread := func() string {
		for at, end := range ends {
			if next := w.next[at]; next < end {
				return fmt.Sprintf("for %s/%d to be read from %d to %d", at.topic, at.partition, next, end)
			}
		}
		return ""
	}
	for {
		a, cancel := context.WithTimeout(ctx, time.Second)
		err := w.until(a, unread)
		cancel()
		if !errors.Is(err, ErrWaiting) || a.Err() == nil || ctx.Err() != nil {
			return err
		}
		// A topic that was deleted meanwhile has no end any more.
		now, err := w.ends(ctx)
		if err != nil {
			return err
		}
		maps.DeleteFunc(ends, func(at topicPartition, _ int64) bool { return w.mayVanish(at.topic) && now[at] == 0 })
	}
}

// ends asks where the topics end.
func (w *Watch) ends(ctx context.Context) (map[topicPartition]int64, error) {
	for {
		ends, err := w.tryEnds(ctx)
		var refused *kerr.Error
		if err == nil || errors.As(err, &refused) && !refused.Retriable {
			return ends, err
		}
		select { // a broker that is being restarted
		case <-ctx.Done():
			return nil, fmt.Errorf("%w for the ends of topics: %w", ErrWaiting, err)
		case <-w.done:
			return nil, w.ended("for the ends of topics")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (w *Watch) tryEnds(ctx context.Context) (map[topicPartition]int64, error) {
	starts, err := w.admin.ListStartOffsets(ctx, w.config.topics()...)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	listed, err := w.admin.ListEndOffsets(ctx, w.config.topics()...)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	ends := make(map[topicPartition]int64)
	for topic, partitions := range listed {
		for partition, end := range partitions {
			switch start, _ := starts.Lookup(topic, partition); {
			case end.Err != nil && w.mayVanish(topic):
			case end.Err != nil:
				return nil, fmt.Errorf("end of %s/%d: %w", topic, partition, end.Err)
			case end.Offset > start.Offset:
				ends[topicPartition{topic, partition}] = end.Offset
			}
		}
	}
	return ends, nil
}

// until waits for a condition, which is asked after each fetch with mu held and says what is still wanting.
func (w *Watch) until(ctx context.Context, wanting func() string) error {
	for {
		w.mu.Lock()
		what, changed, lost, finished, trouble := wanting(), w.changed, w.lost, w.finished, w.trouble
		w.mu.Unlock()
		switch {
		case lost != nil:
			return lost
		case what == "":
			return nil
		case finished:
			return w.ended(what)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%w %s: %w", ErrWaiting, what, context.Cause(ctx)), trouble)
		}
	}
}

// ended is the error of a wait for a reader that has ended.
func (w *Watch) ended(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil {
		return w.lost
	}
	return fmt.Errorf("%w %s: the watch was stopped", ErrWaiting, what)
}
