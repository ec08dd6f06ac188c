package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

// claim is what was said of a record at one time.
type claim struct {
	ahead.Fate
	place        topics.Place
	how          string // it was named
	offset       int64  // up to which a replica had read
	whole        bool   // all that has a say was read
	began, ended time.Time
}

// listing is what was said to be pending in a partition at one time.
type listing struct {
	partition    int32
	waits        map[int64]bool // where each record was first
	offset       int64          // up to which a replica had read
	readTo       int64
	began, ended time.Time
}

// claimant asks what has become of records, and keeps what it was told.
type claimant struct {
	*tenant
	kind  string // of its route
	id    kafka.TopicID
	asked map[string]ask // by the place

	mu    sync.Mutex
	all   []claim
	lists []listing
}

// What is told of a record while replicas are killed is what becomes of it, as the audit topic tells in the end: what waits has not come, what was taken
// away by something that a replica has read never comes, what is retried is told to be, and what is resolved was delivered or dead-lettered. What is listed is
// what has no end yet. A group has a route of each kind.
func TestFatesWhileReplicasRun(t *testing.T) {
	set := setting{seed: newSeed(t), route: kindsOfFates[0].answered(), delayConfig: kindsOfFates[0].delay}
	s := newTenant(t, shared(t), set)
	audit := s.name + ".audit"
	s.create(3, nil, audit)
	claimants := []*claimant{s.newClaimant(kindsOfFates[0].name)}
	for i, kind := range kindsOfFates[1:] {
		claimants = append(claimants, s.sibling(i+1, kind).newClaimant(kind.name))
	}
	var routes []topics.Route
	for _, c := range claimants {
		routes = append(routes, c.route)
	}
	k := s.newKiller(2, func(c *replicaConfig) { c.AuditTopic, c.Routes, c.UnknownTargetAfter = audit, routes, time.Hour })
	var stops []func()
	struck := make(chan struct{})
	var asking sync.WaitGroup
	for i, c := range claimants {
		a := c.newAsker()
		a.ahead, c.asked = 20*time.Second, a.places
		stops = append(stops, a.keepAsking(50))
		asking.Go(func() { c.askUntil(struck, rand.New(rand.NewPCG(s.seed, 3+uint64(i)))) })
	}
	for range 2 {
		k.strike()
	}
	troubled := claimants[len(claimants)-1]
	troubled.awaitRecords(5, ahead.IsCarriedOn)
	troubled.create(targetPartitions, nil, troubled.targets[0])
	for k.kills < 4 {
		k.strike()
	}
	for _, c := range claimants {
		c.await(40)
	}
	close(struck)
	asking.Wait()
	for _, stop := range stops {
		stop()
	}
	eventually(t, func() string {
		for _, c := range claimants {
			if n := c.waiting(); n > 0 {
				return fmt.Sprintf("%d records of the route that %s are pending", n, c.kind)
			}
		}
		return ""
	})
	k.terminate()
	t.Logf("killed %d times, %d of them inside an open transaction", k.kills, k.open)
	told := s.visible(audit)
	for _, c := range claimants {
		t.Run(strings.ReplaceAll(c.kind, " ", "-"), func(t *testing.T) {
			c.t = t
			c.judge(told)
			c.get(told, audit)
		})
	}
}

// kindOfFates is what a route does with ids, due times and old records.
type kindOfFates struct {
	name   string
	change func(*topics.Route)
	delay  map[string]string // configures the delay topic
	absent bool              // the target is not made
}

var kindsOfFates = []kindOfFates{
	{name: "trims", change: func(*topics.Route) {}},
	{name: "carries", change: func(*topics.Route) {}, delay: map[string]string{"retention.ms": "16000"}},
	{name: "is keyed", change: func(r *topics.Route) { r.Keyed = true }},
	{name: "remembers", change: func(r *topics.Route) { r.Remember = 12 * time.Second }},
	{name: "has a jitter", change: func(r *topics.Route) { r.Jitter = 3 * time.Second }},
	{name: "replaces", change: func(r *topics.Route) { r.OnDuplicate = topics.DuplicateReplaces }},
	{name: "leaves out duplicates", change: func(r *topics.Route) { r.OnDuplicate, r.ReplacesLate = topics.DuplicateIgnored, true }},
	{name: "has a target in trouble", change: func(*topics.Route) {}, absent: true},
}

