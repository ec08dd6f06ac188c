package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/wait"
)

const (
	hotRate    = 1000                   // others of each kind that are due in a second: one a millisecond
	hotCalm    = 2 * time.Second        // for how long others are due before the instant
	hotAfter   = 500 * time.Millisecond // for how long they go on when the last of the burst is delivered
	hotLeast   = 100 * time.Millisecond // others that are due within that time count, however soon the burst is delivered
	hotCount   = 5 * time.Millisecond   // how often the replica tells what it has counted
	hotWarmUp  = 1_000_000              // records of the warm-up, at most
	bystanders = 2                      // kinds of others
)

// Marks of records in the case hot: the others, by kind, and above them the burst of each round.
const (
	markSameRoute uint32 = iota
	markOtherRoute
	markBurst
)

// hot is a replica in a process of its own with two routes. Very many records of the first are due at one instant, for one target. Others are due
// meanwhile: of the same route, for another target, and of the second route.
type hot struct {
	*stage
	burst  *stage             // as those who write the burst see it
	others [bystanders]*stage // by mark
	f      *fleet
	o      *observer // of what the others ask for

	mu      sync.Mutex
	looking bool
	acked   [bystanders]atomic.Int64
	looks   []look
}

// look is what the replica had counted, and how many others were acknowledged, of each kind.
type look struct {
	child.Counts
	acked [bystanders]int64
}

// scorch is what came of one instant.
type scorch struct {
	rate    float64 // records a second, from the instant until all were delivered
	pause   time.Duration
	waiting time.Duration
	calm    [bystanders]latenesses // due before the instant
	late    [bystanders]latenesses // due until the burst was delivered
}

// hotInstant measures how fast very many records of one target are delivered that are due at one instant, against the copy loop, how late others are
// meanwhile, for how long nothing is taken in, and what memory that takes.
func hotInstant(ctx context.Context, r *runner) (results []Result, err error) {
	if r.o.Replica == nil {
		return nil, errors.New("bench: the case hot needs replicas in processes of their own")
	}
	h, err := newHot(ctx, r)
	if err != nil {
		return nil, err
	}
	defer h.f.abandon()
	defer func() { err = errors.Join(err, h.o.end()) }()
	if err := h.f.startNew(1); err != nil {
		return nil, err
	}
	if err := h.f.settle(ctx); err != nil {
		return nil, err
	}
	c := contest{records: r.o.hot, copies: map[int][]speed{}}
	var all []scorch
	for round := range r.o.Rounds + 1 {
		n := r.o.hot
		if round == 0 {
			n = min(n, hotWarmUp)
		}
		s, err := h.play(ctx, uint32(round), n)
		if err != nil {
			return nil, err
		}
		r.progress("hot: %s: %s/s; p99 of another target %.1f ms, of another route %.1f ms; longest pause of intake %.0f ms; %.0f MiB", roundName(round),
			thousands(int64(s.rate)), ms(s.late[markSameRoute].p99), ms(s.late[markOtherRoute].p99), ms(s.pause), h.peak())
		copies := map[int]speed{}
		for _, batch := range copyBatches {
			if copies[batch], err = copyLoop(ctx, h.burst, n, batch); err != nil {
				return nil, err
			}
			r.progress("hot: %s: copy loop %s/s at %s a transaction", roundName(round), thousands(int64(copies[batch].rate)), thousands(int64(batch)))
		}
		if round == 0 {
			continue
		}
		all, c.ours = append(all, s), append(c.ours, s.rate)
		for batch, loop := range copies {
			c.copies[batch] = append(c.copies[batch], loop)
		}
	}
	peak, kept := h.peak(), h.kept()
	if err := h.f.end(); err != nil {
		return nil, err
	}
	if c.checked, err = h.check(ctx); err != nil {
		return nil, err
	}
	results = []Result{h.rateResult(&c, all), h.othersResult(&c, all), h.laneResult(&c, kept)}
	if peak > 0 {
		results = append(results, h.memoryResult(&c, peak))
	}
	return results, nil
}

