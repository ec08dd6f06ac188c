package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
)

// The only broker is killed while everything goes on, frozen until some turn has been given up or its outcome is unknown, and
// stopped in order. What was asked for meanwhile arrives when it is back. Kafka 4.3 may leave out the markers of a transaction when a
// partition has no leader (KAFKA-20734): they are written again.
func TestBrokerAway(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	t.Parallel()
	for _, version := range []string{brokers.Old, brokers.Latest} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			brokerAway(t, brokers.Start(t, brokers.Options{Version: version, Faults: true}))
		})
	}
}

func brokerAway(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{targets: 2, seed: newSeed(t)})
	p := s.start(s.replica())
	s.awaitLive(p, 4)
	stop := s.keepLoading(load.Config{Rate: 500})
	broker := c.Node(1)
	for _, fault := range []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"killed", func(ctx context.Context) error { return errors.Join(broker.Kill(ctx), broker.Start(ctx)) }},
		{"frozen", func(ctx context.Context) error {
			before := failedTurns(p)
			err := broker.Pause(ctx)
			eventually(t, func() string {
				if failedTurns(p) == before {
					return "no turn has failed"
				}
				return ""
			})
			return errors.Join(err, broker.Resume(ctx))
		}},
		{"stopped in order", broker.Restart},
	} {
		s.awaitDelivered(1000)
		began := time.Now()
		if err := fault.do(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("the broker was %s and is back after %v; %s", fault.name, time.Since(began).Round(time.Millisecond), s.watch.Counts().Summary())
	}
	s.awaitDelivered(1000)
	stop()
	s.arrive()
	t.Logf("turns %v, rebalances %d", p.Stats().Transactions, p.Stats().Rebalances)
	p.stop()
	s.judge()
}

// failedTurns is how many turns of a processor have not happened, or may not have.
func failedTurns(p *running) int64 {
	turns := p.Stats().Transactions
	return turns["aborted"] + turns["unknown"]
}
