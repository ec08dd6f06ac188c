package processor

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/internal/wiretap"
)

// testCluster is a broker with the delay topic, its dead letter topic and orders, and a lane that
// does not run but can reach it.
func testCluster(t *testing.T, tune ...func(*Config)) (*lane, *wiretap.Tap) {
	t.Helper()
	w := wiretap.New(t, kfake.SeedTopics(4, testTopic), kfake.SeedTopics(1, testTopic+".dead", "orders", "bills"))
	return testLane(t, append(tune, func(cfg *Config) { cfg.Client = []kgo.Opt{kgo.SeedBrokers(w.C.ListenAddrs()...)} })...), w
}
