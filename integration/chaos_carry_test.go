package integration

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/verify"
)

// carrying is what an act is like whose delay topic keeps its log for a fraction of the delays: what is pending lives on as copies alone.
type carrying struct {
	keeps    time.Duration // retention.ms
	from, to time.Duration // how far ahead the records of a wave are due
	many     int           // groups, each of which delivers all that is requested to a target of its own
	members  int           // replicas of each
	trims    bool
	steady   bool // each fault is over before the next one
}

const (
	carryPartitions = 6   // more than there are lanes: no replica is without
	carryRate       = 200 // requests a second, of carryBytes each
	carryBytes      = 2200
	carryAsks       = 60
	carryWave       = 400 // records of all sizes

	// A batch must fit into a segment, and a copy is a little larger than its record.
	largestRecord = 1 << 20
	carryMessage  = largestRecord + 50_000
	carrySegment  = largestRecord + 100_000
)

// carryingActs are played at the same time. Half of what a topic keeps is for how long a group may be away, so in a short run no broker is, and each
// fault is over before the next one.
func carryingActs(whole time.Duration) (all []act) {
	short := carrying{keeps: 40 * time.Second, from: 80 * time.Second, to: 86 * time.Second, steady: true}
	long := carrying{keeps: time.Minute, from: 3 * time.Minute, to: 4 * time.Minute}
	play := func(a act, many, members int, trims bool, kills int, more ...fault) {
		c := short
		if whole >= longChaos {
			c = long
		} else {
			a.nodes, more = 1, nil
		}
		c.many, c.members, c.trims = many, members, trims
		a.carry, a.mix, a.deck = &c, someStandbys, deck(kills, more...)
		a.last = max(whole*20/100, c.to-patience/2) // else what is far is waited for at the end
		a.complete(whole)
		all = append(all, a)
	}
	play(act{name: "trimmed", version: brokers.Latest, nodes: 3}, 1, 3, true, 6, brokerFault, partFault)
	play(act{name: "three groups", version: brokers.Old, nodes: 1}, 3, 2, false, 6, brokerFault)
	if whole >= longChaos {
		play(act{name: "carried at least once", version: brokers.Latest, nodes: 1, atLeastOnce: true}, 1, 3, false, 6)
	}
	return all
}

// groups and replicas are how many there are; nil is an act of one group whose topic keeps everything.
func (c *carrying) groups() int {
	if c == nil {
		return 1
	}
	return c.many
}

func (c *carrying) replicas() int {
	if c == nil {
		return chaosReplicas
	}
	return c.members
}

func (c *carrying) calm() bool { return c != nil && c.steady }

// breath passes before each fault: what a group cannot carry in the half of what its topic keeps is lost, which is no fault of its own.
func (c *carrying) breath() time.Duration {
	if c == nil || c.steady {
		return 0
	}
	return c.keeps / 12
}

func (c *carrying) ofBrokers() map[string]string {
	if c == nil {
		return nil
	}
	return map[string]string{"log.retention.check.interval.ms": "300"}
}

// trimEvery leaves the watch the time to read what is deleted.
func (c *carrying) trimEvery() time.Duration { return c.keeps / 4 }

func (c *carrying) tune(config *replicaConfig) {
	if c != nil {
		config.TrimInterval = c.trimEvery()
	}
}

// setting is the tenant of one of the groups. The last of several has its topic trimmed as far as it is concerned, which is refused.
func (c *carrying) setting(a act, seed uint64, last bool) setting {
	size := strconv.Itoa(carryMessage)
	holds := map[string]string{"max.message.bytes": size}
	keeps := map[string]string{"retention.ms": strconv.FormatInt(c.keeps.Milliseconds(), 10), "segment.bytes": strconv.Itoa(carrySegment)}
	maps.Copy(keeps, holds)
	trims := c.trims || c.many > 1 && last
	remember := (c.keeps / 6).Truncate(time.Second) // what is remembered is not carried
	return setting{
		partitions: carryPartitions, seed: seed, groups: c.many > 1, delayConfig: keeps, targetConfig: holds, deadConfig: holds,
		route: func(r *topics.Route) {
			r.CancelsAnswered, r.Trim = true, &trims
			if c.many == 1 {
				r.Remember = remember
			}
		},
		check: func(config *check.Config) {
			r := &config.Routes[0]
			config.AllowDoubles, r.CancelsAnswered = a.atLeastOnce, true
			if c.many == 1 {
				r.Remember = remember - 2*time.Second
			}
		},
	}
}

