//go:build synctests

package processor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/processor/clock"
	"github.com/duewheel/duewheel/topics"
)

// budget is how long TestSimRandom looks for a schedule that breaks a promise.
var budget = flag.String("sim.budget", cmp.Or(os.Getenv("DUEWHEEL_SIM_BUDGET"), "20s"), "how long TestSimRandom runs, in real time")

// lookFor is the budget. One that cannot be read, or in which no schedule has room, is an error: it would be over at once, and green.
func lookFor(budget string) (time.Duration, error) {
	d, err := time.ParseDuration(budget)
	if err == nil && d <= 0 {
		err = errors.New("it must be above zero")
	}
	if err != nil {
		return 0, fmt.Errorf("DUEWHEEL_SIM_BUDGET or -sim.budget %q: %w", budget, err)
	}
	return d, nil
}

func TestSimBudget(t *testing.T) {
	if d, err := lookFor("90s"); err != nil || d != 90*time.Second {
		t.Errorf("90s: %v, %v", d, err)
	}
	for _, bad := range []string{"", "0s", "-1s", "30", "soon"} {
		if d, err := lookFor(bad); err == nil {
			t.Errorf("%q: %v and no error", bad, d)
		}
	}
}

// Whatever goes wrong, every request arrives once, when it is due, as it was, and in order.
//
// The seed that rapid prints replays a schedule: -run TestSimRandom -rapid.seed=N, and a file that
// it leaves in testdata is tried first by every later run. Where processes race within a
// microsecond, a replay may take another way; -count finds it again.
func TestSimRandom(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	defer checks.Value.Set(checks.Value.String())
	checks.Value.Set("1000000")
	long, err := lookFor(*budget)
	if err != nil {
		t.Fatal(err)
	}
	var did tally
	began := time.Now()
	defer func() {
		t.Logf("%v in %v", &did, time.Since(began).Round(time.Second))
		if missing := did.floor(); !t.Failed() && len(missing) > 0 {
			t.Errorf("schedules that are all well, and none had: %s", strings.Join(missing, ", "))
		}
	}()
	rapid.Check(t, func(rt *rapid.T) {
		if did.schedules > 0 && time.Since(began) > long {
			return
		}
		p := drawPlan(rt)
		watchdog := time.AfterFunc(2*time.Minute, func() { hang(p) })
		defer watchdog.Stop()
		trace := filepath.Join(os.TempDir(), fmt.Sprintf("duewheel-sim-%d.txt", os.Getpid()))
		os.WriteFile(trace, []byte(p.String()), 0o644) // what it was, should all of it panic
		rapid.SyncTest(rt, func(rt *rapid.T) {
			simulate(rt, p, &did)
		})
		os.Remove(trace)
	})
}

// A plan from a failing schedule's history, in DUEWHEEL_SIM_PLAN, is carried out once more.
func TestSimPlan(t *testing.T) {
	given := cmp.Or(os.Getenv("DUEWHEEL_SIM_PLAN"), plan{Seed: 1, Guarantee: ExactlyOnce, Partitions: 1, Brokers: 1, Processes: 1, Lanes: 1, Batch: 10,
		Near: time.Second, Latency: milli, Rate: time.Second, Steps: []step{{After: time.Second, Op: opSend, N: 3}}}.line())
	var p plan
	if err := json.Unmarshal([]byte(given), &p); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { simulate(t, p, &tally{}) })
}

// tally tells what schedules have brought about.
type tally struct {
	schedules, rivals, requested, doubled, late, retried, rebalances, fenced, cut, overlaps int64
	virtual                                                                                 time.Duration
	turns, dead, cancels                                                                    map[string]int64
	acts                                                                                    [ops]int64
}

func (c *tally) count(acts map[op]int64) {
	for o, n := range acts {
		c.acts[o] += n
	}
}