func newHot(ctx context.Context, r *runner) (*hot, error) {
	s, err := r.newStageFor(ctx, "hot", 2, r.o.Partitions, shape{1 + bystanders, r.o.targets})
	if err != nil {
		return nil, err
	}
	view := func(delays, targets int) *stage {
		v := *s
		v.delays, v.to = s.delays[delays:delays+1], s.targets[targets]
		return &v
	}
	h := &hot{stage: s, burst: view(0, 0), f: s.fleet(r.o.Lanes, 0)}
	h.others = [bystanders]*stage{markSameRoute: view(0, 1), markOtherRoute: view(1, 2)}
	h.f.every, h.f.heed = hotCount, h.look
	s.change = func(c *processor.Config) {
		no := false
		for i := range c.Routes {
			c.Routes[i].Trim = &no // the copy loop reads it, too
		}
	}
	seen := *s
	seen.targets = s.targets[1:]
	h.o, err = seen.observe(ctx, false)
	return h, err
}

func (h *hot) look(_ *replica, c child.Counts) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.looking {
		return
	}
	l := look{Counts: c}
	for kind := range h.acked {
		l.acked[kind] = h.acked[kind].Load()
	}
	h.looks = append(h.looks, l)
}

// watch begins to keep looks, and unwatch returns them.
func (h *hot) watch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looking, h.looks = true, nil
	for kind := range h.acked {
		h.acked[kind].Store(0)
	}
}

func (h *hot) unwatch() []look {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looking = false
	return h.looks
}

// counted is what the replica has counted last.
func (h *hot) counted(of func(child.Counts) int64) func() int64 {
	return func() int64 {
		n, _ := h.f.sum(time.Time{}, of)
		return n
	}
}

// play plays one instant. When it returns, everything that was requested has been delivered.
func (h *hot) play(ctx context.Context, round uint32, n int) (out scorch, err error) {
	topic, target := h.delays[0], h.targets[0]
	accepted := h.counted(func(c child.Counts) int64 { return c.Topics[topic].Accepted })
	delivered := h.counted(func(c child.Counts) int64 { return c.Delivered[target] })
	was, wasDelivered, seen := accepted(), delivered(), h.o.count()
	at := time.Now().Add(h.r.lead(n) + hotCalm + trickleAhead).Truncate(time.Millisecond)
	h.r.progress("hot: %s: writing %s requests that are due in %v", roundName(int(round)), thousands(int64(n)), time.Until(at).Round(time.Second))
	if err := h.burst.fill(ctx, n, func(i int) stamp {
		return stamp{due: at.UnixMilli() + int64(noise(uint64(i))%uint64(max(h.r.o.Spread.Milliseconds(), 1))), mark: markBurst + round, index: uint32(i)}
	}); err != nil {
		return out, err
	}
	if err := h.f.until(ctx, "accepted", was+int64(n), accepted); err != nil {
		return out, err
	}
	begins := at.Add(-hotCalm - trickleAhead)
	if time.Now().After(begins) {
		return out, errDueTooSoon
	}
	if err := sleepUntil(ctx, begins); err != nil {
		return out, err
	}
	h.watch()
	g, gctx := errgroup.WithContext(ctx)
	flowing, stop := context.WithCancel(gctx)
	defer stop()
	var written [bystanders]int
	for kind, s := range h.others {
		g.Go(func() (err error) {
			written[kind], err = h.flow(flowing, ctx, s, uint32(kind), round)
			return err
		})
	}
	g.Go(func() error {
		defer stop()
		if err := h.f.until(gctx, "delivered", wasDelivered+int64(n), delivered); err != nil {
			return err
		}
		wait.For(gctx, hotAfter)
		return nil
	})
	if err := g.Wait(); err != nil {
		return out, err
	}
	looks := h.unwatch()
	if err := h.f.until(ctx, "others seen", seen+int64(written[markSameRoute]+written[markOtherRoute]), h.o.count); err != nil {
		return out, err
	}
	out = h.sum(looks, at, n, wasDelivered)
	for _, late := range out.late {
		if late.n == 0 {
			return out, errors.New("none of the others was due while the burst was delivered: they are written too slowly here")
		}
	}
	return out, nil
}

