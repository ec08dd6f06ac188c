package integration

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/processor"
)

// The last Kafka whose transactions are of the first kind.
func TestOldKafka(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	t.Parallel()
	c := brokers.Start(t, brokers.Options{Version: brokers.Old, Faults: true})
	t.Run("wrong clock", func(t *testing.T) {
		newTenant(t, c, setting{seed: newSeed(t)}).wrongClock(processor.ExactlyOnce, 10*time.Minute)
	})
	// Its KIP-848 is a preview. A processor that is told to use it says so and ends; it does not share partitions out in another way.
	t.Run("consumer protocol", func(t *testing.T) {
		s := newTenant(t, c, setting{seed: newSeed(t)})
		config := s.replica(func(c *replicaConfig) { c.Protocol = processor.ProtocolConsumer })
		p, err := config.processor(s.log)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Run(t.Context())
		if !errors.Is(err, processor.ErrUnsupportedProtocol) || !strings.Contains(err.Error(), "set it to classic") {
			t.Error(err)
		}
		t.Log(err)
	})
	t.Run("static members", func(t *testing.T) {
		s := newTenant(t, c, setting{targets: 2, seed: newSeed(t)})
		static := func(instance string) *running {
			return s.start(s.replica(func(c *replicaConfig) {
				c.InstanceID, c.Lanes, c.SessionTimeout, c.HeartbeatInterval = instance, 1, longSession, 200*time.Millisecond
				c.StateDir = filepath.Join(s.dir, instance)
			}))
		}
		one, two := static("one"), static("two")
		s.awaitLive(one, 2)
		s.awaitLive(two, 2)
		two.stop()
		t.Log(s.leaveGroup("two"))
		s.awaitLive(one, 4)
		s.leaveInVain("group nobody's: there is no such group, or it has no members", "nobody's", "two")
		one.stop()
	})
}