func (c *tally) add(w *world) {
	if c.turns == nil {
		c.turns, c.dead, c.cancels = map[string]int64{}, map[string]int64{}, map[string]int64{}
	}
	if w.host == w {
		c.schedules++
		c.virtual += time.Since(w.began)
	} else {
		c.rivals++
	}
	seen := w.watch.Counts()
	c.requested += seen.Requested
	c.doubled += seen.Doubled
	for _, p := range w.processes {
		s := p.p.Stats()
		for k, n := range s.Transactions {
			c.turns[k] += n
		}
		for k, n := range s.Cancels {
			c.cancels[k] += n
		}
		for _, d := range s.DeadLetters {
			c.dead[d.Code] += d.Records
		}
		for _, t := range s.Topics {
			c.late += t.Late
		}
		c.retried += s.Retried
		c.rebalances += s.Rebalances
		c.fenced += p.p.counters.fenced.Load()
	}
}

// enough is how many schedules bring everything about; none of a few may.
const enough = 150

// floor names what no schedule has brought about, and says nothing of a promise therefore.
func (c *tally) floor() (missing []string) {
	for what, n := range map[string]int64{"a schedule": c.schedules, "a request": c.requested} {
		if n == 0 {
			missing = append(missing, what)
		}
	}
	if c.schedules < enough {
		return missing
	}
	for what, n := range map[string]int64{
		"a second group": c.rivals, "a record that came again (at_least_once)": c.doubled, "a late arrival": c.late, "a retry": c.retried,
		"a rebalance": c.rebalances, "a fence": c.fenced, "a turn that was aborted": c.turns["aborted"], "a turn of unknown outcome": c.turns["unknown"],
		"a dead letter": int64(len(c.dead)), "a log that was cut": c.cut, "overlapping transactions": c.overlaps,
		"a cancel that cancelled": c.cancels["cancelled"], "one that came too late": c.cancels["too_late"], "one of what is not there": c.cancels["unknown"],
		"one that was forwarded": c.cancels["forwarded"], "a replacement": c.cancels["replaced"],
	} {
		if n == 0 {
			missing = append(missing, what)
		}
	}
	for o, n := range c.acts {
		if n == 0 {
			missing = append(missing, "the act "+opNames[o])
		}
	}
	return missing
}

func TestSimFloor(t *testing.T) {
	all := tally{schedules: enough, rivals: 1, requested: 1, doubled: 1, late: 1, retried: 1, rebalances: 1, fenced: 1, cut: 1, overlaps: 1,
		turns: map[string]int64{"aborted": 1, "unknown": 1}, dead: map[string]int64{"no_due": 1},
		cancels: map[string]int64{"cancelled": 1, "too_late": 1, "unknown": 1, "forwarded": 1, "replaced": 1}}
	for o := range all.acts {
		all.acts[o] = 1
	}
	if missing := all.floor(); len(missing) > 0 {
		t.Errorf("everything has happened, but for %q", missing)
	}
	if missing := (&tally{}).floor(); len(missing) != 2 {
		t.Errorf("no schedule at all: %q", missing)
	}
	if missing := (&tally{schedules: enough, requested: 1}).floor(); len(missing) != 16+int(ops) {
		t.Errorf("nothing has happened, but for %d things: %q", 16+int(ops)-len(missing), missing)
	}
}

func (c *tally) String() string {
	var acts strings.Builder
	for o, n := range c.acts {
		fmt.Fprintf(&acts, ", %s %d", opNames[o], n)
	}
	return fmt.Sprintf("%d schedules, %d of them with two groups and %d with overlapping transactions, with %d requests: %d late, %d retried, %d doubled (at_least_once); dead letters %v; cancels %v; turns %v; %d rebalances, %d fenced; %d records of logs cut; %v of simulated time; acts%s",
		c.schedules, c.rivals, c.overlaps, c.requested, c.late, c.retried, c.doubled, c.dead, c.cancels, c.turns, c.rebalances, c.fenced, c.cut, c.virtual.Round(time.Second), acts.String())
}

// hang tells of a schedule that does not end: in a bubble, time stands still when something spins.
func hang(p plan) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	panic(fmt.Sprintf("a schedule hangs:\n%v\n%s", p, stacks))
}

