package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/bench/child"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/topics"
)

const (
	kills     = 20 // at least
	openKills = 10 // at least so many of them inside a transaction
	mostKills = 40
)

// Two replicas are killed again and again, one or both, at random moments while they deliver, and started again with their stores or
// without. Now and then one is frozen instead, until the other has taken over, and then goes on as if nothing had happened. Meanwhile
// the delay topic gets more partitions. What a dead replica has left open is ended by the replica that takes its partitions over: the
// transactions would last for minutes.
func TestKill(t *testing.T) {
	s := newTenant(t, shared(t), setting{partitions: 6, targets: 3, seed: newSeed(t), route: emitAll})
	k := s.newKiller(2)
	stop := s.keepLoading(load.Config{Rate: 1500})
	for k.kills < kills || k.open < openKills && k.kills < mostKills {
		k.strike()
		if k.kills/8 > k.frozen {
			if k.frozen == 0 {
				s.addPartitions(2)
			}
			k.freeze()
		}
	}
	stop()
	if s.end(6) == 0 {
		t.Error("nothing was written to the partitions that were added")
	}
	s.arrive()
	k.terminate()
	report := s.judge()
	t.Logf("killed %d times, %d of them inside an open transaction; frozen and woken %d times, %d of them inside an open transaction; %d requests",
		k.kills, k.open, k.frozen, k.openFrozen, report.Requested)
	k.floor(openKills)
}

// floor fails unless so many kills have hit an open transaction: without them a test of what they leave behind says nothing.
func (k *killer) floor(open int) {
	k.t.Helper()
	if k.open < open {
		k.t.Errorf("only %d of %d kills hit an open transaction, and %d are wanted", k.open, k.kills, open)
	}
}

// Replicas of a route with a fixed delay are killed.
func TestKillFixedDelay(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{seed: newSeed(t), route: func(r *topics.Route) {
		r.Delay, r.Allow, r.Target = 1500*time.Millisecond, nil, r.Topic+".target-0"
	}})
	k := s.newKiller(2)
	stop := s.keepLoading(load.Config{Rate: 1000, Plain: true})
	for k.kills < 4 || k.open == 0 && k.kills < mostKills {
		k.strike()
	}
	stop()
	s.arrive()
	k.terminate()
	report := s.judge()
	t.Logf("killed %d times, %d of them inside an open transaction; %d requests", k.kills, k.open, report.Requested)
	k.floor(1)
}

// killer runs replicas of one group and kills them.
type killer struct {
	*tenant
	random   *rand.Rand
	replicas []*child.Process
	change   func(*replicaConfig)

	kills, open        int // how many, and how many of these inside an open transaction
	frozen, openFrozen int
}

func (s *tenant) newKiller(replicas int, change ...func(*replicaConfig)) *killer {
	k := &killer{tenant: s, random: rand.New(rand.NewPCG(s.seed, 1))}
	k.change = func(c *replicaConfig) {
		for _, f := range change {
			f(c)
		}
	}
	for i := range replicas {
		k.replicas = append(k.replicas, nil)
		k.start(i)
	}
	return k
}

func (k *killer) start(i int) {
	k.replicas[i] = k.spawn(k.replica(func(c *replicaConfig) {
		c.Lanes, c.StateDir = 1, filepath.Join(k.dir, fmt.Sprint(i))
		k.change(c)
	}))
}

// strike kills one replica, or now and then all at once, and starts them again.
func (k *killer) strike() {
	victims := []int{k.random.IntN(len(k.replicas))}
	if k.random.IntN(6) == 0 {
		victims = k.random.Perm(len(k.replicas))
	}
	for _, i := range victims {
		k.awaitDelivery(k.replicas[i])
	}
	passes(k.t, time.Duration(k.random.IntN(800))*time.Millisecond)
	for _, i := range victims {
		k.replicas[i].Kill()
	}
	for _, i := range victims {
		k.kills++
		states := map[string]int{}
		if k.replicas[i].Order.Guarantee != processor.AtLeastOnce {
			states = k.transactions(k.replicas[i])
		}
		if states["Ongoing"] > 0 {
			k.open++
		}
		without := k.random.IntN(3) == 0
		k.t.Logf("kill %d: replica %d of %v, transactions %v, store deleted=%v; %s", k.kills, i, victims, states, without, k.watch.Counts().Summary())
		if without {
			if err := os.RemoveAll(k.replicas[i].Order.StateDir); err != nil {
				k.t.Fatal(err)
			}
		}
		k.start(i)
	}
}

