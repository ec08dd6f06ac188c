package bench

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/duewheel/duewheel/processor"
)

// sizes is every case of Size.
var sizes = []benchCase{{"size", size}}

// SizeCases names the results of Size in the order in which they are measured.
func SizeCases() []string {
	return []string{"many, filling", "many, lateness", "many, restart", "many, restart, killed", "many, throughput", "many, intake", "many, memory"}
}

// Size measures what it costs a process on a cluster that very many records are pending. Two groups of one process each take turns in the same
// run: one has nothing else to do, and in the partitions of the other they lie. It makes topics and groups of its own and deletes them.
func Size(ctx context.Context, o Options) ([]Result, error) {
	if o.Replica == nil {
		return nil, errors.New("bench: no way to start a replica")
	}
	o.Pending = cmp.Or(o.Pending, 20_000_000)
	o.Partitions = cmp.Or(o.Partitions, 8)
	o.Rate = cmp.Or(o.Rate, 5000)
	return runAll(ctx, o.withDefaults(), sizes)
}

const mib = 1 << 20

// Marks of records of Size, which are the first of a range: rounds follow each other.
const (
	markPassed uint32 = 1<<17 + iota<<8
	markTaken
)

// side is one of the two groups.
type side struct {
	*scene
	name    string
	seen    int // requests that the observer has to see
	late    []latenesses
	backs   [][]comeback // by way
	passes  []spurt
	intakes []spurt
	filling int64 // the most that a process had in memory while pending records were taken in, in bytes
	peak    int64 // and at any time
}

// spurt is how fast records went as fast as they could.
type spurt struct {
	rate float64 // a second
	cpu  float64 // µs of the process for each
}

// spurtOf is one of n records that began when the process had taken so much time on the CPU.
func (s *side) spurtOf(n int, took, before time.Duration) spurt {
	return spurt{float64(n) / took.Seconds(), float64((s.cpu() - before).Microseconds()) / float64(n)}
}

// cpu is what the running process has taken.
func (s *side) cpu() time.Duration { return cpuOfProcess(s.f.running()[0].Pid()) }

// sized is what both sides do.
type sized struct {
	r          *runner
	none, many *side
	filled     latenesses // of what fell due while the pending ones came
	filledRate float64    // a second
}

func size(ctx context.Context, r *runner) ([]Result, error) {
	z := &sized{r: r, none: &side{name: "none"}, many: &side{name: "many"}}
	for _, s := range z.sides() {
		st, err := r.newStage(ctx, s.name, 1, r.o.Partitions)
		if err != nil {
			return nil, err
		}
		// The checker reads requests at the end, which must be there.
		keeps := false
		st.change = func(c *processor.Config) { c.Routes[0].Trim = &keeps }
		s.scene = &scene{stage: st, f: st.fleet(r.o.Lanes, 0)}
		defer s.tearDown()
		if err := s.f.startNew(1); err != nil {
			return nil, err
		}
		if err := s.f.settle(ctx); err != nil {
			return nil, err
		}
		if s.o, err = s.observe(ctx, false); err != nil {
			return nil, err
		}
	}
	for _, measure := range []func(context.Context) error{z.fills, z.steadily, z.restarts, z.passes, z.intakes} {
		if err := measure(ctx); err != nil {
			return nil, err
		}
	}
	checked, err := z.finish(ctx)
	if err != nil {
		return nil, err
	}
	results := z.results()
	for i := range results {
		results[i].Checked = checked
	}
	return results, nil
}

func (z *sized) sides() []*side { return []*side{z.none, z.many} }

// inTurn has both sides do something so many times, the one and the other first in turn. The first round is a warm-up.
func (z *sized) inTurn(ctx context.Context, do func(s *side, round int) error) error {
	for round := range z.r.o.Rounds + 1 {
		for i := range 2 {
			runtime.GC()
			if err := errors.Join(ctx.Err(), do(z.sides()[(round+i)%2], round)); err != nil {
				return err
			}
		}
	}
	return nil
}