// runner carries a plan out.
type runner struct {
	*world
	plan          plan
	slots         []*slot
	later         []event
	mend          []func() // ends what still goes wrong
	stepped       map[*process]bool
	requests      int
	cut           int64 // records of the log that retention took
	overlaps      bool  // there are producers with overlapping transactions
	clocked       bool  // a broker's clock has been wrong
	acts          map[op]int64
	frozenBrokers map[int32]bool
	healed        bool
	known         known
	users         sync.WaitGroup // transactions of request producers
}

// slot is a machine: a process of a group runs on it, or will again.
type slot struct {
	of   *world
	name string
	p    *process // nil: down
	disk *vfs.MemFS
	skew time.Duration // of its clock, when a process starts
	gone bool
}

type event struct {
	at time.Time
	do func()
}

// simulate runs a plan.
func simulate(t testingT, p plan, did *tally) {
	var versions *kversion.Versions
	if p.Classic {
		versions = kversion.V3_9_0()
	}
	w := newWorld(t, worldConfig{seed: p.Seed, versions: versions, guarantee: p.Guarantee, partitions: p.Partitions, brokers: p.Brokers, fixed: p.Fixed, flush: p.Flush, latency: p.Latency, rival: p.Rival, late: p.late(), audit: p.audited(),
		refuses: p.has(opPoison, opProduceError), grows: p.has(opPartitions), tune: func(c *Config) {
			c.Lanes, c.BatchRecords, c.NearWindow, c.Standbys = p.Lanes, p.Batch, p.Near, p.Standbys
		}})
	defer w.close()
	w.note("plan: %s%s", p, p.line())
	r := &runner{world: w, plan: p, stepped: map[*process]bool{}, acts: map[op]int64{}, frozenBrokers: map[int32]bool{}}
	for at := p.Rate; at < time.Minute; at += p.Rate {
		r.after(at, func() {
			if !r.healed {
				w.client.Produce(context.Background(), r.draw(), r.known.add)
			}
		})
	}
	for i := range p.Processes {
		r.slots = append(r.slots, &slot{of: w, name: string(rune('a' + i))})
		r.up(r.slots[i])
	}
	if w.rival != nil {
		r.slots = append(r.slots, &slot{of: w.rival, name: "rival"})
		r.up(r.slots[p.Processes])
	}
	for _, s := range p.Steps {
		r.sleep(s.After)
		w.note("---- %s", s)
		if r.play(s) {
			r.acts[s.Op]++
		}
	}
	r.heal()
	r.users.Wait() // what they have requested can be seen then
	if err := w.client.Flush(context.Background()); err != nil {
		w.fail("%v", err)
	}
	if r.clocked {
		time.Sleep(clock.AskInterval + 2*time.Second) // until every process knows that they are right again
	}
	w.arrived()
	w.recovers()
	w.notices()
	w.prompt()
	w.finish()
	did.add(w)
	did.cut += r.cut
	if r.overlaps {
		did.overlaps++
	}
	did.count(r.acts)
	if w.rival != nil {
		did.add(w.rival)
	}
}

// late is how late a record may be while nothing is broken: some requests, connections to all brokers (a producer that is used for the
// first time has none), and as many turns as prompt needs.
func (p plan) late() time.Duration {
	requests := 15 + 5*p.Brokers
	if p.Classic {
		requests += 5
	}
	late := 30*milli + time.Duration(requests+8*20/p.Batch)*p.Latency
	if p.audited() {
		late *= 3 // turns have twice as much to do, and one more thing to wait for
	}
	return late
}

// audited reports whether what becomes of requests is told. A turn of one record would tell of one only.
func (p plan) audited() bool { return p.Seed%4 == 1 && p.Batch > 1 }

// sleep lets time pass, carries out what is due meanwhile, and looks at the checkpoints.
func (r *runner) sleep(d time.Duration) {
	until := time.Now().Add(d)
	for {
		next := time.Now().Add(100 * time.Millisecond)
		if next.After(until) {
			next = until
		}
		slices.SortStableFunc(r.later, func(a, b event) int { return a.at.Compare(b.at) })
		if len(r.later) > 0 && r.later[0].at.Before(next) {
			next = r.later[0].at
		}
		time.Sleep(time.Until(next))
		r.reap()
		for len(r.later) > 0 && !r.later[0].at.After(time.Now()) {
			e := r.later[0]
			r.later = r.later[1:]
			e.do()
		}
		r.inspect()
		if !time.Now().Before(until) {
			return
		}
	}
}