// flow writes others of one kind, each a while before it is due, until flowing ends.
func (h *hot) flow(flowing, ctx context.Context, s *stage, kind, round uint32) (int, error) {
	w, err := s.newWriter()
	if err != nil {
		return 0, err
	}
	defer w.cl.Close()
	return w.paced(flowing, context.WithoutCancel(ctx), hotRate, math.MaxInt, func(i int) stamp {
		return stamp{due: time.Now().Add(trickleAhead).UnixMilli(), mark: kind, index: round<<24 | uint32(i)}
	}, func(int) { h.acked[kind].Add(1) })
}

// sum says what came of an instant with n records.
func (h *hot) sum(looks []look, at time.Time, n int, wasDelivered int64) (out scorch) {
	end, target := at, h.targets[0]
	var pauses [bystanders]pause
	for _, l := range looks {
		for kind, s := range h.others {
			pauses[kind].note(l.At, l.Topics[s.delays[0]].Accepted, looks[0].Topics[s.delays[0]].Accepted+l.acked[kind], !l.At.Before(at))
		}
		if end = l.At; l.Delivered[target] >= wasDelivered+int64(n) {
			break
		}
	}
	out.rate = float64(n) / end.Sub(at).Seconds()
	for kind := range pauses {
		out.pause, out.waiting = max(out.pause, pauses[kind].longest), max(out.waiting, pauses[kind].longestWaiting)
		out.calm[kind] = h.lateOf(kind, at.Add(-hotCalm/2), at)
		out.late[kind] = h.lateOf(kind, at, at.Add(max(end.Sub(at), hotLeast)))
		for more := range 10 { // where they are written so unevenly that none is due in that time, the next ones count
			if out.late[kind].n == 0 {
				out.late[kind] = h.lateOf(kind, at, end.Add(time.Duration(more+1)*hotLeast))
			}
		}
	}
	return out
}

func (h *hot) lateOf(kind int, from, until time.Time) latenesses {
	late := h.o.late(func(s *sighting) bool {
		return s.mark == uint32(kind) && s.due >= from.UnixMilli() && s.due < until.UnixMilli()
	})
	if len(late) == 0 {
		return latenesses{}
	}
	return summarize(late)
}

// kept says which bounds no piece of work of the replica's lanes has passed, in seconds, by kind.
func (h *hot) kept() map[string]float64 {
	for _, r := range h.f.running() {
		return h.f.countsOf(r).Kept
	}
	return nil
}

// peak is what the replica has had in memory at most, in MiB; 0 where the system does not tell.
func (h *hot) peak() float64 {
	for _, r := range h.f.running() {
		return float64(peakOf(r.Pid())) / mib
	}
	return 0
}

func (h *hot) when() string {
	if h.r.o.Spread > 0 {
		return fmt.Sprintf("due within %v", h.r.o.Spread)
	}
	return "due at one instant"
}

