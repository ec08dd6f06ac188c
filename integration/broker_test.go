package integration

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
)

// The only broker is killed while everything goes on, twice, and stopped in order once. What was asked for meanwhile arrives when it
// is back.
func TestBrokerKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	c := brokers.Start(t, brokers.Options{Faults: true})
	s := newStage(t, c, setting{targets: 2, seed: newSeed(t)})
	p := s.start(s.replica())
	s.awaitLive(p, 4)
	stop := s.keepLoading(load.Config{Rate: 500})
	broker := c.Node(1)
	for _, fault := range []struct {
		name string
		do   func() error
	}{
		{"killed", func() error { return broker.Kill(t.Context()) }},
		{"killed again", func() error { return broker.Kill(t.Context()) }},
		{"stopped in order", func() error { return broker.Stop(t.Context()) }},
	} {
		s.awaitDelivered(1000)
		began := time.Now()
		if err := fault.do(); err != nil {
			t.Fatal(err)
		}
		if err := broker.Start(t.Context()); err != nil {
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
