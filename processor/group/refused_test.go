package group

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// The broker that coordinates is killed while a member of the consumer protocol is given partitions, and others still name it. The client (kgo v1.22.3) begins its
// session anew each time that it was refused a connection, without a pause, and counts that in what it says.
func TestCoordinatorRefusesConnections(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(2, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var gone atomic.Pointer[string] // where connections are refused
	var refused, first atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if at := gone.Load(); at != nil && *at == address {
			if refused.Add(1) == 1 {
				first.Store(time.Now().UnixNano())
			}
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	var log lines
	_, opts, err := kafka.ListenTo([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.Dialer(dial)}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	until, ends := context.WithCancel(context.Background())
	g := New(Config{
		Client: opts, Group: "g", Topics: []string{testTopic}, Protocol: Consumer, ClientID: "me", SessionTimeout: 30 * time.Second, HeartbeatInterval: 50 * time.Millisecond,
		RebalanceTimeout: 30 * time.Second, Named: func(string) {}, Until: until, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}, &Standing{})
	c.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		at := c.ListenAddrs()[c.CoordinatorFor("g")]
		gone.Store(&at)
		return nil, errors.New("killed"), true
	})
	s, err := g.Join()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ends(); s.Leave(); g.Wait() })
	go func() {
		for {
			select {
			case h := <-g.Handovers():
				h.Done()
			case <-until.Done():
				return
			}
		}
	}()
	for began := time.Now(); refused.Load() < 150 || log.count("trying again") == 0; <-time.After(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%d connections are refused, and the log says:\n%s", refused.Load(), log.String())
		}
	}
	n, during := refused.Load(), time.Since(time.Unix(0, first.Load()))
	if most := int64(3*during/(10*time.Millisecond)) + 10; n > most { // it has up to three connections to a broker
		t.Errorf("%d connections were asked for in %v, want %d at most", n, during, most)
	}
	if n := log.count("not in the group"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, log.String())
	}
	if n := log.count("attempts"); n > 0 {
		t.Errorf("the log counts attempts:\n%s", log.String())
	}
}
