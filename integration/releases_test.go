package integration

import (
	"cmp"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// Other releases of Kafka: delivery, a restart, cancels, kill -9, trimming, and what verify finds. DUEWHEEL_TEST_RELEASES names them, separated by commas; without
// it the last one whose transactions are of the first kind is tried.
func TestReleases(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	t.Parallel()
	for _, version := range strings.Split(cmp.Or(os.Getenv("DUEWHEEL_TEST_RELEASES"), brokers.Old), ",") {
		t.Run(version, func(t *testing.T) {
			c := brokers.Start(t, brokers.Options{Version: version})
			t.Run("deliver and restart", func(t *testing.T) { deliverAndRestart(t, c) })
			t.Run("kill", func(t *testing.T) { killAndAsk(t, c, processor.ProtocolClassic) })
			if !strings.HasPrefix(version, "3.") { // where KIP-848 is a preview at most
				t.Run("kill with the consumer protocol", func(t *testing.T) { killAndAsk(t, c, processor.ProtocolConsumer) })
			}
			t.Run("trim", func(t *testing.T) { trim(t, c) })
		})
	}
}

func deliverAndRestart(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, limited(setting{targets: 3, seed: newSeed(t)}))
	crowd := load.Config{Records: 5000, Bad: 0.02, LargeBytes: largeBytes, Transactional: 1, Abort: 0.25, Due: []load.Due{
		{Weight: 1, From: -time.Hour, To: -time.Second},
		{Weight: 1, To: 3 * time.Second},
		{Weight: 1, From: 4 * time.Second, To: 6 * time.Second},
	}}
	p := s.start(s.replica())
	s.awaitLive(p, 4)
	s.load(crowd)
	s.awaitDelivered(1000)
	p.stop()
	t.Logf("stopped with %s", s.watch.Counts().Summary())
	p = s.start(s.replica())
	s.load(crowd)
	s.arrive()
	p.stop()
	if report := s.judge(); report.Requested != 10_000 {
		t.Errorf("%d requests seen", report.Requested)
	}
}

func killAndAsk(t *testing.T, c *brokers.Cluster, protocol processor.Protocol) {
	s := newTenant(t, c, answersCancels(setting{partitions: 6, targets: 2, seed: newSeed(t)}))
	k := s.newKiller(2, func(c *replicaConfig) { c.Protocol = protocol })
	loaded, asked := s.keepLoading(load.Config{Rate: 1000}), s.newAsker().keepAsking(100)
	for k.kills < 5 || k.open < 2 && k.kills < mostKills {
		k.strike()
	}
	loaded()
	asked()
	s.arrive()
	k.terminate()
	report := s.judge()
	t.Logf("killed %d times, %d of them inside an open transaction; %d requests, %d cancels", k.kills, k.open, report.Requested, report.Cancels)
	k.floor(2)
	found := s.pass(s.verifier())
	if expectFaults(t, found, nil); found.Counts.Delivered != report.Delivered || found.Counts.Cancels == 0 {
		t.Errorf("%d were delivered, and verify says %+v", report.Delivered, found.Counts)
	}
}
