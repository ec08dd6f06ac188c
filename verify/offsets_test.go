package verify

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// While partitions change their leaders, brokers do not say for a moment where logs begin and end: that is no reason to give up.
func TestLeadersChange(t *testing.T) {
	for _, why := range []*kerr.Error{kerr.OffsetNotAvailable, kerr.NotLeaderForPartition} {
		t.Run(why.Message, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.many(0, 3)
			s.resolve("delays", 0, 3, 60, 3)
			s.config.From, s.config.To = s.at(0), s.at(50) // times are asked for, too
			refused := make(map[int64]int)                 // how often what is asked for was
			s.fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
				s.fake.KeepControl()
				asked := req.(*kmsg.ListOffsetsRequest).Topics
				what := asked[0].Partitions[0].Timestamp
				if refused[what]++; refused[what] > 2 {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
				for _, topic := range asked {
					answer := kmsg.NewListOffsetsResponseTopic()
					answer.Topic = topic.Topic
					for _, p := range topic.Partitions {
						one := kmsg.NewListOffsetsResponseTopicPartition()
						one.Partition, one.ErrorCode = p.Partition, why.Code
						answer.Partitions = append(answer.Partitions, one)
					}
					resp.Topics = append(resp.Topics, answer)
				}
				return resp, nil, true
			})
			r, err := s.verifier().Pass(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s.expect(r, nil, "all is well"); r.Counts.Delivered != 3 || len(r.Blind) > 0 {
				t.Errorf("%+v, %q", r.Counts, r.Blind)
			}
		})
	}
}

// While the broker of a leader is down, and no other one has taken its place yet, it is asked again where logs begin and end.
func TestLeaderIsDown(t *testing.T) {
	asked := 0
	got, err := list(t.Context(), func(context.Context, ...string) (kadm.ListedOffsets, error) {
		if asked++; asked < 3 {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return kadm.ListedOffsets{"delays": {0: {Offset: 7}}}, nil
	}, "delays")
	if err != nil || got[place{"delays", 0}] != 7 {
		t.Errorf("%v, %v", got, err)
	}
}

// A coordinator that has been found once is not asked on and on when its broker is gone, and another one has taken its place.
func TestCoordinatorIsGone(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	first, seeds := fake.CoordinatorFor(group), fake.ListenAddrs()
	gone := seeds[first]
	cl, err := kgo.NewClient(kgo.SeedBrokers(slices.Delete(seeds, int(first), int(first)+1)...), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == gone {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	v := &Verifier{adm: kadm.NewClient(cl), config: Config{Group: group}}
	if _, err := v.adm.FetchOffsets(t.Context(), group); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("the first coordinator is not down: %v", err)
	}
	if err := fake.RemoveNode(first); err != nil {
		t.Fatal(err)
	}
	if _, err := v.fetchOffsets(t.Context()); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		t.Error(err)
	}
}