// reap takes note of processes that a rule has killed.
func (r *runner) reap() {
	for _, m := range r.slots {
		if m.p == nil {
			continue
		}
		if c := m.p.crashed.Load(); c != nil {
			m.p, m.disk = nil, c.disk
			r.after(c.down, func() { r.up(m) })
		}
	}
}

// after carries something out later, or when everything is healed.
func (r *runner) after(d time.Duration, do func()) {
	r.later = append(r.later, event{time.Now().Add(d), do})
}

// heal ends everything that is still wrong, and makes sure that somebody is there.
func (r *runner) heal() {
	r.note("---- healed")
	r.healed = true
	for _, m := range r.slots {
		m.skew = 0
		for _, p := range m.of.processes {
			p.link.clear()
			p.skew.Store(0)
		}
	}
	for len(r.later) > 0 {
		e := r.later[0]
		r.later = r.later[1:]
		e.do()
	}
	for _, do := range r.mend {
		do()
	}
	remembers := 200 * time.Millisecond // the checker's client remembers for some tens what was answered
	if r.cfg.grows {
		remembers = 1200 * time.Millisecond // and of topics as long as it does without new metadata
	}
	time.Sleep(remembers)
	r.reap()
	for _, w := range []*world{r.world, r.rival} {
		if w != nil && !slices.ContainsFunc(r.slots, func(s *slot) bool { return s.of == w && s.p != nil }) {
			r.up(r.slots[slices.IndexFunc(r.slots, func(s *slot) bool { return s.of == w })])
		}
	}
}

func (r *runner) up(s *slot) {
	if s.p == nil && !s.gone {
		s.p = s.of.launch(s.name, s.disk, false, s.skew)
	}
}

// pick finds a process that runs.
func (r *runner) pick(who int) *slot {
	for i := range r.slots {
		if s := r.slots[(who+i)%len(r.slots)]; s.p != nil {
			return s
		}
	}
	return nil
}

// soonPlayed is for how long an act may keep the schedule: nothing that is due later ends while it does, and so neither what it may be waiting for.
const soonPlayed = 30 * time.Second

// play carries a step out, and reports whether it could.
func (r *runner) play(s step) bool {
	late := time.AfterFunc(soonPlayed, func() {
		panic(fmt.Sprintf("%s has kept the schedule for %v, and so all that ends what is wrong: %s", s, soonPlayed, r.plan.line()))
	})
	defer late.Stop()
	return r.step(s)
}