// answered is change, and cancels that come in vain are dead-lettered.
func (k *kindOfFates) answered() func(*topics.Route) {
	return func(r *topics.Route) {
		r.CancelsAnswered = true
		k.change(r)
	}
}

// sibling is another route of the group of a tenant, with topics of its own. Nothing watches it.
func (s *tenant) sibling(n int, kind kindOfFates) *tenant {
	s.t.Helper()
	name := fmt.Sprintf("%s-%d", s.name, n)
	b := &tenant{t: s.t, cluster: s.cluster, client: s.client, admin: s.admin, name: s.name, log: s.log, dir: s.dir, seed: s.seed + uint64(n), patience: s.patience, targets: []string{name + ".target-0"}}
	b.route = topics.Route{Topic: name, DeadLetter: s.route.DeadLetter, Allow: b.targets, MaxDelay: maxDelay}
	kind.answered()(&b.route)
	b.create(4, kind.delay, name)
	if !kind.absent {
		b.create(targetPartitions, nil, b.targets[0])
	}
	return b
}

// await waits until so much was claimed.
func (c *claimant) await(least int) {
	c.t.Helper()
	c.awaitSome(least, "claims", func() (n int) {
		for _, cl := range c.all {
			if cl.whole {
				n++
			}
		}
		return n
	})
}

// awaitRecords waits until it was said of so many records that they are in a state.
func (c *claimant) awaitRecords(least int, state ahead.State) {
	c.t.Helper()
	c.awaitSome(least, fmt.Sprintf("records in state %d", state), func() int {
		said := map[topics.Place]bool{}
		for _, cl := range c.all {
			if cl.whole && cl.State == state {
				said[cl.place] = true
			}
		}
		return len(said)
	})
}

func (c *claimant) awaitSome(least int, what string, count func() int) {
	c.t.Helper()
	eventually(c.t, func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := count(); n < least {
			return fmt.Sprintf("%d %s of the route that %s, want %d", n, what, c.kind, least)
		}
		return ""
	})
}

func (s *tenant) newClaimant(kind string) *claimant {
	s.t.Helper()
	c := &claimant{tenant: s, kind: kind}
	eventually(s.t, func() string { // each broker learns of a topic by and by
		details, err := s.admin.ListTopics(s.t.Context(), s.route.Topic)
		if err == nil {
			err = details.Error()
		}
		if err != nil {
			return err.Error()
		}
		c.id = kafka.TopicID(details[s.route.Topic].ID)
		return ""
	})
	return c
}

func (c *claimant) looker(w ahead.Watch) *ahead.Looker {
	routes, err := topics.NewRoutes(c.route)
	if err != nil {
		c.t.Fatal(err)
	}
	return &ahead.Looker{Client: c.client, Group: c.name, Skew: time.Second, Now: time.Now(), Route: func(string) *topics.Route { return routes[0] }, Watch: w}
}

func (c *claimant) partition(p int32) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: c.route.Topic, Partition: p}
}

func (c *claimant) waiting() (n int) {
	for p := range int32(4) {
		got, err := c.looker(ahead.Watch{}).Look(c.t.Context(), c.partition(p), c.id)
		if err != nil {
			c.t.Fatal(err)
		}
		for range got.All() {
			n++
		}
	}
	return n
}

// askUntil asks for records of lately, and for ids.
func (c *claimant) askUntil(over <-chan struct{}, random *rand.Rand) {
	for {
		select {
		case <-over:
			return
		default:
		}
		tp := c.partition(int32(random.IntN(4)))
		id := fmt.Sprintf("id%d", random.IntN(400))
		if c.route.Keyed {
			id = fmt.Sprintf("k%d", random.IntN(50))
		}
		began := time.Now()
		got, err := c.looker(ahead.Watch{ID: []byte(id)}).Look(c.t.Context(), tp, c.id)
		if c.keep(got, err, "id", began) != nil {
			return
		}
		watch := ahead.Watch{Offset: max(got.Bounds.Stable-1-random.Int64N(3000), 0), Has: true}
		began = time.Now()
		got, err = c.looker(watch).Trace(c.t.Context(), tp, c.id, began.Add(700*time.Millisecond))
		if c.keep(got, err, "handle", began) != nil {
			return
		}
	}
}