// askForLong has requests come in that are due soon, and others, of all sizes, after several times what the topic keeps; cancels and replacements name
// what has been carried since. Stop returns when what is far has been written, of which the last is due within patience, and brokers have deleted the
// first of it.
func (c *chaos) askForLong() (stop func()) {
	as, g := c.act.carry, c.keepLooking()
	loaded := c.keepLoading(load.Config{Rate: carryRate, Records: 2 * carryRate, ValueBytes: carryBytes, Due: []load.Due{
		{Weight: 3, From: -time.Minute},
		{Weight: 6, To: 2 * time.Second},
		{Weight: 1, From: as.keeps / 2, To: as.keeps},
	}})
	a := c.newAsker()
	a.ahead, a.old = as.keeps*11/10, as.keeps*6/10
	asked := a.keepAsking(carryAsks)
	var waves sync.WaitGroup
	waves.Go(func() {
		for began, n := time.Now(), 0; n == 0 || time.Since(began) < c.act.last-as.to+patience/2; n++ {
			if err := c.wave(n); c.t.Context().Err() != nil {
				return // the test has failed and ended
			} else if err != nil {
				c.t.Errorf("write what is far: %v", err)
				return
			}
			if n == 0 {
				g.written()
			}
			passes(c.t, as.keeps-5*time.Second)
		}
	})
	c.t.Cleanup(waves.Wait)
	return func() {
		waves.Wait()
		asked()
		loaded()
		g.awaitGone()
	}
}

// wipeAll kills all replicas of each group, when what is far is there as copies alone, and takes their stores away.
func wipeAll(groups []*chaos) {
	for _, c := range groups {
		c.play(step{number: c.plan.number + 1, fault: killAllFault, wipe: 1<<mostReplicas - 1})
	}
	recoverAll(groups)
}

// wave writes records that are far, of nothing up to a MiB, within some seconds.
func (c *chaos) wave(number int) error {
	as, random := c.act.carry, rand.New(rand.NewPCG(c.seed, uint64(number)))
	cl, err := kgo.NewClient(append(c.opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(carryMessage), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed error
	for i := range carryWave {
		due := time.Now().Add(as.from + time.Duration(random.Int64N(int64(as.to-as.from))))
		r := &kgo.Record{Topic: c.route.Topic, Partition: int32(i % carryPartitions), Key: fmt.Appendf(nil, "far-%d", i%20), Value: valueOf(i, random)}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, due.UnixMilli(), 10)})
		if c.route.Target == "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderTargetTopic, Value: []byte(c.targets[i%len(c.targets)])})
		}
		cl.Produce(c.t.Context(), r, func(_ *kgo.Record, err error) { failed = cmp.Or(failed, err) })
		passes(c.t, 10*time.Millisecond)
	}
	err = cl.Flush(c.t.Context())
	return cmp.Or(err, failed)
}

// valueOf is a value of some size: most are small, one in a hundred is as large as a record may be.
func valueOf(i int, random *rand.Rand) []byte {
	sizes := []int{100, 100, 100, 20_000, 0, 100, 100, 1, 1000, 100}
	size := sizes[i%len(sizes)]
	switch i % 100 {
	case 11:
		return nil
	case 37:
		size = 200_000
	case 61:
		size = largestRecord
	}
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	return value
}

