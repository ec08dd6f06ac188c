package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/processor"
)

const (
	markTrickle uint32 = 0 // the marks above are bursts

	// trickleRate is how many further requests are written each second, over all delay topics: one a millisecond,
	// so that a pause of intake is seen to some milliseconds.
	trickleRate  = 1000
	trickleAhead = time.Second            // before it is due
	trickleLead  = 500 * time.Millisecond // before the instant, and after the last of the burst was seen
	sampleEvery  = 2 * time.Millisecond   // how often it is looked at how many were accepted
)

// outburst is what came of one instant.
type outburst struct {
	last    time.Duration // until the last record was seen
	pause   time.Duration // the longest between two acceptances in any partition
	waiting time.Duration // the same, counting only while an acknowledged request was waiting
}

// instant measures what happens when very many records are due at the same time: how long until all are
// seen, and for how long meanwhile nothing is taken in. Counters of acceptances are kept for each delay topic, so there are
// several topics with one partition each: then a partition that stands still is not hidden by the others.
func (r *runner) instant(ctx context.Context) (_ []Result, err error) {
	s, err := r.newStage(ctx, "instant", r.o.Partitions, 1)
	if err != nil {
		return nil, err
	}
	p, err := s.start(ctx, func(*processor.Config) {})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	o, err := s.observe(ctx)
	if err != nil {
		return nil, err
	}
	defer o.end()
	if err := p.ready(ctx); err != nil {
		return nil, err
	}
	var last, pause, waiting []float64
	for round := range r.o.Rounds + 1 {
		b, err := s.burst(ctx, p, o, uint32(round+1))
		if err != nil {
			return nil, err
		}
		if round == 0 {
			r.progress("instant: warm-up: last seen after %v", b.last.Round(time.Millisecond))
			continue
		}
		r.progress("instant: round %d: last seen after %v, longest pause of intake %v", round, b.last.Round(time.Millisecond), b.pause.Round(time.Millisecond))
		last, pause, waiting = append(last, b.last.Seconds()), append(pause, ms(b.pause)), append(waiting, ms(b.waiting))
	}
	if err := p.stop(); err != nil {
		return nil, err
	}
	if err := o.end(); err != nil {
		return nil, err
	}
	checked, err := s.check(ctx)
	if err != nil {
		return nil, err
	}
	f := Figures{
		"last_seen_s": median(last), "last_seen_worst_s": most(last), "pause_ms": median(pause), "pause_worst_ms": most(pause), "pause_waiting_ms": median(waiting),
	}
	return []Result{{
		Case: "instant",
		What: fmt.Sprintf("%s records of 100 B in %d partitions, accepted beforehand, are due at one instant, while %s further requests are written each second: from that instant until a read_committed consumer in "+
			"the same process sees the last; and the longest time meanwhile in which nothing is accepted from some partition, looked at each %v. exactly_once, defaults. Medians of %d, after a warm-up.",
			thousands(int64(r.o.Burst)), r.o.Partitions, thousands(trickleRate), sampleEvery, r.o.Rounds),
		Measured: fmt.Sprintf("%.2f s (worst %.2f s); pause %.0f ms (worst %.0f ms)", f["last_seen_s"], f["last_seen_worst_s"], f["pause_ms"], f["pause_worst_ms"]),
		Figures:  f, Checked: checked,
	}}, nil
}