// look notes what memory the running process has taken at most.
func (s *side) look() {
	for _, r := range s.f.running() {
		s.peak = max(s.peak, peakOf(r.Pid()))
	}
}

// fills writes the pending records at a steady rate, and measures how late others are that fall due meanwhile.
func (z *sized) fills(ctx context.Context) error {
	s := z.many
	if err := s.flow(ctx, slowRate); err != nil {
		return err
	}
	w, err := s.newWriter()
	if err != nil {
		return err
	}
	defer w.cl.Close()
	n := z.r.o.Pending
	z.r.progress("size: writing %s requests that are due in hours, %s a second", thousands(int64(n)), thousands(int64(z.r.o.FillRate)))
	began := time.Now()
	if _, err := w.paced(ctx, ctx, z.r.o.FillRate, n, farStamps(markFar), nil); err != nil {
		return err
	}
	s.far = n
	if err := errors.Join(s.f.until(ctx, "pending", int64(n), s.pending), sleepUntil(ctx, began.Add(time.Second))); err != nil {
		return err
	}
	ended := time.Now()
	z.filledRate = float64(n) / ended.Sub(began).Seconds()
	if s.seen, err = s.w.end(); err != nil {
		return err
	}
	if err := s.f.until(ctx, "seen", int64(s.seen), s.o.count); err != nil {
		return err
	}
	z.filled = summarize(s.o.lateIn(began, ended, everySource))
	z.r.progress("size: filled at %s/s: %v", thousands(int64(z.filledRate)), z.filled)
	if s.look(); s.peak == 0 {
		return errors.New("this system does not tell what memory a process takes")
	}
	s.filling = s.peak
	return nil
}

// steadily measures how late records are at a steady rate, written meanwhile.
func (z *sized) steadily(ctx context.Context) error {
	return z.inTurn(ctx, func(s *side, round int) error {
		late, err := s.steady(ctx)
		if err != nil {
			return err
		}
		z.r.progress("size: %s: %s: %v", s.name, roundName(round), late)
		if round > 0 {
			s.late = append(s.late, late)
		}
		return nil
	})
}

func (s *side) steady(ctx context.Context) (late latenesses, err error) {
	w, err := s.newWriter()
	if err != nil {
		return late, err
	}
	defer w.cl.Close()
	plan := s.r.o.schedule()
	plan.first = time.Now().Add(liveAhead)
	n, err := w.paced(ctx, ctx, plan.rate, plan.warm+plan.in, plan.stamp, nil)
	s.seen += n
	if err = errors.Join(err, ctx.Err()); err == nil {
		err = s.f.until(ctx, "seen", int64(s.seen), s.o.count)
	}
	if err != nil {
		return late, err
	}
	begin, end := plan.span()
	return summarize(s.o.lateIn(begin, end, everySource)), nil
}

// ways are how a process ends that is started again with its state directory.
var ways = []struct {
	name, how string
	end       func(*fleet, *replica) error
}{
	{"restart", "SIGTERM", (*fleet).terminate},
	{"restart, killed", "kill -9", func(f *fleet, p *replica) error { f.kill(p); return nil }},
}

