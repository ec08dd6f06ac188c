package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

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

// claimant asks what has become of records, and keeps what it was told.
type claimant struct {
	*stage
	id kafka.TopicID

	mu  sync.Mutex
	all []claim
}

// What is told of a record while replicas are killed is what becomes of it, as the audit topic tells in the end: what waits has not come, what was taken
// away by something that a replica has read never comes, and what is resolved was delivered or dead-lettered. A seed draws the route.
func TestFatesWhileReplicasRun(t *testing.T) {
	set := setting{seed: newSeed(t)}
	name, change := routeOfFates(set.seed)
	set.route = func(r *topics.Route) {
		r.CancelsAnswered = true
		change(r)
	}
	if name == "carries" {
		set.delayConfig = map[string]string{"retention.ms": "16000"}
	}
	s := newStage(t, shared(t), set)
	audit := s.name + ".audit"
	s.create(3, nil, audit)
	details, err := s.admin.ListTopics(t.Context(), s.route.Topic)
	if err != nil {
		t.Fatal(err)
	}
	c := &claimant{stage: s, id: kafka.TopicID(details[s.route.Topic].ID)}
	k := s.newKiller(2, func(c *replicaConfig) { c.AuditTopic = audit })
	a := s.newAsker()
	a.ahead = 20 * time.Second
	stop := a.keepAsking(300)
	struck := make(chan struct{})
	var asking sync.WaitGroup
	for i := range uint64(4) {
		asking.Go(func() { c.askUntil(struck, rand.New(rand.NewPCG(s.seed, 3+i))) })
	}
	for k.kills < 4 {
		k.strike()
	}
	close(struck)
	asking.Wait()
	stop()
	eventually(t, func() string {
		if n := c.waiting(); n > 0 {
			return fmt.Sprintf("%d records are pending", n)
		}
		return ""
	})
	k.terminate()
	t.Logf("the route %s; killed %d times, %d of them inside an open transaction", name, k.kills, k.open)
	c.judge(audit)
}

// routeOfFates draws what a route does with ids, due times and old records.
func routeOfFates(seed uint64) (string, func(*topics.Route)) {
	kinds := []struct {
		name   string
		change func(*topics.Route)
	}{
		{"carries", func(*topics.Route) {}},
		{"trims", func(*topics.Route) {}},
		{"is keyed", func(r *topics.Route) { r.Keyed = true }},
		{"remembers", func(r *topics.Route) { r.Remember = 12 * time.Second }},
		{"has a jitter", func(r *topics.Route) { r.Jitter = 3 * time.Second }},
		{"replaces", func(r *topics.Route) { r.OnDuplicate = topics.DuplicateReplaces }},
		{"leaves out duplicates", func(r *topics.Route) { r.OnDuplicate, r.ReplacesLate = topics.DuplicateIgnored, true }},
	}
	kind := kinds[rand.New(rand.NewPCG(seed, 7)).IntN(len(kinds))]
	return kind.name, kind.change
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
	for _, f := range got.Fates() {
		place := topics.Place{Partition: got.TopicPartition.Partition, Offset: f.Offset}
		whole := got.ReadTo >= got.Bounds.Stable && !got.Open && !got.Blind()
		c.all = append(c.all, claim{f, place, how, got.Checkpoint().Offset, whole, began, time.Now()})
	}
	return nil
}

// ending is what the audit topic tells of the end of a request.
type ending struct {
	Event, Handle, Code string
	At                  int64
}

// endings are what the audit topic tells of requests, but for what they were before.
func (c *claimant) endings(audit string) map[topics.Place]ending {
	ends := map[topics.Place]ending{}
	for _, r := range c.visible(audit) {
		var e ending
		if err := json.Unmarshal(r.Value, &e); err != nil {
			c.t.Fatal(err)
		}
		h, ok := topics.ParseHandle([]byte(e.Handle))
		switch {
		case !ok, e.Event == "accepted", e.Event == "forwarded", e.Event == "unknown", e.Event == "not_here", e.Event == "too_late" && e.Code == "":
		default:
			ends[topics.Place{Partition: h.Partition, Offset: h.Offset}] = e
		}
	}
	return ends
}

// judge holds what was told against what has become of it.
func (c *claimant) judge(audit string) {
	ends := c.endings(audit)
	told := map[string]int{}
	faults := 0
	for _, cl := range c.all {
		end := ends[cl.place]
		if !cl.whole {
			told["not whole"]++
			continue
		}
		told[fmt.Sprintf("%d: %s", cl.State, end.Event)]++
		if fault := cl.refuted(end); fault != "" {
			if faults++; faults < 10 {
				c.t.Errorf("by its %s %v is said to be %s: %+v, read up to %d, asked from %d to %d, and in the end %+v", cl.how, cl.place, fault, cl.Fate, cl.offset, cl.began.UnixMilli(), cl.ended.UnixMilli(), end)
			}
		}
	}
	c.t.Logf("%d claims, %d of them wrong: %v", len(c.all), faults, told)
	if len(c.all) < 50 {
		c.t.Error("too little was asked")
	}
}

// refuted says what was wrongly said of a record. Replicas go on meanwhile, so what is about to happen is not judged.
func (cl *claim) refuted(end ending) string {
	const slack = 3 * time.Second
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
