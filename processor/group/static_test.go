package group

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// A static member of the consumer protocol says that it is gone for a while, by its instance id, and nothing after that but what its client says in vain. Who is not
// static leaves for good, and in the classic protocol nobody says anything of that kind.
func TestStaticMemberStepsOut(t *testing.T) {
	for _, c := range []struct {
		name, instance string
		protocol       Protocol
		want           bool
	}{{"static", "eu", Consumer, true}, {"not static", "", Consumer, false}, {"static in the classic protocol", "eu", Classic, false}} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			var beats []*kmsg.ConsumerGroupHeartbeatRequest
			s := join(t, func(cfg *Config) { cfg.Protocol, cfg.InstanceID = c.protocol, c.instance })
			s.next().Done()
			s.cluster.ControlKey(int16(kmsg.ConsumerGroupHeartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
				s.cluster.KeepControl()
				mu.Lock()
				defer mu.Unlock()
				beats = append(beats, req.(*kmsg.ConsumerGroupHeartbeatRequest))
				return nil, nil, false
			})
			s.Leave()
			s.returns(s.Left())
			mu.Lock()
			defer mu.Unlock()
			at := slices.IndexFunc(beats, func(b *kmsg.ConsumerGroupHeartbeatRequest) bool { return b.MemberEpoch == -2 && b.InstanceID != nil })
			if (at >= 0) != c.want || c.want && (*beats[at].InstanceID != "eu-0" || beats[at].MemberID == "") {
				t.Fatalf("it says that it is gone for a while: %v; number %d of %d", !c.want, at, len(beats))
			}
			for _, b := range beats[at+1:] {
				if c.want && b.MemberEpoch >= 0 {
					t.Errorf("it takes part again, in epoch %d", b.MemberEpoch)
				}
			}
		})
	}
}

// Only the consumer protocol is asked for, and brokers that do not serve it are an error; those that do not answer are asked until that is of no use any more.
func TestAwaitProtocol(t *testing.T) {
	group := func(p Protocol) *Group {
		return New(Config{Protocol: p, Log: slog.New(slog.DiscardHandler)}, &Standing{})
	}
	if err := group(Classic).AwaitProtocol(t.Context(), nil); err != nil {
		t.Errorf("of the classic protocol: %v", err)
	}
	for _, c := range []struct {
		name   string
		broker []kfake.Opt
		served bool
	}{{"new", nil, true}, {"old", []kfake.Opt{kfake.MaxVersions(kversion.V3_6_0())}, false}} {
		cluster, err := kfake.NewCluster(append(c.broker, kfake.NumBrokers(1))...)
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if err := group(Consumer).AwaitProtocol(t.Context(), cl); (err == nil) != c.served {
			t.Errorf("%s brokers: %v", c.name, err)
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const while = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	if err := group(Consumer).AwaitProtocol(ctx, cl); err != nil || ctx.Err() == nil {
		t.Errorf("of brokers that do not answer: %v, and the time is over: %v", err, ctx.Err())
	}
}
