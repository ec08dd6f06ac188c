package integration

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/integration/proxy"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

const (
	// shortChaos is for how long there are faults. The whole test then takes three minutes on two cores.
	shortChaos = 110 * time.Second
	// longChaos and more is worth records that are due far ahead, and most faults are kills then.
	longChaos = 10 * time.Minute

	chaosRate       = 3000 // requests a second
	chaosPartitions = 8    // of the delay topic
	chaosAsks       = 200  // requests, cancels and replacements a second besides, where they are
)

// Everything that can go wrong goes wrong, in an order that follows from the seed, while requests of every kind come in: replicas are
// killed, frozen, cut off, stopped, added and removed, and so are brokers. Whatever happens, every partition is live again soon, in
// one replica, no replica stays without partitions, and in the end every request has arrived once, when and as it should.
//
// DUEWHEEL_CHAOS_FOR says for how long, DUEWHEEL_CHAOS_PROTOCOL=consumer has the broker share the partitions out.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	seed, whole := newSeed(t), chaosFor(t)
	table := &table{}
	for i, a := range acts(whole) {
		t.Run(a.name, func(t *testing.T) {
			a.play(t, newPlan(seed, uint64(i), a.nodes, a.deck, a.opening...), seed, table)
		})
	}
	t.Logf("seed %d, %v of faults:\n%s", seed, whole, table)
	if table.kills > openKills && table.open == 0 {
		t.Errorf("none of %d kills has hit an open transaction", table.kills)
	}
}

func chaosFor(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv("DUEWHEEL_CHAOS_FOR"), shortChaos.String()))
	if err != nil {
		t.Fatalf("DUEWHEEL_CHAOS_FOR: %v", err)
	}
	return d
}

// act is the part of a chaos run that one cluster sees.
type act struct {
	name     string
	version  string
	nodes    int
	last     time.Duration
	far      time.Duration // how far ahead the last requests are due
	opening  []fault       // comes first
	deck     []fault
	must     []fault // goes on until all of these were played
	protocol processor.Protocol
	// atLeastOnce: what was delivered, or a cancel that was answered, may come twice, and nothing else may. Requests are cancelled and replaced.
	atLeastOnce bool
	mix         func(id int, c *replicaConfig) // how replicas differ
}

// acts divides the time of a run.
//
// Kafka 4 does not survive that all brokers of a partition are away: a transaction that was decided, and whose markers had not been
// written, is then taken for ended without them, which holds up its readers for good (KAFKA-20734). So the only broker is killed
// where that is another one, and of three brokers one is.
func acts(whole time.Duration) []act {
	kills, far := 2, 8*time.Second
	if whole >= longChaos {
		kills, far = 9, time.Minute
	}
	one := act{name: "one broker", version: brokers.Latest, nodes: 1, last: whole * 30 / 100, mix: someStandbys}
	three := act{name: "three brokers", version: brokers.Latest, nodes: 3, last: whole * 30 / 100, opening: []fault{brokerFault}, mix: oneStatic}
	old := act{name: "old broker", version: brokers.Old, nodes: 1, last: whole * 20 / 100, opening: []fault{brokerFault}}
	loose := act{name: "at least once", version: brokers.Latest, nodes: 1, last: whole * 20 / 100, atLeastOnce: true, mix: someStandbys}
	one.deck = deck(kills)
	three.deck = deck(kills, brokerFault, partFault)
	if whole >= longChaos { // a minute may pass
		three.deck = append(three.deck, pauseFault)
	}
	old.deck = deck(kills, brokerFault)
	loose.deck = deck(kills)
	all := []act{one, three, old, loose}
	for i := range all {
		all[i].far = far
		all[i].must = append(slices.Clone(all[i].opening), killFault)
		if whole >= longChaos {
			all[i].must = append(all[i].must, all[i].deck...)
		}
		if all[i].version != brokers.Old { // which knows no other protocol
			all[i].protocol = processor.Protocol(os.Getenv("DUEWHEEL_CHAOS_PROTOCOL"))
		}
	}
	return all
}

// someStandbys gives the first replica two lanes, and every other one keeps standbys, as while a configuration is rolled out.
func someStandbys(id int, c *replicaConfig) {
	if id == 1 {
		c.Lanes = 2
	}
	c.Standbys = id % 2
}

// oneStatic makes one replica a static member, and all keep standbys.
func oneStatic(id int, c *replicaConfig) {
	if id == 1 {
		c.InstanceID = c.Group + "-static"
	}
	c.Standbys = 1
}

