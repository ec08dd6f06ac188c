package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// demoID is the header by which the demo knows its own records again.
const demoID = "demo-id"

// demoFar are the delays of the records that are due after the demo. They are asked for first.
var demoFar = []time.Duration{
	5 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour,
}

// request asks for rate records a second until ctx ends, and returns when all are acknowledged.
func (d *demo) request(ctx context.Context, rate int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.broker), kgo.ClientID("demo-requests"))
	if err != nil {
		return err
	}
	defer cl.Close()
	failing, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	send := func(r *kgo.Record) {
		cl.Produce(context.WithoutCancel(ctx), r, func(_ *kgo.Record, err error) {
			if err != nil {
				fail(fmt.Errorf("produce to %s: %w", r.Topic, err))
			}
		})
	}
	for i, delay := range demoFar {
		send(d.newRequest(delay, demoTargets[i%len(demoTargets)]))
	}
	send(d.newRequest(time.Second, "payroll")) // not allowed: it is dead-lettered
	var playing sync.WaitGroup
	defer playing.Wait()
	playing.Go(func() { d.watch.stories.play(failing, send) })
	defer fail(nil) // before it is waited for
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	begin, sent := time.Now(), 0
	for failing.Err() == nil {
		select {
		case <-failing.Done():
		case now := <-tick.C:
			for ; sent < int(now.Sub(begin).Seconds()*float64(rate)); sent++ {
				send(d.newRequest(someDelay(), demoTargets[rand.IntN(len(demoTargets))]))
			}
		}
	}
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), demoGrace)
	defer cancel()
	if err := cl.Flush(flushing); err != nil {
		return fmt.Errorf("flush requests: %w", err)
	}
	if cause := context.Cause(failing); ctx.Err() == nil || !errors.Is(cause, ctx.Err()) {
		return cause
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

// newRequest makes a request that the watch expects from now on. One half asks for a time, the
// other for a delay.
func (d *demo) newRequest(delay time.Duration, target string) *kgo.Record {
	now := time.Now().Truncate(time.Millisecond)
	due := now.Add(delay)
	id := d.watch.expect(due.UnixMilli(), target)
	when := kgo.RecordHeader{Key: topics.HeaderFor, Value: []byte(delay.String())}
	if id%2 == 0 {
		when = kgo.RecordHeader{Key: topics.HeaderUntil, Value: []byte(due.UTC().Format("2006-01-02T15:04:05.000Z07:00"))}
	}
	number := strconv.FormatInt(id, 10)
	return &kgo.Record{
		Topic:     demoRequests,
		Timestamp: now,
		Key:       []byte("customer-" + strconv.FormatInt(id%97, 10)),
		Value:     fmt.Appendf(nil, `{"number":%d,"asked":%q}`, id, now.UTC().Format(time.RFC3339Nano)),
		Headers: []kgo.RecordHeader{
			when,
			{Key: topics.HeaderTargetTopic, Value: []byte(target)},
			{Key: demoID, Value: []byte(number)},
		},
	}
}
