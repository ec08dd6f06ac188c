//go:build synctests

package processor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kversion"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/processor/clock"
)

// budget is how long TestSimRandom looks for a schedule that breaks a promise.
var budget = flag.String("sim.budget", cmp.Or(os.Getenv("DUEWHEEL_TEST_SIM_BUDGET"), "20s"), "how long TestSimRandom runs, in real time")

// lookFor is the budget. One that cannot be read, or in which no schedule has room, is an error: it would be over at once, and green.
func lookFor(budget string) (time.Duration, error) {
	d, err := time.ParseDuration(budget)
	if err == nil && d <= 0 {
		err = errors.New("it must be above zero")
	}
	if err != nil {
		return 0, fmt.Errorf("DUEWHEEL_TEST_SIM_BUDGET or -sim.budget %q: %w", budget, err)
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
		os.WriteFile(trace, []byte(p.String()+p.line()), 0o644) // what it was, should all of it panic
		rapid.SyncTest(rt, func(rt *rapid.T) {
			simulate(rt, p, &did)
		})
		os.Remove(trace)
	})
}

// A plan from a failing schedule's history, in DUEWHEEL_TEST_SIM_PLAN, is carried out once more.
func TestSimPlan(t *testing.T) {
	given := cmp.Or(os.Getenv("DUEWHEEL_TEST_SIM_PLAN"), plan{Seed: 1, Guarantee: ExactlyOnce, Partitions: 1, Brokers: 1, Processes: 1, Lanes: 1, Batch: 10,
		Near: time.Second, Latency: milli, Rate: time.Second, Steps: []step{{After: time.Second, Op: opSend, N: 3}}}.line())
	var p plan
	if err := json.Unmarshal([]byte(given), &p); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { simulate(t, p, &tally{}) })
}

// hang tells of a schedule that does not end: in a bubble, time stands still when something spins.
func hang(p plan) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	panic(fmt.Sprintf("a schedule hangs:\n%v%s\n%s", p, p.line(), stacks))
}

// simulate runs a plan.
func simulate(t testingT, p plan, did *tally) {
	var versions *kversion.Versions
	if p.Classic {
		versions = kversion.V3_9_0()
	}
	w := newWorld(t, worldConfig{seed: p.Seed, versions: versions, guarantee: p.Guarantee, partitions: p.Partitions, brokers: p.Brokers, fixed: p.Fixed, flush: p.Flush, latency: p.Latency, rival: p.Rival, late: p.late(), audit: p.audited(),
		again: p.Again, jitter: p.Jitter, expires: p.Expires, duplicates: p.Duplicates, keyed: p.Keyed, remember: p.remember(),
		prefix: p.Prefix, tools: p.Tools, timestamp: p.Timestamp, target: p.Target,
		refuses: p.has(opPoison, opProduceError), grows: p.has(opPartitions), widens: p.has(opWiden), loses: p.loses(), small: p.small(), tune: func(c *Config) {
			c.Lanes, c.BatchRecords, c.NearWindow, c.Standbys = p.Lanes, p.Batch, p.Near, p.Standbys
			c.AcceptLoss = p.loses()
			trim := p.Trim > 0
			c.TrimInterval = p.Trim // 0: the default
			for i := range c.Routes {
				c.Routes[i].Trim = &trim
			}
		}})
	defer w.close()
	w.note("plan: %s%s", p, p.line())
	if p.Keeps > 0 {
		w.set("retention.ms", fmt.Sprint(p.Keeps.Milliseconds()))
	}
	r := &runner{world: w, plan: p, stepped: map[*process]bool{}, acts: map[op]int64{}, frozenBrokers: map[int32]bool{}}
	rival := &slot{of: w.rival, name: "rival"}
	if w.rival != nil { // both groups have claimed their partitions before anything is trimmed, else the first trim may cross that
		r.up(rival)
		w.within(20*time.Second+40*p.Latency, "the second group has its partitions", w.rival.hasClaimed)
	}
	for i := range p.Processes {
		r.slots = append(r.slots, &slot{of: w, name: string(rune('a' + i))})
		r.up(r.slots[i])
	}
	if w.rival != nil {
		if p.Trim > 0 {
			w.within(20*time.Second+40*p.Latency, "the first group has its partitions", w.hasClaimed)
		}
		r.slots = append(r.slots, rival)
	}
	for at := p.Rate; at < time.Minute; at += p.Rate {
		r.after(at, func() {
			if !r.healed {
				w.client.Produce(context.Background(), r.draw(), r.known.add)
			}
		})
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
	w.saysLost()
	w.notices()
	w.prompt()
	w.finish()
	w.accountsForLost()
	w.leavesTheLogToOthers()
	did.add(w)
	did.cut += r.cut
	did.borrowed += r.borrowed
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
	records := 20
	if p.Again != "" {
		records *= 3 // each is put off, and delivered again
	}
	late := 30*milli + time.Duration(requests+8*records/p.Batch)*p.Latency
	if p.audited() {
		late *= 3 // turns have twice as much to do, and one more thing to wait for
	}
	return late
}

// audited reports whether what becomes of requests is told. A turn of one record would tell of one only.
func (p plan) audited() bool { return p.Seed%4 == 1 && p.Batch > 1 && !p.loses() }

// loses reports whether a log is cut above L.
func (p plan) loses() bool { return p.has(opBehead) }