// play lets the faults of a plan happen.
func (a act) play(t *testing.T, p *plan, seed uint64, table *table) {
	cluster := brokers.Start(t, brokers.Options{Version: a.version, Nodes: a.nodes, Faults: true})
	c := &chaos{
		stage: newStage(t, cluster, a.setting(seed)),
		act:   a, view: newView(chaosPartitions), played: make(map[fault]int),
	}
	t.Cleanup(c.showReplicas)
	c.view.begin("start")
	for range chaosReplicas {
		c.join()
	}
	stop := c.keepLoading(load.Config{Rate: chaosRate, Records: 2 * chaosRate, Due: []load.Due{
		{Weight: 3, From: -time.Minute},
		{Weight: 6, To: 2 * time.Second},
		{Weight: 3, From: 3 * time.Second, To: 6 * time.Second},
		{Weight: 1, From: a.far / 2, To: a.far},
	}})
	cancelled := func() {}
	if a.atLeastOnce {
		cancelled = c.newAsker().keepAsking(chaosAsks)
	}
	c.recover()
	for c.began = time.Now(); time.Since(c.began) < a.last || len(c.unplayed()) > 0; {
		c.play(p.next())
	}
	c.recover()
	cancelled()
	stop()
	c.arrive()
	c.leaveAll()
	report := c.judge()
	table.add(c, report)
	if a.atLeastOnce && (report.Cancels < chaosAsks || report.Doubled == 0) {
		t.Errorf("too little has happened: %d cancels, %d doubled", report.Cancels, report.Doubled)
	}
}

// setting is what the stage of an act is like.
func (a act) setting(seed uint64) setting {
	set := setting{partitions: chaosPartitions, targets: 3, seed: seed, route: emitAll}
	if a.atLeastOnce {
		set.route = func(r *topics.Route) { r.Emit, r.CancelsAnswered = topics.EmitAll, true }
		set.check = func(c *check.Config) { c.AllowDoubles, c.Routes[0].CancelsAnswered = true, true }
	}
	return set
}

// chaos is a group of replicas to which things happen.
type chaos struct {
	*stage
	act      act
	began    time.Time // when the first fault came
	view     *view
	session  time.Duration // of every replica
	replicas []*chaosReplica
	joined   int // replicas so far
	undos    []undo
	now      step
	played   map[fault]int // how often each has struck

	kills, open        int // kill -9 of replicas, and how many of these inside an open transaction
	frozen, openFrozen int
}

// chaosReplica is a replica with its own way to the brokers. Its process may be another one after each fault.
type chaosReplica struct {
	*child.Process
	id  int // of its state directory
	way *proxy.Proxy
}

// undo ends a fault that lasts.
type undo struct {
	replica *child.Process // that it concerns; nil: a broker
	what    fault
	hold    time.Duration
	do      func()
}

func (c *chaos) start(r *chaosReplica) {
	c.t.Helper()
	way, err := proxy.New(c.cluster.Addrs()...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(way.Close)
	config := c.replica(func(config *replicaConfig) {
		config.Lanes, config.StateDir = 1, filepath.Join(c.dir, fmt.Sprint(r.id))
		config.Protocol, config.Via = c.act.protocol, way.Via()
		if c.act.atLeastOnce {
			config.Guarantee = processor.AtLeastOnce
		}
		if c.act.mix != nil {
			c.act.mix(r.id, config)
		}
		c.session = config.SessionTimeout
	})
	config.Hear = c.view.hear
	c.view.count(config.Instance, true)
	r.way, r.Process = way, c.spawn(config)
}

func (c *chaos) name(r *chaosReplica) string { return r.Name() }

// play lets one fault happen and waits until it is over, unless the next one must not wait.
func (c *chaos) play(s step) {
	passes(c.t, s.before)
	c.now = s
	fmt.Fprintf(c.log, "time=%s fault %v\n", time.Now().UTC().Format(time.RFC3339Nano), s)
	c.t.Logf("after %v, fault %v; killed %d times, %d of them inside an open transaction; %s",
		time.Since(c.began).Round(time.Millisecond), s, c.kills, c.open, c.watch.Counts().Summary())
	c.strike()
	c.played[s.fault]++
	if !s.rush {
		c.recover()
	}
}

// unplayed are the faults that must come and have not.
func (c *chaos) unplayed() []fault {
	return slices.DeleteFunc(slices.Clone(c.act.must), func(f fault) bool { return c.played[f] > 0 })
}

// recover waits until the other replicas have taken over from those that are frozen or cut off, lets these go on, and waits until every
// replica takes part.
func (c *chaos) recover() {
	if len(c.undos) > 0 && !c.view.blind() {
		c.await(c.view.wanting)
	}
	for _, u := range c.undos {
		passes(c.t, u.hold)
		c.view.begin(u.what)
		u.do()
	}
	c.undos = nil
	c.await(func() string { return cmp.Or(c.view.wanting(), c.view.idle()) })
}

// await waits for a condition, and for no replica that has ended by itself.
func (c *chaos) await(wanting func() string) {
	c.t.Helper()
	eventually(c.t, func() string {
		for _, r := range c.replicas {
			select {
			case <-r.Exited():
				c.t.Fatalf("replica %s ended by itself: %v", c.name(r), r.Err())
			default:
			}
		}
		return wanting()
	})
}

// leaveAll stops all replicas in order, which leaves nothing open.
func (c *chaos) leaveAll() {
	for _, r := range c.replicas {
		c.stage.terminate(r.Process)
		c.view.forget(c.name(r))
		if states := c.transactions(r.Process); states["Ongoing"] > 0 {
			c.t.Errorf("replica %s ended in order with transactions %v", c.name(r), states)
		}
	}
}

// showReplicas shows of a test that failed how the log of each replica ends.
func (c *chaos) showReplicas() {
	if !c.t.Failed() {
		return
	}
	for _, r := range c.replicas {
		c.t.Logf("the log of replica %s ends:\n%s", c.name(r), c.log.tailOf("replica="+c.name(r)))
	}
}
