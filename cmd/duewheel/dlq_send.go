package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

const (
	mostAtOnce      = 1000
	mostBytesAtOnce = 4 << 20
)

// sending writes requests, some at a time: when it ends early, all before a place are written and all behind it are not.
type sending struct {
	*replay
	journal journal
	pending []*again // to be written at once
	size    int      // of those
}

// run writes what was chosen and can be replayed.
func (s *sending) run(ctx context.Context, all chosen) error {
	atOnce := min(max(s.rate/10, 1), mostAtOnce)
	err := all(ctx, func(l *letter) error {
		if why, err := s.refuse(ctx, l); err != nil || why != "" {
			return err
		}
		a := s.again(l)
		size := topics.RecordSize(a.record.Key, a.record.Value, a.record.Headers)
		// The client bounds no batch by what the topic takes, since a larger record may fit as it is compressed.
		if len(s.pending) > 0 && s.size+size > min(s.entrances[a.record.Topic].takes, mostBytesAtOnce) {
			if err := s.writeAtRate(ctx); err != nil {
				return err
			}
		}
		s.pending, s.size = append(s.pending, a), s.size+size
		if len(s.pending) < atOnce {
			return nil
		}
		return s.writeAtRate(ctx)
	})
	if err == nil {
		err = s.write(ctx)
	}
	s.journal.end()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return err
}

// writeAtRate writes what is pending, and waits for as long as that may take.
func (s *sending) writeAtRate(ctx context.Context) error {
	if err := s.write(ctx); err != nil {
		return err
	}
	return s.pause(ctx)
}

// write writes what is pending and waits until all of it is answered.
func (s *sending) write(ctx context.Context) error {
	if len(s.pending) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var records []*kgo.Record
	for _, a := range s.pending {
		records = append(records, a.record)
	}
	answers := map[*kgo.Record]error{}
	for _, answer := range s.cl.ProduceSync(context.WithoutCancel(ctx), records...) {
		answers[answer.Record] = answer.Err
	}
	var first error
	for _, a := range s.pending {
		err := answers[a.record]
		if err != nil {
			s.journal.notAcknowledged(a)
			err = askToWrite(fmt.Errorf("produce to %s/%d: %w", a.record.Topic, a.record.Partition, err), a.record.Topic)
		} else {
			err = s.journal.acknowledged(a, s.confirm)
		}
		if first == nil {
			first = err
		}
	}
	s.pending, s.size = nil, 0
	s.journal.draw()
	return first
}

// confirm says where a request lies now and, where its route is known, what becomes of it.
func (s *sending) confirm(a *again) string {
	route := s.boxes.routes[a.record.Topic]
	if route == nil {
		return position{a.record.Topic, a.record.Partition, a.record.Offset}.String()
	}
	return (&order{}).confirm(a.record, route.Parser(), route, s.entrances[a.record.Topic].stamps).String()
}

// pause waits until as much time has passed as what is written may take.
func (s *sending) pause(ctx context.Context) error {
	wait := due(s.journal.written.total, s.rate) - s.now().Sub(s.journal.began)
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// due is when the next may be written after n.
func due(n, rate int) time.Duration {
	return time.Duration(float64(n) / float64(rate) * float64(time.Second))
}
