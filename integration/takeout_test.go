package integration

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// A replica that is killed and started again with its state directory delivers at once, and does not wait until the session of the one that was killed has ended:
// whether another replica runs or not, by either protocol, and as a static member. What it had in hand is delivered once.
func TestKilledReplicaComesBackAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		protocol processor.Protocol
		replicas int
		kills    int
		static   bool
	}{
		{"alone", processor.ProtocolClassic, 1, 1, false},
		{"beside another one", processor.ProtocolClassic, 2, 2, false},
		{"static", processor.ProtocolClassic, 2, 1, true},
		{"alone by the consumer protocol", processor.ProtocolConsumer, 1, 1, false},
		{"beside another one by the consumer protocol", processor.ProtocolConsumer, 2, 1, false},
		{"static by the consumer protocol", processor.ProtocolConsumer, 2, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newTenant(t, shared(t), setting{seed: newSeed(t)})
			s.setGroupSession(longSession)
			k := s.newKiller(c.replicas, func(r *replicaConfig) {
				r.Protocol, r.SessionTimeout, r.HeartbeatInterval = c.protocol, longSession, 200*time.Millisecond
				if c.static {
					r.InstanceID = filepath.Base(r.StateDir)
				}
			})
			stop := s.keepLoading(load.Config{Rate: 500})
			for range c.kills {
				for _, r := range k.replicas {
					k.awaitDelivery(r)
				}
				s.awaitDelivered(300)
				k.replicas[0].Kill()
				began := time.Now()
				k.start(0)
				k.awaitDelivery(k.replicas[0])
				took := time.Since(began)
				s.awaitDelivered(300)
				t.Logf("it delivers again %v after it was killed; transactions %v", took.Round(time.Millisecond), k.transactions(k.replicas[0]))
				if took > longSession/3 {
					t.Errorf("that was not at once")
				}
			}
			stop()
			began := time.Now()
			s.arrive()
			if took := time.Since(began); took > longSession/3 {
				t.Errorf("the last ones came after %v", took)
			}
			k.terminate()
			t.Logf("%d requests", s.judge().Requested)
			if c.static && c.protocol == processor.ProtocolClassic {
				return // it takes its own place
			}
			if n := s.log.count("its members were taken out"); n != c.kills {
				t.Errorf("members were taken out %d times", n)
			}
		})
	}
}
