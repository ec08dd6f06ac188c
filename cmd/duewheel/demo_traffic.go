package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// demoFar are the delays of the records that are due after the demo. They are asked for first.
var demoFar = []time.Duration{
	5 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour,
}

// send writes a record. That it could not be written ends the demo.
func (d *demo) send(r *kgo.Record) {
	d.client.Produce(context.Background(), r, func(_ *kgo.Record, err error) {
		if err != nil {
			d.fail(fmt.Errorf("produce to %s: %w", r.Topic, err))
		}
	})
}

// request asks for rate records a second until ctx ends, and returns when all are acknowledged.
func (d *demo) request(ctx context.Context, rate int) error {
	n := 0
	next := func(delay time.Duration, target string) {
		n++
		d.send(newDemoRequest(n, delay, target))
	}
	for i, delay := range demoFar {
		next(delay, demoTargets[i%len(demoTargets)])
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	begin, sent := time.Now(), 0
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case now := <-tick.C:
			for ; sent < int(now.Sub(begin).Seconds()*float64(rate)); sent++ {
				next(someDelay(), demoTargets[rand.IntN(len(demoTargets))])
			}
		}
	}
	return d.flush()
}

// flush waits until all that was sent is acknowledged.
func (d *demo) flush() error {
	ctx, cancel := context.WithTimeout(context.Background(), demoGrace)
	defer cancel()
	if err := d.client.Flush(ctx); err != nil {
		return fmt.Errorf("flush requests: %w", err)
	}
	return nil
}

// someDelay is a few seconds mostly. One in twenty is beyond the near window of 30 s, so that it
// takes the way through the store.
func someDelay() time.Duration {
	from, to := 300, 3_000
	switch n := rand.IntN(20); {
	case n >= 19:
		from, to = 32_000, 90_000
	case n >= 17:
		from, to = 10_000, 30_000
	case n >= 12:
		from, to = 3_000, 10_000
	}
	return time.Duration(from+rand.IntN(to-from)) * time.Millisecond
}

// newDemoRequest makes a request. One half asks for a time, the other for a delay.
func newDemoRequest(number int, delay time.Duration, target string) *kgo.Record {
	now := time.Now().Truncate(time.Millisecond)
	when := kgo.RecordHeader{Key: topics.HeaderFor, Value: []byte(delay.String())}
	if number%2 == 0 {
		when = kgo.RecordHeader{Key: topics.HeaderUntil, Value: []byte(now.Add(delay).UTC().Format("2006-01-02T15:04:05.000Z07:00"))}
	}
	return &kgo.Record{
		Topic:     demoRequests,
		Timestamp: now,
		Key:       []byte("customer-" + strconv.Itoa(number%97)),
		Value:     fmt.Appendf(nil, `{"number":%d,"asked":%q}`, number, now.UTC().Format(time.RFC3339Nano)),
		Headers:   []kgo.RecordHeader{when, {Key: topics.HeaderTargetTopic, Value: []byte(target)}, {Key: demoMark}},
	}
}

// cancelAhead is how far ahead a record is at least that is cancelled: a cancel takes a moment.
const cancelAhead = 1500 * time.Millisecond

// cancelNext cancels the record that is due next, by its handle, and tells what becomes of it.
func (d *demo) cancelNext(ctx context.Context) {
	at, q, ok := d.watch.next(time.Now().Add(cancelAhead))
	if !ok {
		d.watch.stories.answer("nothing waits that could be cancelled")
		return
	}
	handle := topics.Handle{Partition: at.Partition, Offset: at.Offset, Due: q.due}.String()
	due := time.UnixMilli(q.due)
	d.send(&kgo.Record{Topic: demoRequests, Key: []byte(q.key), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(handle)}, {Key: demoMark}}})
	d.watch.stories.answer("%s, due in %.1f s, is cancelled by its handle", handle, time.Until(due).Seconds())
	if !pause(ctx, time.Until(due)+time.Second) {
		return
	}
	d.watch.mu.Lock()
	_, gone := d.watch.cancelled[at]
	_, waits := d.watch.waiting[at]
	d.watch.mu.Unlock()
	switch {
	case gone:
		d.watch.stories.answer("%s was cancelled by its handle, and never came", handle)
	case !waits:
		d.watch.stories.answer("%s came: it was cancelled too late", handle)
	}
}
