package bench

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/processor/wait"
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
func instant(ctx context.Context, r *runner) ([]Result, error) {
	s, err := r.newStage(ctx, "instant", r.o.Partitions, 1)
	if err != nil {
		return nil, err
	}
	var last, pause, waiting []float64
	checked, err := s.playSeen(ctx, nil, func(p *running, o *observer) error {
		for round := range r.o.Rounds + 1 {
			b, err := (&bursts{p, o}).burst(ctx, uint32(round+1))
			if err != nil {
				return err
			}
			if round == 0 {
				r.progress("instant: warm-up: last seen after %v", b.last.Round(time.Millisecond))
				continue
			}
			r.progress("instant: round %d: last seen after %v, longest pause of intake %v", round, b.last.Round(time.Millisecond), b.pause.Round(time.Millisecond))
			last, pause, waiting = append(last, b.last.Seconds()), append(pause, ms(b.pause)), append(waiting, ms(b.waiting))
		}
		return nil
	})
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

// bursts play instants before an observer.
type bursts struct {
	*running
	o *observer
}

// burst plays one instant. When it returns, everything that was requested has been seen.
func (p *bursts) burst(ctx context.Context, mark uint32) (out outburst, err error) {
	r, n := p.s.r, p.s.r.o.Burst
	before, trickled := p.accepted(), p.o.countOf(markTrickle)
	at := time.Now().Add(r.lead(n) + trickleLead).Truncate(time.Millisecond)
	if err := p.s.fill(ctx, n, func(i int) stamp { return stamp{due: at.UnixMilli(), mark: mark, index: uint32(i)} }); err != nil {
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
	w, err := p.s.newWriter()
	if err != nil {
		return out, err
	}
	defer w.cl.Close()
	g, gctx := errgroup.WithContext(ctx)
	watching, stopWatching := context.WithCancel(gctx)
	acked, base, written := make([]atomic.Int64, len(p.s.delays)), p.acceptedByTopic(), 0
	g.Go(func() (err error) {
		written, err = w.paced(watching, context.WithoutCancel(ctx), trickleRate, math.MaxInt, func(i int) stamp {
			return stamp{due: time.Now().Add(trickleAhead).UnixMilli(), mark: markTrickle, index: mark<<24 | uint32(i)}
		}, func(topic int) { acked[topic].Add(1) })
		return err
	})
	g.Go(func() error {
		out.pause, out.waiting = p.sample(watching, at, base, acked)
		return nil
	})
	g.Go(func() error {
		defer stopWatching()
		if err := p.until(gctx, "seen", int64(n), func() int64 { return p.o.countOf(mark) }); err != nil {
			return err
		}
		out.last = p.o.lastOf(mark).Sub(at)
		wait.For(gctx, trickleLead)
		return nil
	})
	if err := g.Wait(); err != nil {
		return out, err
	}
	return out, p.until(ctx, "of the trickle seen", trickled+int64(written), func() int64 { return p.o.countOf(markTrickle) })
}

// sample looks at the counters of acceptances until ctx ends, and returns the longest pause in any delay topic that
// lasted until after from. Base is what was accepted before the first that acked counts.
func (p *bursts) sample(ctx context.Context, from time.Time, base map[string]int64, acked []atomic.Int64) (longest, waiting time.Duration) {
	pauses := make([]pause, len(acked))
	ackedNow := make([]int64, len(acked))
	for wait.For(ctx, sampleEvery) {
		for i := range acked {
			ackedNow[i] = acked[i].Load()
		}
		counts, now := p.acceptedByTopic(), time.Now()
		for i, topic := range p.s.delays {
			pauses[i].note(now, counts[topic]-base[topic], ackedNow[i], !now.Before(from))
		}
	}
	for _, ps := range pauses {
		longest, waiting = max(longest, ps.longest), max(waiting, ps.longestWaiting)
	}
	return longest, waiting
}

func (p *bursts) acceptedByTopic() map[string]int64 {
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