func (c *claimant) keep(got *ahead.Looked, err error, how string, began time.Time) error {
	if err != nil {
		c.t.Errorf("by its %s: %v", how, err)
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	whole := got.ReadTo >= got.Bounds.Stable && !got.Open && !got.Blind()
	if how == "id" && whole {
		l := listing{got.TopicPartition.Partition, map[int64]bool{}, got.Checkpoint().Offset, got.ReadTo, began, time.Now()}
		for w := range got.All() {
			l.waits[w.Offset] = true
		}
		c.lists = append(c.lists, l)
	}
	for _, f := range got.Fates() {
		place := topics.Place{Partition: got.TopicPartition.Partition, Offset: f.Offset}
		c.all = append(c.all, claim{f, place, how, got.Checkpoint().Offset, whole, began, time.Now()})
	}
	return nil
}

// ending is what the audit topic tells of the end of a request.
type ending struct {
	Event, Handle, Code, Topic string
	At                         int64
}

// endings are what the audit topic tells of requests, but for what they were before, and those of which it tells that they were retried.
func (c *claimant) endings(audit []*kgo.Record) (ends map[topics.Place]ending, retried map[topics.Place]bool) {
	ends, retried = map[topics.Place]ending{}, map[topics.Place]bool{}
	for _, r := range audit {
		var e ending
		if err := json.Unmarshal(r.Value, &e); err != nil {
			c.t.Fatal(err)
		}
		h, ok := topics.ParseHandle([]byte(e.Handle))
		switch {
		case e.Topic != c.route.Topic:
		case e.Event == "retried":
			retried[topics.Place{Partition: h.Partition, Offset: h.Offset}] = true
		case !ok, e.Event == "accepted", e.Event == "forwarded", e.Event == "unknown", e.Event == "not_here", e.Event == "too_late" && e.Code == "":
		default:
			ends[topics.Place{Partition: h.Partition, Offset: h.Offset}] = e
		}
	}
	return ends, retried
}

// judge holds what was told against what has become of it.
func (c *claimant) judge(audit []*kgo.Record) {
	ends, retried := c.endings(audit)
	told := map[string]int{}
	faults, saidRetried := 0, 0
	for _, cl := range c.all {
		end := ends[cl.place]
		if !cl.whole {
			told["not whole"]++
			continue
		}
		told[fmt.Sprintf("%d: %s", cl.State, end.Event)]++
		fault := cl.refuted(end)
		// Of a copy, and of a retry, the audit topic tells what became of its request.
		if _, asked := c.asked[fmt.Sprintf("%d-%d", cl.place.Partition, cl.place.Offset)]; asked {
			again := cl.State == ahead.IsCarriedOn
			switch {
			case end.Event == "":
				fault = "what has no end"
			case again && !retried[cl.place]:
				fault = "retried"
			case again:
				saidRetried++
			}
		}
		if fault != "" {
			if faults++; faults < 10 {
				c.t.Errorf("by its %s %v is said to be %s: %+v, read up to %d, asked from %d to %d, and in the end %+v", cl.how, cl.place, fault, cl.Fate, cl.offset, cl.began.UnixMilli(), cl.ended.UnixMilli(), end)
			}
		}
	}
	c.t.Logf("%d claims, %d of them wrong: %v", len(c.all), faults, told)
	c.judgeLists(ends, retried)
	if c.kind == "has a target in trouble" && (len(retried) == 0 || saidRetried == 0) {
		c.t.Errorf("%d were retried, and of %d of all that was asked for it was said", len(retried), saidRetried)
	}
}

// judgeLists holds what was listed against what has become of all that was asked for: what has ended is not listed, and what was delivered later is, unless
// no replica had read it, and what had its id waited still.
func (c *claimant) judgeLists(ends map[topics.Place]ending, retried map[topics.Place]bool) {
	c.t.Helper()
	type request struct {
		topics.Place
		id string
	}
	var asked []request
	for text, a := range c.asked {
		var at topics.Place
		if _, err := fmt.Sscanf(text, "%d-%d", &at.Partition, &at.Offset); err != nil {
			c.t.Fatal(err)
		}
		if !a.cancels {
			asked = append(asked, request{at, a.id})
		}
	}
	faults, listed, due, open := 0, 0, 0, 0
	for _, l := range c.lists {
		held := map[string]int64{} // by id: the first one that waits
		for _, at := range asked {
			if first, has := held[at.id]; at.Partition == l.partition && at.id != "" && l.waits[at.Offset] && (!has || at.Offset < first) {
				held[at.id] = at.Offset
			}
		}
		for _, at := range asked {
			if at.Partition != l.partition || at.Offset >= l.readTo {
				continue
			}
			end, is := ends[at.Place], l.waits[at.Offset]
			first, has := held[at.id]
			mayBeDuplicate := at.Offset >= l.offset && has && first < at.Offset
			fault := ""
			switch {
			case is && end.At < l.began.Add(-slack).UnixMilli():
				fault = "listed"
			case !is && end.Event == "delivered" && end.At > l.ended.Add(slack).UnixMilli() && !retried[at.Place]: // of a retry what stands for it is listed
				if mayBeDuplicate {
					open++
					break
				}
				fault = "not listed"
			case is:
				listed++
			case end.Event == "delivered":
				due++
			}
			if fault != "" {
				if faults++; faults < 10 {
					c.t.Errorf("%v is %s, read up to %d, asked from %d to %d, and in the end %+v", at, fault, l.offset, l.began.UnixMilli(), l.ended.UnixMilli(), end)
				}
			}
		}
	}
	c.t.Logf("%d lists of %d records that waited, and had been delivered were %d; of %d it was not known whether they are duplicates; %d faults", len(c.lists), listed, due, open, faults)
	if len(c.lists) < 10 || listed < 100 {
		c.t.Error("too little was listed")
	}
}

// slack is what is not judged: replicas go on while something is asked.
const slack = 3 * time.Second

// refuted says what was wrongly said of a record. Replicas go on meanwhile, so what is about to happen is not judged.
func (cl *claim) refuted(end ending) string {
	want := map[ahead.State]string{ahead.IsCancelled: "cancelled", ahead.IsReplaced: "replaced"}[cl.State]
	decided := cl.By < cl.offset || cl.Due > cl.ended.Add(slack).UnixMilli()
	switch {
	case cl.State == ahead.IsPending && (end.Event != "" && end.At < cl.began.Add(-slack).UnixMilli() || end.Event == "duplicate" && cl.Read):
		return "pending"
	case want != "" && !cl.Guess && decided && end.Event != want:
		return want
	case cl.State == ahead.IsDeadLettered && cl.Read && end.Event == "delivered":
		return "dead-lettered"
	case cl.State == ahead.IsResolved && cl.Taken && end.Event == "delivered":
		return "taken away"
	case cl.State == ahead.IsResolved && !cl.Taken && cl.By == 0 && (end.Event == "cancelled" || end.Event == "replaced"):
		return "delivered, or dead-lettered"
	case cl.State == ahead.IsResolved && end.At > cl.ended.Add(slack).UnixMilli():
		return "resolved"
	}
	return ""
}

// get asks the command for some requests of each end, also of such that have left the log: it says what the audit topic has told last.
func (c *claimant) get(told []*kgo.Record, audit string) {
	ends, _ := c.endings(told)
	asked := map[string]int{}
	for _, e := range ends {
		if asked[e.Event] == 2 {
			continue
		}
		asked[e.Event]++
		cmd := exec.CommandContext(c.t.Context(), buildBinary(c.t), "get", e.Handle, "-b", strings.Join(c.cluster.Addrs(), ","), "-g", c.name, "-t", c.route.Topic, "--audit", audit, "--patience", "20s", "-o", "json")
		var notes strings.Builder
		cmd.Stderr = &notes
		out, err := cmd.Output()
		var got struct {
			State, Handle string
			Audit         []ending
		}
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		last := ending{}
		if n := len(got.Audit); n > 0 {
			last = got.Audit[n-1]
		}
		if err != nil || got.State != e.Event || got.Handle != e.Handle || last.Event != e.Event || last.At != e.At {
			c.t.Errorf("%+v: get says %s, %v: %s", e, out, err, notes.String())
		}
	}
	c.t.Logf("asked by handle: %v", asked)
}
