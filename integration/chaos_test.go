package integration

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/integration/proxy"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/verify"
)

const (
	// shortChaos is for how long there are faults. The whole test then takes four minutes on two cores.
	shortChaos = 140 * time.Second
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
// DUEWHEEL_TEST_CHAOS_FOR says for how long, DUEWHEEL_TEST_CHAOS_PROTOCOL=consumer has the broker share the partitions out. One act alone is played
// by go test -run 'TestChaos/old_broker' or 'TestChaos/carry/acts/three', and has its share of the time.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	seed, whole := newSeed(t), chaosFor(t)
	table := &table{}
	for i, a := range acts(whole) {
		t.Run(a.name, func(t *testing.T) { a.play(t, seed, uint64(i), table) })
	}
	t.Run("carry", func(t *testing.T) { // which waits for most of the time, so all of it goes at once
		judge := carriedAsComputed(t)
		t.Run("acts", func(t *testing.T) {
			for i, a := range carryingActs(whole) {
				t.Run(a.name, func(t *testing.T) {
					t.Parallel()
					a.play(t, seed, uint64(100+i), table)
				})
			}
		})
		judge()
	})
	t.Logf("seed %d, %v of faults:\n%s", seed, whole, table)
	if table.kills > openKills && table.open == 0 {
		t.Errorf("none of %d kills has hit an open transaction", table.kills)
	}
}

func chaosFor(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv("DUEWHEEL_TEST_CHAOS_FOR"), shortChaos.String()))
	if err != nil {
		t.Fatalf("DUEWHEEL_TEST_CHAOS_FOR: %v", err)
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
	carry       *carrying                      // nil: the delay topic keeps everything
}

// acts divides the time of a run.
//
// Kafka 4.3 does not survive that all brokers of a partition are away: a transaction that was decided, and whose markers had not been
// written, is then taken for ended without them, which holds up its readers for good (KAFKA-20734), where the replica that would write
// them again has been killed as well. So the only broker is killed where that is another one, and of three brokers one is.
func acts(whole time.Duration) []act {
	kills, far := 2, 8*time.Second
	if whole >= longChaos {
		kills, far = 9, time.Minute
	}
	one := act{name: "one broker", version: brokers.Latest, nodes: 1, last: whole * 24 / 100, mix: someStandbys}
	three := act{name: "three brokers", version: brokers.Latest, nodes: 3, last: whole * 24 / 100, opening: []fault{brokerFault}, mix: oneStatic}
	old := act{name: "old broker", version: brokers.Old, nodes: 1, last: whole * 16 / 100, opening: []fault{brokerFault}}
	loose := act{name: "at least once", version: brokers.Latest, nodes: 1, last: whole * 16 / 100, atLeastOnce: true, mix: someStandbys}
	one.deck = deck(kills, slowFault)
	three.deck = deck(kills, brokerFault, partFault, slowFault)
	if whole >= longChaos { // a minute may pass
		three.deck = append(three.deck, pauseFault)
	}
	old.deck = deck(kills, brokerFault, slowFault)
	loose.deck = deck(kills, slowFault)
	all := []act{one, three, old, loose}
	for i := range all {
		all[i].far = far
		all[i].complete(whole)
	}
	return all
}

