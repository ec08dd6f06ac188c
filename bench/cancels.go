package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

// cancels measures how fast requests are taken back.
func cancels(ctx context.Context, r *runner) ([]Result, error) {
	var rates, written []float64
	var checked string
	for round := range r.o.Rounds + 1 {
		s, err := r.newStage(ctx, "cancels", 1, r.o.Partitions)
		if err != nil {
			return nil, err
		}
		c := &cancelling{s: s, handles: make([]topics.Handle, r.o.Records)}
		if checked, err = c.play(ctx); err != nil {
			return nil, err
		}
		r.progress("cancels: %s: %s/s, written at %s/s", roundName(round), thousands(int64(r.perSecond(c.decided))), thousands(int64(r.perSecond(c.wrote))))
		if round > 0 { // the first is a warm-up
			rates, written = append(rates, r.perSecond(c.decided)), append(written, r.perSecond(c.wrote))
		}
		if err := r.clean(ctx, 0); err != nil {
			return nil, err
		}
	}
	f := Figures{"cancels_per_s": median(rates), "written_per_s": median(written)}
	return []Result{{
		Case: "cancels",
		What: fmt.Sprintf("%s requests of 100 B in %d partitions are pending, due in hours and so in the store, and are then cancelled by their handles, in the same partitions and in the order in which they were written, as fast as one "+
			"producer in this process writes: from the first cancel that is handed over to the last whose decision is committed. exactly_once, defaults, on_unknown_cancel: dead_letter. Medians of %d, after a warm-up.",
			thousands(int64(r.o.Records)), r.o.Partitions, r.o.Rounds),
		Measured: fmt.Sprintf("%s/s; all were written at %s/s", thousands(int64(f["cancels_per_s"])), thousands(int64(f["written_per_s"]))),
		Figures:  f, Checked: checked,
	}}, nil
}

// cancelling is one run.
type cancelling struct {
	s              *stage
	handles        []topics.Handle
	wrote, decided time.Duration // since the first cancel was handed over: until all were acknowledged, and until all were decided
}

func (c *cancelling) play(ctx context.Context) (checked string, err error) {
	n := int64(len(c.handles))
	p, err := c.s.start(ctx, func(cfg *processor.Config) { cfg.Routes[0].CancelsAnswered = true })
	if err != nil {
		return "", err
	}
	if err = p.ready(ctx); err == nil {
		c.s.r.progress("cancels: writing %s requests", thousands(n))
		err = c.request(ctx)
	}
	if err == nil {
		err = p.until(ctx, "pending", n, p.pending)
	}
	if err == nil {
		began := time.Now()
		err = c.cancel(ctx)
		c.wrote = time.Since(began)
		if err == nil {
			err = p.until(ctx, "cancelled", n, func() int64 { return p.Stats().Cancels["cancelled"] })
		}
		c.decided = time.Since(began)
	}
	if err = errors.Join(err, p.stop()); err != nil {
		return "", err
	}
	report, err := c.s.report(ctx, func(cfg *check.Config) { cfg.Routes[0].CancelsAnswered, cfg.Until = true, time.Time{} })
	if err != nil {
		return "", err
	}
	if report.Requested != n || report.Cancels != n || report.Delivered+report.DeadLettered > 0 {
		return "", fmt.Errorf("of %d requests and %d cancels, %d were delivered and %d dead-lettered", report.Requested, report.Cancels, report.Delivered, report.DeadLettered)
	}
	return fmt.Sprintf("%s records: each cancelled once, none delivered", thousands(n)), nil
}

// request writes the requests, and learns their handles.
func (c *cancelling) request(ctx context.Context) error {
	w, err := c.s.newWriter()
	if err != nil {
		return err
	}
	defer w.cl.Close()
	first := time.Now().Add(farFrom).UnixMilli()
	for i := range c.handles {
		st := stamp{due: first + int64(noise(uint64(i))%uint64((farTo-farFrom).Milliseconds())), index: uint32(i)}
		w.cl.Produce(ctx, c.s.request(st, c.s.delays[0]), func(r *kgo.Record, err error) {
			if err != nil {
				w.failed.CompareAndSwap(nil, &err)
			}
			c.handles[i] = topics.Handle{Partition: r.Partition, Offset: r.Offset, Due: st.due}
		})
	}
	return w.flush(ctx)
}

// cancel writes the cancels.
func (c *cancelling) cancel(ctx context.Context) error {
	cl, err := c.s.r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(2*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed atomic.Pointer[error]
	for _, h := range c.handles {
		r := &kgo.Record{Topic: c.s.delays[0], Partition: h.Partition, Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(h.String())}}}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	err = errors.Join(cl.Flush(ctx), ctx.Err())
	if first := failed.Load(); first != nil {
		err = errors.Join(*first, err)
	}
	return err
}