func (h *hot) rateResult(c *contest, all []scorch) Result {
	batch, best := c.best()
	f := Figures{"records_per_s": median(c.ours), "copy_best_per_s": best, "ratio": median(c.ours) / best}
	f["pause_ms"] = medianOf(all, func(s scorch) float64 { return ms(s.pause) })
	f["pause_waiting_ms"] = medianOf(all, func(s scorch) float64 { return ms(s.waiting) })
	for _, s := range all {
		f["pause_worst_ms"] = max(f["pause_worst_ms"], ms(s.pause))
	}
	return Result{
		Case: "hot",
		What: fmt.Sprintf("%s records of 100 B of one route and one target, in %d partitions of a replica in a process of its own, all accepted beforehand, are %s: from then until the replica counts the last as delivered, beside the copy "+
			"loop that copies the same records afterwards. Others are requested meanwhile, %s a second of the same route for another target, and as many of a second route: the longest time in which nothing is accepted of one of the two routes, "+
			"looked at each %v. exactly_once, defaults. Medians of %d, after a warm-up.", thousands(int64(c.records)), h.r.o.Partitions, h.when(), thousands(hotRate), hotCount, len(all)),
		Measured: fmt.Sprintf("%s/s, %.2f of the copy loop's %s/s (at %s a transaction); pause %.0f ms (worst %.0f ms)",
			thousands(int64(f["records_per_s"])), f["ratio"], thousands(int64(best)), thousands(int64(batch)), f["pause_ms"], f["pause_worst_ms"]),
		Figures: f, Checked: c.checked,
	}
}

func (h *hot) othersResult(c *contest, all []scorch) Result {
	f := Figures{}
	for kind, name := range [bystanders]string{markSameRoute: "target", markOtherRoute: "route"} {
		of := func(figure string, value func(*scorch) time.Duration) {
			f[name+figure] = medianOf(all, func(s scorch) float64 { return ms(value(&s)) })
		}
		of("_p50_ms", func(s *scorch) time.Duration { return s.late[kind].p50 })
		of("_p99_ms", func(s *scorch) time.Duration { return s.late[kind].p99 })
		of("_max_ms", func(s *scorch) time.Duration { return s.late[kind].max })
		of("_calm_p99_ms", func(s *scorch) time.Duration { return s.calm[kind].p99 })
	}
	return Result{
		Case: "hot, others",
		What: "How late the others of the case hot are that are due from that instant until the last of the burst is delivered, as a read_committed consumer sees them, and how late in the second before: of the second route, and of the same " +
			"route for another target.",
		Measured: fmt.Sprintf("another route: p50 %.1f ms, p99 %.1f ms (before %.1f ms); another target of the same route: p50 %.1f ms, p99 %.1f ms (before %.1f ms)",
			f["route_p50_ms"], f["route_p99_ms"], f["route_calm_p99_ms"], f["target_p50_ms"], f["target_p99_ms"], f["target_calm_p99_ms"]),
		Figures: f, Checked: c.checked,
	}
}

func (h *hot) laneResult(c *contest, kept map[string]float64) Result {
	f, parts := Figures{}, []string(nil)
	for _, kind := range slices.Sorted(maps.Keys(kept)) {
		f["longest_ms"] = max(f["longest_ms"], 1000*kept[kind])
		f[kind+"_longest_ms"] = 1000 * kept[kind]
		parts = append(parts, fmt.Sprintf("%s %g", kind, 1000*kept[kind]))
	}
	return Result{
		Case:     "hot, lane",
		What:     "For how long a lane's goroutine was kept by one piece of work at most, in which it does nothing else, from the replica's start on, by kind: bounds of the buckets of duewheel_lane_work_seconds.",
		Measured: fmt.Sprintf("none longer than %g ms: %s", f["longest_ms"], strings.Join(parts, ", ")),
		Figures:  f, Checked: c.checked,
	}
}

func (h *hot) memoryResult(c *contest, peak float64) Result {
	f := Figures{"peak_mib": peak, "budget_mib": float64(h.r.o.budget()) / mib}
	f["over_budget_mib"] = f["peak_mib"] - f["budget_mib"]
	return Result{
		Case:     "hot, memory",
		What:     "What the replica of the case hot has in memory at most, from its start on: resident, the program itself included.",
		Measured: fmt.Sprintf("%.0f MiB with a memory.budget of %.0f MiB", f["peak_mib"], f["budget_mib"]),
		Figures:  f, Checked: c.checked,
	}
}
