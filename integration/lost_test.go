package integration

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor"
)

// A replica that is killed and does not come back, or that freezes, does not keep what it had until its session has ended: the others notice, and deliver that.
// What comes of a frozen one that wakes up later is delivered once.
func TestLostReplica(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		protocol  processor.Protocol
		guarantee processor.Guarantee
		freezes   bool
		most      time.Duration // until others have it
	}{
		{"killed", processor.ProtocolClassic, processor.ExactlyOnce, false, 5 * time.Second},
		{"killed at least once", processor.ProtocolClassic, processor.AtLeastOnce, false, 5 * time.Second},
		{"killed by the consumer protocol", processor.ProtocolConsumer, processor.ExactlyOnce, false, 5 * time.Second},
		{"frozen", processor.ProtocolClassic, processor.ExactlyOnce, true, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.protocol == processor.ProtocolConsumer && runtime.GOOS != "linux" {
				t.Skip("replicas need an address each, of which only Linux has many")
			}
			s := newTenant(t, shared(t), setting{seed: newSeed(t), check: func(check *check.Config) { check.AllowDoubles = c.guarantee == processor.AtLeastOnce }})
			s.setGroupSession(longSession)
			port, started := freePort(t), 1
			k := s.newKiller(3, func(r *replicaConfig) {
				r.Protocol, r.Guarantee, r.SessionTimeout, r.HeartbeatInterval = c.protocol, c.guarantee, longSession, 500*time.Millisecond
				r.Presence = "127.0.0.1:0"
				if c.protocol == processor.ProtocolConsumer { // where only hosts are known
					started++
					r.From = fmt.Sprintf("127.0.0.%d", started)
					r.Presence = net.JoinHostPort(r.From, port)
				}
			})
			stop := s.keepLoading(load.Config{Rate: 500})
			for _, r := range k.replicas {
				k.awaitDelivery(r)
			}
			eventually(t, func() string {
				if n := s.log.count("another replica is heard"); n < 3*2 {
					return fmt.Sprintf("replicas hear others %d times", n)
				}
				return ""
			})
			told, began := s.events.len(), time.Now()
			if !c.freezes {
				k.replicas[0].Kill()
			} else if err := k.replicas[0].Freeze(); err != nil {
				t.Fatal(err)
			}
			var live []tale
			eventually(t, func() string {
				if live = s.events.from(told, processor.EventLive); len(live) == 0 {
					return "what it had is not live elsewhere"
				}
				return ""
			})
			took := live[0].At.Sub(began)
			t.Logf("what it had is live elsewhere %v after it was lost", took.Round(time.Millisecond))
			if took > c.most {
				t.Errorf("that took more than %v", c.most)
			}
			s.awaitDelivered(300)
			stop()
			s.arrive()
			if c.freezes {
				if err := k.replicas[0].Thaw(); err != nil {
					t.Fatal(err)
				}
				stop := s.keepLoading(load.Config{Rate: 500})
				k.awaitDelivery(k.replicas[0])
				stop()
				s.arrive()
			} else {
				k.replicas = k.replicas[1:]
			}
			k.terminate()
			t.Logf("%d requests", s.judge().Requested)
			switch n := s.log.count("a replica has gone without leaving the group; its members were taken out"); {
			case n == 0:
				t.Error("nobody has taken it out")
			case n > 2: // those that watch it; and the one that was frozen takes nobody out when it wakes up
				t.Errorf("replicas were taken out %d times", n)
			}
		})
	}
}

// freePort is a port that nothing listens at.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