// complete adds what goes for every act.
func (a *act) complete(whole time.Duration) {
	a.must = append(slices.Clone(a.opening), killFault)
	if whole >= longChaos {
		a.must = append(a.must, a.deck...)
	}
	if a.version != brokers.Old { // which knows no other protocol
		a.protocol = processor.Protocol(os.Getenv("DUEWHEEL_TEST_CHAOS_PROTOCOL"))
	}
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

// play lets the faults of a plan happen, to one group after the other.
func (a act) play(t *testing.T, seed, stream uint64, table *table) {
	groups := a.raise(t, brokers.Start(t, brokers.Options{Version: a.version, Nodes: a.nodes, Config: a.carry.ofBrokers(), Faults: true}), seed, stream)
	stop := groups[0].ask()
	recoverAll(groups)
	for began, n := time.Now(), 0; time.Since(began) < a.last || len(a.unplayed(groups)) > 0; n++ {
		c := groups[n%len(groups)]
		if c.play(c.plan.next()) {
			recoverAll(groups)
		}
	}
	recoverAll(groups)
	stop()
	if a.carry != nil {
		wipeAll(groups)
	}
	for _, c := range groups {
		c.arrive()
	}
	if g := groups[0].ground; g != nil {
		g.stop()
	}
	for i, c := range groups {
		c.leaveAll()
		report := c.judge()
		table.add(c, report)
		found := c.lookOnlyNow()
		if a.carry != nil {
			c.carried(report, found, i == len(groups)-1)
		} else if a.atLeastOnce && (report.Cancels < chaosAsks || report.Doubled == 0) {
			t.Errorf("too little has happened: %d cancels, %d doubled", report.Cancels, report.Doubled)
		}
	}
}

// lookOnlyNow verifies what has become of all that is there, also of what copies alone are left: nothing is wrong, and nothing is open.
func (c *chaos) lookOnlyNow() verify.Counts {
	c.t.Helper()
	r := c.pass(c.verifier())
	untold := r.Counts.Untold
	for _, f := range r.Untold {
		if strings.HasPrefix(f.Kind, "a resolve record says") { // the cancel has left the log, and the copy that it left behind has not
			untold -= f.Count
		}
	}
	if expectFaults(c.t, r, nil); r.Counts.Pending+untold > 0 {
		c.t.Errorf("all has arrived, and verify says %+v", r.Counts)
	}
	for _, found := range r.Faults {
		for _, f := range found.First {
			c.tellOf(check.Source{Topic: f.Topic, Partition: f.Partition, Offset: f.Offset})
		}
	}
	c.t.Logf("verify: %+v", r.Counts)
	return r.Counts
}

// raise starts the replicas of all groups.
func (a act) raise(t *testing.T, cluster *brokers.Cluster, seed, stream uint64) (groups []*chaos) {
	for i := range a.carry.groups() {
		set := a.setting(seed, i == a.carry.groups()-1)
		if i > 0 {
			set.topic = groups[0].route.Topic
		}
		c := &chaos{
			tenant: newTenant(t, cluster, set), act: a, view: newView(int(set.partitions)), played: make(map[fault]int),
			plan: newPlan(seed, stream+uint64(1000*i), a.nodes, a.carry.replicas(), a.deck, a.opening...), began: time.Now(),
		}
		t.Cleanup(c.showReplicas)
		c.view.begin("start")
		groups = append(groups, c)
	}
	for i, c := range groups {
		c.beside = groups
		recoverAll(groups[:i]) // who has the topic trimmed must find the others
		for range a.carry.replicas() {
			c.join()
		}
	}
	return groups
}

// ask has requests come in until stop is called.
func (c *chaos) ask() (stop func()) {
	if c.act.carry != nil {
		return c.askForLong()
	}
	loaded := c.keepLoading(load.Config{Rate: chaosRate, Records: 2 * chaosRate, Due: []load.Due{
		{Weight: 3, From: -time.Minute},
		{Weight: 6, To: 2 * time.Second},
		{Weight: 3, From: 3 * time.Second, To: 6 * time.Second},
		{Weight: 1, From: c.act.far / 2, To: c.act.far},
	}})
	if !c.act.atLeastOnce {
		return loaded
	}
	asked := c.newAsker().keepAsking(chaosAsks)
	return func() {
		asked()
		loaded()
	}
}

// setting is what the tenant of an act is like, or of one of its groups.
func (a act) setting(seed uint64, last bool) setting {
	if a.carry != nil {
		return a.carry.setting(a, seed, last)
	}
	set := setting{partitions: chaosPartitions, targets: 3, seed: seed, route: emitAll}
	if a.atLeastOnce {
		set.route = func(r *topics.Route) { r.Emit, r.CancelsAnswered = topics.EmitAll, true }
		set.check = func(c *check.Config) { c.AllowDoubles, c.Routes[0].CancelsAnswered = true, true }
	}
	return set
}

// chaos is a group of replicas to which things happen.
type chaos struct {
	*tenant
	act      act
	plan     *plan
	beside   []*chaos  // all groups of the act, this one, too
	began    time.Time // when the first replica was started
	view     *view
	session  time.Duration // of every replica
	replicas []*chaosReplica
	joined   int // replicas so far
	undos    []undo
	now      step
	ground   *ground       // nil: the delay topic keeps everything
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
		config.Lanes, config.StateDir, config.Presence = 1, filepath.Join(c.dir, fmt.Sprint(r.id)), "127.0.0.1:0"
		config.Protocol, config.Via = c.act.protocol, way.Via()
		if c.act.atLeastOnce {
			config.Guarantee = processor.AtLeastOnce
		}
		c.act.carry.tune(config)
		if c.act.mix != nil {
			c.act.mix(r.id, config)
		}
		c.session = config.SessionTimeout
	})
	config.Hear = c.view.hear
	c.view.count(config.Instance, true)
	r.way, r.Process = way, c.spawn(config)
}

// play lets one fault happen. It reports whether the next one waits until it is over.
func (c *chaos) play(s step) (waits bool) {
	passes(c.t, s.before+c.act.carry.breath())
	c.now = s
	fmt.Fprintf(c.log, "time=%s fault %v\n", time.Now().UTC().Format(time.RFC3339Nano), s)
	c.t.Logf("after %v, %s fault %v; killed %d times, %d of them inside an open transaction; %s",
		time.Since(c.began).Round(time.Millisecond), c.name, s, c.kills, c.open, c.watch.Counts().Summary())
	c.strike()
	c.played[s.fault]++
	return !s.rush || c.act.carry.calm()
}

// unplayed are the faults that must come and have not, in whatever group.
func (a act) unplayed(groups []*chaos) []fault {
	return slices.DeleteFunc(slices.Clone(a.must), func(f fault) bool {
		return slices.ContainsFunc(groups, func(c *chaos) bool { return c.played[f] > 0 })
	})
}

// recoverAll waits until all groups have recovered.
func recoverAll(groups []*chaos) {
	for _, c := range groups {
		c.recover()
	}
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
				c.t.Fatalf("replica %s ended by itself: %v", r.Name(), r.Err())
			default:
			}
		}
		return wanting()
	})
}

// leaveAll stops all replicas in order, which leaves nothing open.
func (c *chaos) leaveAll() {
	for _, r := range c.replicas {
		c.tenant.terminate(r.Process)
		c.view.forget(r.Name())
		if states := c.transactions(r.Process); states["Ongoing"] > 0 {
			c.t.Errorf("replica %s ended in order with transactions %v", r.Name(), states)
		}
	}
}

// showReplicas shows of a test that failed how the log of each replica ends.
func (c *chaos) showReplicas() {
	if !c.t.Failed() {
		return
	}
	for _, r := range c.replicas {
		c.t.Logf("the log of replica %s ends:\n%s", r.Name(), c.log.tailOf("replica="+r.Name()))
	}
}
