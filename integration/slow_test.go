package integration

import (
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/integration/proxy"
)

// Brokers that have much to do, or are on another continent, take longer than a second for the three answers that say where a log begins and ends. A replica
// goes live all the same, delivers, and loses nothing when that has passed.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	s := newTenant(t, shared(t), setting{targets: 2, seed: newSeed(t)})
	way, err := proxy.New(s.cluster.Addrs()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	way.Lag(500 * time.Millisecond)
	p := s.start(s.replica(func(c *replicaConfig) { c.Lanes, c.SessionTimeout, c.Via = 1, 6*time.Second, way.Via() }))
	s.load(load.Config{Records: 3000, Due: []load.Due{{Weight: 1, To: 5 * time.Second}}})
	s.awaitLive(p, 4)
	s.awaitDelivered(1000)
	way.Lag(0)
	s.load(load.Config{Records: 1000, Due: []load.Due{{Weight: 1, To: time.Second}}})
	s.arrive()
	p.stop()
	s.judge()
}
