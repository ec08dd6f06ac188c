package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/duewheel/duewheel/bench/child"
)

// failovers is every case of Failover, in the order in which they run.
var failovers = []benchCase{
	{"standby", standby("standby", 1)},
	{"standby-many", standby("standby-many", many)},
	{"cold", cold},
	{"restart", restart},
	{"rebalance", rebalance},
	{"rolling", rolling},
}

// FailoverCases names every case of Failover in the order in which they run.
func FailoverCases() []string { return namesOf(failovers) }

const (
	// trio is how many replicas share a topic in most cases, with a lane each.
	trio = 3
	// many is how many times the pending records there are in the case standby-many.
	many = 10
	// slowRate is how many records are due in a second while it is a matter of a restart, not of load: enough for transactions
	// to be open most of the time.
	slowRate = 2000
	// farFrom and farTo are when pending records are due: not while something is measured.
	farFrom = 2 * time.Hour
	farTo   = 12 * time.Hour
)

// Failover runs the cases that need several processes: replicas are killed, restarted and added. Like Run it makes topics and groups of its
// own and deletes them, and like Run it has every record judged.
func Failover(ctx context.Context, o Options) ([]Result, error) {
	if o.Replica == nil {
		return nil, errors.New("bench: no way to start a replica")
	}
	o.For = cmp.Or(o.For, 10*time.Second)
	o.Partitions = cmp.Or(o.Partitions, 12)
	o.targets = cmp.Or(o.targets, min(o.Partitions, 4))
	return runAll(ctx, o.withDefaults(), failovers)
}

// scene is what the cases of Failover have in common: a fleet, a stream of records that fall due, and an observer that sees them arrive.
type scene struct {
	*stage
	f *fleet
	o *observer
	w *stream
}

// cast is who plays in a scene, and what.
type cast struct {
	replicas, lanes, standbys int
	far                       int // records that stay pending
	rate                      int // records that fall due in a second
}

// perform plays a scene: replicas start, records of every partition arrive, what is to be done is done meanwhile, and when all has arrived
// every record is judged.
func (r *runner) perform(ctx context.Context, name string, c cast, meanwhile func(*scene) error) (sc *scene, checked string, err error) {
	s, err := r.newStage(ctx, name, 1, r.o.Partitions)
	if err != nil {
		return nil, "", err
	}
	sc = &scene{stage: s, f: s.fleet(c.lanes, c.standbys)}
	defer sc.tearDown()
	if err := sc.prepare(ctx, c); err != nil {
		return sc, "", err
	}
	if err := meanwhile(sc); err != nil {
		return sc, "", err
	}
	checked, err = sc.finish(ctx)
	return sc, checked, err
}

// prepare writes the pending records once each replica has its share: so no store holds anything of
// partitions that its replica does not have.
func (sc *scene) prepare(ctx context.Context, c cast) (err error) {
	if err := sc.f.startNew(c.replicas); err != nil {
		return err
	}
	if err := sc.f.settle(ctx); err != nil {
		return err
	}
	if err := sc.fillFar(ctx, c.far); err != nil {
		return err
	}
	if sc.o, err = sc.observe(ctx, false); err != nil {
		return err
	}
	return sc.flow(ctx, c.rate)
}

// fillFar writes records that stay pending, and waits until the replicas have them all.
func (sc *scene) fillFar(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	sc.r.progress("%s: writing %s requests that are due in hours", sc.name, thousands(int64(n)))
	if err := sc.fill(ctx, n, farStamps(markFar)); err != nil {
		return err
	}
	sc.far = n
	return sc.f.until(ctx, "pending", int64(n), sc.pending)
}

// markFar is the mark of records that stay pending.
const markFar uint32 = 1 << 16

// farStamps makes the stamps of records that stay pending.
func farStamps(mark uint32) func(i int) stamp {
	now := time.Now()
	return func(i int) stamp {
		ahead := farFrom + time.Duration(noise(uint64(i))%uint64(farTo-farFrom))
		return stamp{due: now.Add(ahead).UnixMilli(), mark: mark, index: uint32(i)}
	}
}

func (sc *scene) pending() int64 {
	n, _ := sc.f.sum(time.Time{}, func(c child.Counts) int64 { return c.Pending })
	return n
}

// flow begins the stream, and waits until records of every partition arrive.
func (sc *scene) flow(ctx context.Context, rate int) (err error) {
	if sc.w, err = sc.stream(ctx, rate); err != nil {
		return err
	}
	if err := sc.f.until(ctx, "partitions with deliveries", int64(sc.partitions), sc.o.sources); err != nil {
		return err
	}
	return sleepUntil(ctx, time.Now().Add(sc.r.o.latest-sc.r.o.soonest)) // the rate rises until then
}

// finish ends the stream, waits until all of it has arrived, ends the replicas and has everything judged.
func (sc *scene) finish(ctx context.Context) (string, error) {
	written, err := sc.w.end()
	if err != nil {
		return "", err
	}
	if err := sc.f.until(ctx, "seen", int64(written), sc.o.count); err != nil {
		return "", err
	}
	after := time.Now()
	if err := sc.f.until(ctx, fmt.Sprintf("counts of pending records that say %d", sc.far), 1, func() int64 {
		counted, all := sc.f.sum(after, func(c child.Counts) int64 { return c.Pending })
		if all && counted == int64(sc.far) {
			return 1
		}
		return 0
	}); err != nil {
		return "", err
	}
	if err := errors.Join(sc.f.end(), sc.o.end()); err != nil {
		return "", err
	}
	return sc.check(ctx)
}

// tearDown ends whatever still runs.
func (sc *scene) tearDown() {
	if sc.w != nil {
		_, _ = sc.w.end() // finish has reported it
	}
	if sc.o != nil {
		_ = sc.o.end()
	}
	sc.f.abandon()
}

// owned are the partitions of a replica.
func (sc *scene) owned(r *replica) (partitions []int32) {
	for p, owner := range sc.f.owners() {
		if owner == r {
			partitions = append(partitions, p)
		}
	}
	return partitions
}