func (r *runner) step(s step) bool {
	switch s.Op {
	case opSend:
		for range s.N {
			r.client.Produce(context.Background(), r.draw(), r.known.add) // the checker sees what became of it
		}
		return true
	case opTransact:
		r.transact(s)
		return true
	case opRetain:
		went := r.retain()
		r.cut += went
		return went > 0
	case opOverlap:
		r.overlapFor(s)
		return true
	case opJoin:
		if len(r.slots) < 4 {
			r.slots = append(r.slots, &slot{of: r.world, name: string(rune('a' + len(r.slots)))})
			r.up(r.slots[len(r.slots)-1])
		}
		return true
	case opFault:
		f := faults[s.N]
		h := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{f.key}, Topic: f.topic, Err: f.err, TopLevel: f.top, Count: 1 + s.Who})
		r.mend = append(r.mend, h.Remove)
		return true
	case opLeaderless:
		r.after(s.For, r.leaderless(leaderless[s.N]))
		return true
	case opForget:
		_, mend := r.forget("orders", int64(s.N)+1, kerr.OutOfOrderSequenceNumber)
		r.mend = append(r.mend, mend)
		return true
	case opCoordinator:
		r.cluster.RehashCoordinators()
		return true
	case opLeaders:
		r.cluster.ShufflePartitionLeaders()
		return true
	}
	if done, handled := r.actOnBrokers(s); handled {
		return done
	}
	m := r.pick(s.Who)
	if m == nil {
		return false
	}
	if r.actOnProcess(s, m) {
		return true
	}
	p := m.p
	down := func(disk *vfs.MemFS) {
		m.p, m.disk = nil, disk
		r.after(s.For, func() { r.up(m) })
	}
	switch s.Op {
	case opKill:
		down(p.kill())
	case opPowerLoss:
		down(p.crash(50))
	case opWipe:
		p.kill()
		down(nil)
	case opFlush:
		p.flush()
	case opFull:
		r.after(s.For, p.fill())
	case opStop, opLeave:
		r.note("---- %s is told to stop", p.name)
		p.ended.Store(true)
		p.stop()
		m.p = nil
		m.gone = s.Op == opLeave && m != r.slots[0] && m.of == r.world
		r.after(s.For, func() {
			select {
			case <-p.done:
				m.disk = p.fs
			default:
				m.disk = nil // it still runs, so the next one on this machine has a disk of its own
			}
			r.up(m)
		})
	case opFreeze:
		r.after(s.For, p.link.freeze())
	case opAhead, opBehind:
		if r.stepped[p] {
			return false
		}
		r.stepped[p] = true
		by := time.Duration(1+s.For.Milliseconds()%20) * time.Second
		if s.Op == opBehind {
			by = -by
		}
		p.skew.Store(int64(by))
		r.after(s.For, func() { p.skew.Store(0) })
	case opHold:
		ch := make(chan struct{})
		p.link.on(rule{key: kinds[s.N], wait: ch})
		r.after(s.For, func() { close(ch) })
	case opCutBefore, opCutAfter:
		p.link.on(rule{key: kinds[s.N], cut: true, after: s.Op == opCutAfter})
	case opKillBefore, opKillAfter:
		p.link.on(rule{key: kinds[s.N], after: s.Op == opKillAfter, call: func() {
			if p.crashed.Load() == nil {
				p.crashed.Store(&crashed{disk: p.kill(), down: s.For})
			}
		}})
	case opFreezeBefore, opFreezeAfter:
		p.link.on(rule{key: kinds[s.N], after: s.Op == opFreezeAfter, call: func() {
			r.note("---- %s freezes for %v", p.name, s.For)
			thaw := p.link.freeze()
			time.AfterFunc(s.For, thaw)
		}})
	}
	return true
}