// restarts measures how soon a process delivers again that is started with its state directory, while a few records fall due.
func (z *sized) restarts(ctx context.Context) error {
	for _, s := range z.sides() {
		if err := s.restarts(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *side) restarts(ctx context.Context) error {
	if err := s.flow(ctx, slowRate); err != nil {
		return err
	}
	s.backs = make([][]comeback, len(ways))
	for i, way := range ways {
		for range s.r.o.Rounds {
			s.look()
			c, err := s.comeBack(ctx, way.end)
			if err != nil {
				return err
			}
			s.r.progress("size: %s: %s: first delivery after %v, of which it took %v to join", s.name, way.name, c.sinceStart().Round(time.Millisecond), c.joining.Round(time.Millisecond))
			s.backs[i] = append(s.backs[i], c)
		}
	}
	n, err := s.w.end()
	s.seen += n
	if err == nil {
		err = s.f.until(ctx, "seen", int64(s.seen), s.o.count)
	}
	return errors.Join(err, s.o.end())
}

// passes measures how fast records are delivered that can suddenly be seen and are due at once.
func (z *sized) passes(ctx context.Context) error {
	return z.spurts(ctx, "delivered", (*side).pass, func(s *side) *[]spurt { return &s.passes })
}

// spurts measures how fast both sides do something, in turn, and keeps all rounds but the one that warms them up.
func (z *sized) spurts(ctx context.Context, done string, measure func(*side, context.Context, int) (spurt, error), kept func(*side) *[]spurt) error {
	return z.inTurn(ctx, func(s *side, round int) error {
		p, err := measure(s, ctx, round)
		if err != nil {
			return err
		}
		z.r.progress("size: %s: %s: %s/s %s, %.2f µs of CPU each", s.name, roundName(round), thousands(int64(p.rate)), done, p.cpu)
		if round > 0 {
			*kept(s) = append(*kept(s), p)
		}
		return nil
	})
}

func (s *side) pass(ctx context.Context, round int) (p spurt, err error) {
	n := s.r.o.Records
	reveal, forget, first, err := s.holdAhead(ctx, n, markPassed+uint32(round))
	if err != nil {
		return p, err
	}
	defer forget()
	before, _ := s.f.committed()
	if err := sleepUntil(ctx, first.Add(-revealAhead)); err != nil {
		return p, err
	}
	began, used := time.Now(), s.cpu()
	if err := reveal(ctx); err != nil {
		return p, err
	}
	if err := s.f.until(ctx, "delivered", before+int64(n), func() int64 { n, _ := s.f.committed(); return n }); err != nil {
		return p, err
	}
	_, last := s.f.committed()
	return s.spurtOf(n, last.Sub(began), used), nil
}

// holdAhead is hold for requests that fall due as fast as those of the case throughput, the first of them after they are written.
func (s *side) holdAhead(ctx context.Context, n int, mark uint32) (reveal func(context.Context) error, forget func(), first time.Time, err error) {
	for lead := s.r.lead(n); ; lead *= 2 {
		first = time.Now().Add(lead)
		reveal, forget, err = s.hold(ctx, n, func(i int) stamp {
			return stamp{due: first.UnixMilli() + int64(noise(uint64(i))%uint64(n))*1000/spreadRate, mark: mark, index: uint32(i)}
		})
		if err != nil || time.Until(first) >= revealAhead {
			return reveal, forget, first, err
		}
		forget()
	}
}

// intakes measures how fast records are taken in that can suddenly be seen and are due in hours.
func (z *sized) intakes(ctx context.Context) error {
	return z.spurts(ctx, "taken in", (*side).intake, func(s *side) *[]spurt { return &s.intakes })
}

func (s *side) intake(ctx context.Context, round int) (p spurt, err error) {
	n := s.r.o.Records
	reveal, forget, err := s.hold(ctx, n, farStamps(markTaken+uint32(round)))
	if err != nil {
		return p, err
	}
	defer forget()
	began, used := time.Now(), s.cpu()
	if err := reveal(ctx); err != nil {
		return p, err
	}
	s.far += n
	err = s.f.until(ctx, "pending", int64(s.far), s.pending)
	return s.spurtOf(n, time.Since(began), used), err
}

// finish ends both processes and has every record judged.
func (z *sized) finish(ctx context.Context) (checked string, err error) {
	for _, s := range z.sides() {
		s.look()
		if err := s.f.end(); err != nil {
			return "", err
		}
		if checked, err = s.check(ctx); err != nil {
			return "", err
		}
	}
	return checked, nil
}
