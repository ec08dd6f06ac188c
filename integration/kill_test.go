package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

const (
	kills     = 20 // at least
	openKills = 10 // at least so many of them inside a transaction
	mostKills = 40
)

// Two replicas are killed again and again, one or both, at random moments while they deliver, and started again with their stores or
// without. What a dead replica has left open is ended by whoever takes its partitions over: the transactions would last for minutes.
func TestKill(t *testing.T) {
	s := newStage(t, shared(t), setting{partitions: 6, targets: 3, seed: newSeed(t)})
	k := s.newKiller(2)
	stop := s.keepLoading(1500)
	for k.kills < kills || k.open < openKills && k.kills < mostKills {
		k.strike()
	}
	stop()
	s.arrive()
	k.end()
	report := s.judge()
	t.Logf("killed %d times, %d of them inside an open transaction; %d requests", k.kills, k.open, report.Requested)
	if k.open < openKills {
		t.Errorf("only %d of %d kills hit an open transaction", k.open, k.kills)
	}
}

// killer runs replicas of one group and kills them.
type killer struct {
	*stage
	random   *rand.Rand
	replicas []*child
	change   func(*replicaConfig)
	kills    int
	open     int // of these inside an open transaction
}

func (s *stage) newKiller(replicas int, change ...func(*replicaConfig)) *killer {
	k := &killer{stage: s, random: rand.New(rand.NewPCG(s.seed, 1))}
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
		k.replicas[i].awaitDelivery(k.t)
	}
	passes(k.t, time.Duration(k.random.IntN(800))*time.Millisecond)
	for _, i := range victims {
		k.replicas[i].kill()
	}
	for _, i := range victims {
		k.kills++
		states := map[string]int{}
		if k.replicas[i].config.Guarantee != processor.AtLeastOnce {
			states = k.transactions(k.replicas[i].config)
		}
		if states["Ongoing"] > 0 {
			k.open++
		}
		without := k.random.IntN(3) == 0
		k.t.Logf("kill %d: replica %d of %v, transactions %v, store deleted=%v; %s", k.kills, i, victims, states, without, k.watch.Counts().Summary())
		if without {
			if err := os.RemoveAll(k.replicas[i].config.StateDir); err != nil {
				k.t.Fatal(err)
			}
		}
		k.start(i)
	}
}

// end stops the replicas in order.
func (k *killer) end() {
	for _, r := range k.replicas {
		r.terminate(k.t)
	}
}

// passes lets some time go by: what is chosen at random is the moment.
func passes(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// transactions counts the transactional ids of a replica by the state that their transactions are in.
func (s *stage) transactions(c replicaConfig) map[string]int {
	s.t.Helper()
	var ids []string
	for lane := range c.Lanes {
		for _, n := range []int{0, 1} {
			ids = append(ids, fmt.Sprintf("%s-%s-%d-%d", c.Group, c.Instance, lane, n))
		}
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	described, err := s.admin.DescribeTransactions(ctx, ids...)
	if err != nil {
		s.t.Fatalf("describe transactions: %v", err)
	}
	states := make(map[string]int)
	for _, d := range described {
		if d.Err != nil {
			s.t.Errorf("describe transaction %s: %v", d.TxnID, d.Err)
		}
		states[d.State]++
	}
	return states
}

// keepLoading writes requests at a rate until it is told to stop, which waits for what was begun. Some of the producers use
// transactions.
func (s *stage) keepLoading(rate float64) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			c := s.loadConfig(load.Config{
				Records: int(rate), Rate: rate, Bad: 0.01, Transactional: 1, Batch: 20, Abort: 0.2,
				Due: []load.Due{
					{Weight: 1, From: -time.Minute},
					{Weight: 2, To: 2 * time.Second},
					{Weight: 1, From: 3 * time.Second, To: 8 * time.Second},
				},
			})
			if _, err := load.Run(s.t.Context(), c, s.opts()...); err != nil {
				done <- fmt.Errorf("load: %w", err)
				return
			}
		}
		done <- nil
	}()
	return func() {
		s.t.Helper()
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			s.t.Error(err)
		}
	}
}
