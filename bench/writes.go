package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor"
)

// writes counts what is written to Kafka for a delayed record: records of any sort, in every topic of the case.
func writes(ctx context.Context, r *runner) ([]Result, error) {
	s, err := r.newStage(ctx, "writes", 1, r.o.Partitions)
	if err != nil {
		return nil, err
	}
	plan := r.o.schedule()
	n := plan.warm + plan.in
	r.progress("writes: %s requests, due at %s/s", thousands(int64(n)), thousands(int64(plan.rate)))
	// So that most records are due after the near window when they are accepted, and go through the store.
	window := func(c *processor.Config) { c.NearWindow = r.o.settle + r.o.For/2 }
	var played *running
	checked, err := s.play(ctx, window, func(p *running) error {
		played = p
		if err := p.requests(ctx, &plan, false); err != nil {
			return err
		}
		return p.until(ctx, "delivered", int64(n), p.delivered)
	})
	if err != nil {
		return nil, err
	}
	topics := append(s.delays[:1:1], s.targets[0], s.dead)
	records, markers, err := appended(ctx, r.cluster, topics...)
	if err != nil {
		return nil, err
	}
	transactions := played.Stats().Transactions["committed"]
	f := Figures{
		"records_per_record": float64(records) / float64(n), "markers_per_record": float64(markers) / float64(n),
		"transactions": float64(transactions),
	}
	return []Result{{
		Case: "writes",
		What: fmt.Sprintf("All records in the delay topic, the target and the dead letter topic after %s requests, due at %s/s, most of them beyond the near window, were delivered in exactly_once, divided by the number of "+
			"requests. The markers that end transactions are counted apart; offset commits, one for each partition of a transaction, are not counted.", thousands(int64(n)), thousands(int64(plan.rate))),
		Measured: fmt.Sprintf("%s; %.3f markers, in %s transactions", plain(f["records_per_record"]), f["markers_per_record"], thousands(transactions)),
		Figures:  f, Checked: checked,
	}}, nil
}

// appended counts what is in topics: records, whether committed or aborted, and control records.
func appended(ctx context.Context, c *cluster, topics ...string) (records, control int64, err error) {
	ends, err := c.adm.ListEndOffsets(ctx, topics...)
	if err = errors.Join(err, ends.Error()); err != nil {
		return 0, 0, err
	}
	cl, err := c.client(
		kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	left := 0 // partitions that are not read to their end
	for _, partitions := range ends {
		for _, end := range partitions {
			if end.Offset > 0 {
				left++
			}
		}
	}
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, 0, err
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			if rec.Attrs.IsControl() {
				control++
			} else {
				records++
			}
			if end, _ := ends.Lookup(rec.Topic, rec.Partition); rec.Offset == end.Offset-1 {
				left--
			}
		})
	}
	return records, control, nil
}