// burst plays one instant. When it returns, everything that was requested has been seen.
func (s *stage) burst(ctx context.Context, p *running, o *observer, mark uint32) (out outburst, err error) {
	n := s.r.o.Burst
	before, trickled := p.accepted(), o.countOf(markTrickle)
	at := time.Now().Add(s.r.lead(n) + trickleLead).Truncate(time.Millisecond)
	if err := s.fill(ctx, n, func(i int) stamp { return stamp{due: at.UnixMilli(), mark: mark, index: uint32(i)} }); err != nil {
		return out, err
	}
	if err := p.until(ctx, "accepted", before+int64(n), p.accepted); err != nil {
		return out, err
	}
	if time.Until(at) < trickleLead {
		return out, errDueTooSoon
	}
	if err := sleepUntil(ctx, at.Add(-trickleLead)); err != nil {
		return out, err
	}
	g, gctx := errgroup.WithContext(ctx)
	watching, stopWatching := context.WithCancel(gctx)
	acked, base := make([]atomic.Int64, len(s.delays)), p.acceptedByTopic()
	var written atomic.Int64
	g.Go(func() error {
		n, err := s.trickle(watching, mark, acked)
		written.Store(int64(n))
		return err
	})
	g.Go(func() error {
		out.pause, out.waiting = s.sample(watching, p, at, base, acked)
		return nil
	})
	g.Go(func() error {
		defer stopWatching()
		if err := p.until(gctx, "seen", int64(n), func() int64 { return o.countOf(mark) }); err != nil {
			return err
		}
		out.last = o.lastOf(mark).Sub(at)
		sleep(gctx, trickleLead)
		return nil
	})
	if err := g.Wait(); err != nil {
		return out, err
	}
	return out, p.until(ctx, "of the trickle seen", trickled+written.Load(), func() int64 { return o.countOf(markTrickle) })
}

// trickle writes requests at a steady rate until ctx ends, and returns how many. Acked is counted up by delay topic.
func (s *stage) trickle(ctx context.Context, round uint32, acked []atomic.Int64) (int, error) {
	w, err := s.r.newWriter()
	if err != nil {
		return 0, err
	}
	// What has been handed over is written, so that everything can be waited for.
	writing := context.WithoutCancel(ctx)
	start, i := time.Now(), 0
	for sleep(ctx, time.Millisecond) {
		for ; i < int(time.Since(start)*trickleRate/time.Second); i++ {
			topic := i % len(s.delays)
			st := stamp{due: time.Now().Add(trickleAhead).UnixMilli(), mark: markTrickle, index: round<<24 | uint32(i)}
			w.write(writing, st.request(s.delays[topic]), func() { acked[topic].Add(1) })
		}
	}
	return i, w.end(writing)
}

// sample looks at the counters of acceptances until ctx ends, and returns the longest pause in any delay topic that
// lasted until after from. Base is what was accepted before the first that acked counts.
func (s *stage) sample(ctx context.Context, p *running, from time.Time, base map[string]int64, acked []atomic.Int64) (longest, waiting time.Duration) {
	pauses := make([]pause, len(s.delays))
	for sleep(ctx, sampleEvery) {
		ackedNow := make([]int64, len(acked))
		for i := range acked {
			ackedNow[i] = acked[i].Load()
		}
		counts, now := p.acceptedByTopic(), time.Now()
		for i, topic := range s.delays {
			pauses[i].note(now, counts[topic]-base[topic], ackedNow[i], !now.Before(from))
		}
	}
	for _, ps := range pauses {
		longest, waiting = max(longest, ps.longest), max(waiting, ps.longestWaiting)
	}
	return longest, waiting
}

func (p *running) acceptedByTopic() map[string]int64 {
	m := map[string]int64{}
	for _, t := range p.Stats().Topics {
		m[t.Topic] = t.Accepted
	}
	return m
}

// pause finds the longest time for which a counter stood still.
type pause struct {
	n            int64
	since        time.Time // when n was reached
	waitingSince time.Time // since when, at n, more than n were to be had; zero when they are not

	longest, longestWaiting time.Duration
}

// note takes in that the counter is at n, of available. Pauses count when they last until a moment that counts.
func (p *pause) note(now time.Time, n, available int64, counts bool) {
	if p.since.IsZero() {
		p.n, p.since = n, now
	}
	if counts {
		p.longest = max(p.longest, now.Sub(p.since))
		if !p.waitingSince.IsZero() {
			p.longestWaiting = max(p.longestWaiting, now.Sub(p.waitingSince))
		}
	}
	if n != p.n {
		p.n, p.since, p.waitingSince = n, now, time.Time{}
	}
	switch {
	case available <= n:
		p.waitingSince = time.Time{}
	case p.waitingSince.IsZero():
		p.waitingSince = now
	}
}