// transact sends requests in a transaction that stays open for a while. Whatever of it waits for brokers does so beside the schedule.
func (r *runner) transact(s step) {
	r.requests++
	id := fmt.Sprintf("user-%d", r.requests)
	cl, err := kgo.NewClient(append(r.outside, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		r.fail("%v", err)
	}
	records := make([]*kgo.Record, s.N)
	for i := range records {
		records[i] = r.draw()
	}
	r.users.Go(func() {
		defer cl.Close()
		if err := cl.BeginTransaction(); err != nil {
			r.note("%s: %v", id, err) // brokers that are asked to answer wrongly do so to everyone
			return
		}
		for _, rec := range records {
			cl.Produce(context.Background(), rec, r.known.add)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		cl.Flush(ctx)
		time.Sleep(s.For)
		// Should it fail, the transaction ends by its timeout, and the checker sees what became of it.
		cl.EndTransaction(ctx, kgo.TransactionEndTry(s.N%2 == 0))
	})
}

// draw makes a request up: good or bad, for one of several targets, due at some time.
func (r *runner) draw() *kgo.Record {
	n := r.rng.IntN
	r.requests++
	key := fmt.Sprintf("k%d", n(4))
	rec := &kgo.Record{Topic: simTopic, Partition: int32(n(int(r.plan.Partitions))), Key: []byte(key), Value: []byte(fmt.Sprintf("v%d", r.requests))}
	if n(20) == 0 {
		rec.Key = nil
	}
	set := func(name, value string) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	set("trace", key)
	if h, ok := r.known.pick(r.rng); ok && n(4) == 0 {
		// Without a store the due time of what is far is not known: one that is wrong may be taken for right.
		if n(25) == 0 && !r.plan.has(opFull, opRemove) {
			h.Due++
		}
		if n(20) == 0 {
			h.Partition = 9 // is not there
		}
		if set(topics.HeaderCancel, h.String()); n(5) < 3 {
			return rec
		}
		rec.Headers = rec.Headers[:1]
		set(topics.HeaderReplace, h.String())
		if n(8) > 0 && h.Partition < r.plan.Partitions {
			rec.Partition = h.Partition
		}
	} else if r.plan.Fixed && n(5) == 0 {
		rec.Topic, rec.Partition = simFixed, int32(n(2))
		return rec
	}
	target := "orders"
	if n(3) == 0 {
		target = "bills"
	}
	if r.plan.Rival && n(3) > 0 {
		target = []string{"", simCopies}[n(2)] // both groups deliver it, or only the second
	}
	due := time.Now()
	switch n(10) {
	case 0, 1: // past
		due = due.Add(-time.Duration(n(10_000)) * time.Millisecond)
	case 2, 3, 4: // soon
		due = due.Add(time.Duration(n(3000)) * time.Millisecond)
	case 5, 6, 7: // many at one time
		due = due.Add(time.Duration(n(8)) * time.Second).Truncate(time.Second)
	case 8:
		due = due.Add(time.Duration(n(20_000)) * time.Millisecond)
	default: // far
		due = due.Add(time.Duration(n(120_000)) * time.Millisecond)
	}
	switch n(30) {
	case 0:
		target = "gone" // does not exist
	case 1:
		target = "forbidden"
	case 2:
		due = due.Add(40 * 24 * time.Hour) // too far
	case 3:
		set(topics.HeaderUntil, "soon")
		set(topics.HeaderTargetTopic, target)
		return rec
	case 4:
		set(topics.HeaderTargetTopic, target) // never due
		return rec
	case 5:
		set("delay-id", "x") // not supported yet
	case 6:
		if !r.cfg.grows || target == "bills" {
			set(topics.HeaderTargetPartition, "7") // is not there
		}
	case 7, 8:
		set(topics.HeaderTargetPartition, "1")
	case 9, 10:
		set(topics.HeaderTargetKey, "other")
	}
	if n(4) == 0 {
		set(topics.HeaderFor, fmt.Sprintf("%dms", max(time.Until(due).Milliseconds(), 0)))
	} else {
		set(topics.HeaderUntil, strconv.FormatInt(due.UnixMilli(), 10))
	}
	set(topics.HeaderTargetTopic, target)
	set("tail", "")
	return rec
}

// known are requests that were acknowledged lately.
type known struct {
	mu  sync.Mutex
	all []topics.Handle
}

// add is called when a request was acknowledged, or was not.
func (k *known) add(r *kgo.Record, err error) {
	if err != nil || r.Topic != simTopic {
		return
	}
	h := topics.Handle{Partition: r.Partition, Offset: r.Offset}
	for _, header := range r.Headers {
		switch header.Key {
		case topics.HeaderUntil:
			h.Due, _ = strconv.ParseInt(string(header.Value), 10, 64)
		case topics.HeaderFor:
			wait, _ := time.ParseDuration(string(header.Value))
			h.Due = r.Timestamp.Add(wait).UnixMilli()
		}
	}
	if h.Due > 0 {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.all = append(k.all, h)
	}
}

// pick is one of the last ones.
func (k *known) pick(rng *rand.Rand) (h topics.Handle, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.all) == 0 {
		return h, false
	}
	last := min(len(k.all), 30)
	return k.all[len(k.all)-1-rng.IntN(last)], true
}

// overlapFor has producers of requests write in overlapping transactions, once in a schedule.
func (r *runner) overlapFor(s step) {
	if r.overlaps {
		return
	}
	r.overlaps = true
	stop := r.overlap(overlap{
		producers: 2, each: 3 * time.Second, records: 4, aborted: func(n int) bool { return n%3 == 1 },
		request: func(producer, transaction, n int) *kgo.Record {
			return request(fmt.Sprintf("k%d", producer), in(time.Duration(transaction*n)*700*time.Millisecond))
		},
	})
	r.mend = append(r.mend, stop)
	r.after(s.For, func() { r.wg.Go(stop) })
}