// ground is where the logs of the delay topic begin. Nothing that is pending may lie below.
type ground struct {
	*chaos
	began time.Time
	stop  func()

	mu    sync.Mutex
	ends  kadm.ListedOffsets // where partitions ended when the first wave had been written
	gone  time.Time          // when all partitions began above that
	lost  bool               // what is pending has lain below
	looks int
}

// keepLooking looks twice a second, until stop is called.
func (c *chaos) keepLooking() *ground {
	ctx, cancel := context.WithCancel(c.t.Context())
	g := &ground{chaos: c, began: time.Now()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for tick := time.Tick(500 * time.Millisecond); ctx.Err() == nil && !g.lost; {
			g.look(ctx)
			select {
			case <-tick:
			case <-ctx.Done():
			}
		}
	})
	c.ground = g
	g.stop = func() {
		cancel()
		wg.Wait()
	}
	c.t.Cleanup(g.stop)
	return g
}

// written notes where the first wave ends.
func (g *ground) written() {
	ends, err := g.admin.ListEndOffsets(g.t.Context(), g.route.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		g.t.Errorf("where the first wave ends: %v", err)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ends = ends
}

// awaitGone waits until the segments of the first wave are gone. It fails the test unless that is so before the wave is due: otherwise nothing would
// have had to be carried.
func (g *ground) awaitGone() {
	due := g.began.Add(g.act.carry.from)
	gone := func() (time.Time, int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.gone, g.looks
	}
	for at, _ := gone(); at.IsZero() && time.Now().Before(due); at, _ = gone() {
		passes(g.t, 100*time.Millisecond)
	}
	at, looks := gone()
	if at.IsZero() || at.After(due) {
		g.t.Error("brokers have not deleted the first wave before it was due")
	}
	g.t.Logf("looked %d times where logs begin; the segments of the first wave were gone %v before that was due", looks, due.Sub(at).Round(time.Second))
}

// look holds where the logs begin against the low water of each group, which is asked for after that. What cannot be asked while brokers are away is
// looked at the next time.
func (g *ground) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	starts, err := g.admin.ListStartOffsets(ctx, g.route.Topic)
	if err != nil || starts.Error() != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.beside {
		committed, err := g.admin.FetchOffsets(ctx, c.name)
		if err != nil || committed.Error() != nil {
			return
		}
		starts.Each(func(o kadm.ListedOffset) {
			of, ok := committed.Lookup(o.Topic, o.Partition)
			if !ok {
				return // nothing was claimed yet
			}
			point, err := state.ParseCheckpoint(of.At, state.NoEpoch, of.Metadata)
			if err != nil || point.LowWater < o.Offset {
				g.lost = true
				g.t.Errorf("%s/%d begins at %d, and the checkpoint of %s is %+v (%v)", o.Topic, o.Partition, o.Offset, c.name, point, err)
			}
		})
	}
	g.looks++
	if g.ends == nil || !g.gone.IsZero() {
		return
	}
	gone := true
	starts.Each(func(o kadm.ListedOffset) {
		end, ok := g.ends.Lookup(o.Topic, o.Partition)
		gone = gone && ok && o.Offset >= end.Offset
	})
	if gone {
		g.gone = time.Now()
	}
}

// carried judges what carrying there has been: each record of the first wave was copied once at least, and that a log which others read is not trimmed was said.
func (c *chaos) carried(r *check.Report, found verify.Counts, last bool) {
	c.t.Helper()
	if r.Carried < carryWave/2 || r.Cancels < carryAsks {
		c.t.Errorf("too little has happened: %d copies, %d cancels", r.Carried, r.Cancels)
	}
	refused := c.log.count("delay topic is not trimmed", "other groups") > 0
	if refused != (last && c.act.carry.many > 1) {
		c.t.Errorf("that the topic is not trimmed was said by %s: %t", c.name, refused)
	}
	if found.Left == 0 {
		c.t.Errorf("nothing was carried of which the request has left the log: %+v", found)
	}
}