// freeze stops a replica in its tracks until the others have taken over what it had, and lets it go on.
func (k *killer) freeze() {
	i := k.random.IntN(len(k.replicas))
	k.awaitDelivery(k.replicas[i])
	k.awaitMembers(len(k.replicas))
	passes(k.t, time.Duration(k.random.IntN(300))*time.Millisecond)
	if err := k.replicas[i].Freeze(); err != nil {
		k.t.Fatal(err)
	}
	k.frozen++
	states := k.transactions(k.replicas[i])
	if states["Ongoing"] > 0 {
		k.openFrozen++
	}
	k.awaitMembers(len(k.replicas) - 1)
	k.awaitDelivered(1000)
	if err := k.replicas[i].Thaw(); err != nil {
		k.t.Fatal(err)
	}
	k.awaitMembers(len(k.replicas))
	k.t.Logf("freeze %d: replica %d, transactions %v; %s", k.frozen, i, states, k.watch.Counts().Summary())
}

// awaitMembers waits until the group is stable with so many members.
func (k *killer) awaitMembers(n int) {
	k.t.Helper()
	eventually(k.t, func() string {
		groups, err := k.admin.DescribeGroups(k.t.Context(), k.name)
		if err != nil {
			return err.Error()
		}
		if g := groups[k.name]; g.State != "Stable" || len(g.Members) != n {
			return fmt.Sprintf("group with %d members, not %d, is %s", len(g.Members), n, g.State)
		}
		return ""
	})
}

// terminate stops the replicas in order, which leaves nothing open.
func (k *killer) terminate() {
	for _, r := range k.replicas {
		k.tenant.terminate(r)
		if r.Order.Guarantee == processor.AtLeastOnce {
			continue
		}
		if states := k.transactions(r); states["Ongoing"] > 0 {
			k.t.Errorf("replica %s ended in order with transactions %v", r.Name(), states)
		}
	}
}

// end is where a partition of the delay topic ends.
func (s *tenant) end(partition int32) int64 {
	s.t.Helper()
	ends, err := s.admin.ListEndOffsets(s.t.Context(), s.route.Topic)
	if err != nil {
		s.t.Fatal(err)
	}
	end, _ := ends.Lookup(s.route.Topic, partition)
	return end.Offset
}

// passes lets some time go by: what is chosen at random is the moment.
func passes(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// transactions counts the transactional ids of a replica by the state that their transactions are in.
func (s *tenant) transactions(p *child.Process) map[string]int {
	s.t.Helper()
	ids := transactionalIDs(p)
	var states map[string]int
	eventually(s.t, func() string { // coordinators may be on the move
		var err error
		if states, err = s.describe(ids); err != nil {
			return fmt.Sprintf("describe transactions: %v", err)
		}
		return ""
	})
	return states
}

func transactionalIDs(p *child.Process) (ids []string) {
	for lane := range p.Order.Lanes {
		for _, n := range []int{0, 1} {
			ids = append(ids, fmt.Sprintf("%s-%d@%s-%d", p.Order.Group, lane, p.Name(), n))
		}
	}
	return ids
}

// describe asks once.
func (s *tenant) describe(ids []string) (states map[string]int, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Second)
	defer cancel()
	described, err := s.admin.DescribeTransactions(ctx, ids...)
	if err != nil {
		return nil, err
	}
	states = make(map[string]int)
	for _, d := range described {
		if d.Err != nil && !errors.Is(d.Err, kerr.TransactionalIDNotFound) {
			return nil, fmt.Errorf("transaction %s: %w", d.TxnID, d.Err)
		}
		states[d.State]++
	}
	return states, nil
}

// keepLoading writes requests at a rate until it is told to stop, which waits for what was begun. Some of the producers use
// transactions.
func (s *tenant) keepLoading(c load.Config) (stop func()) {
	c.Records = cmp.Or(c.Records, int(c.Rate))
	c.Bad, c.Transactional, c.Batch, c.Abort = 0.01, 1, 20, 0.2
	if c.Due == nil {
		c.Due = []load.Due{
			{Weight: 1, From: -time.Minute},
			{Weight: 2, To: 2 * time.Second},
			{Weight: 1, From: 3 * time.Second, To: 8 * time.Second},
		}
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if _, err := load.Run(s.t.Context(), s.loadConfig(c), s.opts()...); err != nil {
				if s.t.Context().Err() == nil {
					s.t.Errorf("load: %v", err) // at once: what waits for what it should write waits in vain
				}
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
