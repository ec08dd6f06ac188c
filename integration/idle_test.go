package integration

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// Brokers, and what balances load before them, close connections on which nothing has come for a while (connections.max.idle.ms). What is sent on one
// that was closed before has not been carried out: no turn becomes unknown, and no replica leaves its group to be sure.
func TestIdleConnectionsAreClosed(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	t.Parallel()
	c := brokers.Start(t, brokers.Options{Config: map[string]string{"connections.max.idle.ms": "700"}})
	for _, g := range []processor.Guarantee{processor.ExactlyOnce, processor.AtLeastOnce} {
		t.Run(string(g), func(t *testing.T) {
			s := newTenant(t, c, setting{targets: 1, seed: newSeed(t)})
			p := s.start(s.replica(func(c *replicaConfig) { c.Guarantee, c.Lanes = g, 1 })) // a lane that joins later is a rebalance
			s.awaitLive(p, 4)
			before := p.Stats().Rebalances
			for range 8 {
				time.Sleep(1300 * time.Millisecond) // longer than brokers keep a connection on which nothing comes
				s.load(load.Config{Records: 3, Due: []load.Due{{Weight: 1, To: 100 * time.Millisecond}}})
				s.arrive()
			}
			st := p.Stats()
			t.Logf("turns %v", st.Transactions)
			if n := st.Transactions["unknown"]; n > 0 || st.Rebalances != before {
				t.Errorf("%d turns of unknown outcome, %d rebalances", n, st.Rebalances-before)
			}
			p.stop()
			s.judge()
		})
	}
}
