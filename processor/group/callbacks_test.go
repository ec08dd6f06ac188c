package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// staying is a member of a group on a fake cluster, whose handovers are left to the test.
type staying struct {
	*Stay
	t       *testing.T
	cluster *kfake.Cluster
	group   *Group
	ends    context.CancelFunc // nothing waits for brokers any more
	sent    *sent
}

// sent is how often the member has sent requests, by key.
type sent struct {
	by    [128]atomic.Int64
	beats chan struct{} // has something when a heartbeat was sent
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (s *sent) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	s.by[key].Add(1)
	if kmsg.Key(key) == kmsg.Heartbeat {
		select {
		case s.beats <- struct{}{}:
		default:
		}
	}
}

func join(t *testing.T, change func(*Config)) *staying {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	until, ends := context.WithCancel(context.Background())
	sent := &sent{beats: make(chan struct{}, 1)}
	cfg := Config{
		Client: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...), kgo.WithHooks(sent), kgo.RequestTimeoutOverhead(10 * time.Minute)}, Group: "g", Topics: []string{testTopic}, Protocol: Classic,
		Balancer: kgo.CooperativeStickyBalancer, ClientID: "me", SessionTimeout: 30 * time.Second, HeartbeatInterval: 50 * time.Millisecond,
		RebalanceTimeout: 30 * time.Second, Named: func(string) {}, Until: until, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	g := New(cfg, &Standing{joined: true}) // as the stay before has left it
	s, err := g.Join()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ends(); s.Leave(); g.Wait() })
	return &staying{s, t, c, g, ends, sent}
}

// next is the next handover, which is not done.
func (s *staying) next() Handover {
	s.t.Helper()
	select {
	case h := <-s.group.Handovers():
		slices.SortFunc(h.Assigned, kafka.Compare)
		slices.SortFunc(h.Revoked, kafka.Compare)
		return h
	case <-time.After(20 * time.Second):
		s.t.Fatal("nothing is handed over")
		panic("not reached")
	}
}

// is fails unless a handover says this, and nothing else.
func (s *staying) is(h Handover, want string) {
	s.t.Helper()
	if got := fmt.Sprint("assigned ", h.Assigned, " revoked ", h.Revoked, " lost ", h.Lost, " renamed ", h.Renamed, " from this stay ", h.From == s.Stay); got != want {
		s.t.Fatalf("handed over is %s\nwant %s", got, want)
	}
}

// valid fails unless offsets may be committed in the member's name, or may not.
func (s *staying) valid(want bool) {
	s.t.Helper()
	if m := s.Member(); m.Valid() != want {
		s.t.Errorf("the member is %+v; valid: %v, want %v", m, m.Valid(), want)
	}
}

// in fails unless the member stands so with its group.
func (s *staying) in(want bool) {
	s.t.Helper()
	if joined, err := s.group.standing.Get(); joined != want || err != nil {
		s.t.Errorf("in the group: %v (%v), want %v", joined, err, want)
	}
}

// callback is one of the client's, called like it does.
func (s *staying) callback(option any, ps map[string][]int32) <-chan struct{} {
	returned := make(chan struct{})
	call := s.cl.OptValue(option).(func(context.Context, *kgo.Client, map[string][]int32))
	go func() {
		defer close(returned)
		call(context.Background(), s.cl, ps)
	}()
	return returned
}

func (s *staying) returns(callback <-chan struct{}) {
	s.t.Helper()
	select {
	case <-callback:
	case <-time.After(20 * time.Second):
		s.t.Fatal("the callback does not return")
	}
}

const (
	assigned = "assigned [requests/0 requests/1] revoked [] lost false renamed false from this stay true"
	lost     = "assigned [] revoked [requests/0 requests/1] lost true renamed false from this stay true"
	revoked  = "assigned [] revoked [requests/0 requests/1] lost false renamed false from this stay true"
	renamed  = "assigned [] revoked [] lost false renamed true from this stay true"
)

// A member that its group has thrown out loses its partitions, and gets them back as a new member in the same stay: that is no member that
// was given up, which would have to leave.
func TestThrownOutMemberComesBack(t *testing.T) {
	connect := make(chan struct{})
	s := join(t, func(c *Config) {
		c.Client = append(c.Client, kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			select {
			case <-connect:
				return new(net.Dialer).DialContext(ctx, network, host)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}))
	})
	s.valid(false)
	s.in(false)
	close(connect)
	h := s.next()
	s.is(h, assigned)
	s.valid(true)
	s.in(true)
	first := s.Member()
	if first.Instance != nil {
		t.Errorf("the member says that it is %s, and it is not static", *first.Instance)
	}
	h.Done()

	leave := kmsg.NewPtrLeaveGroupRequest()
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = first.ID
	leave.Group, leave.Members = "g", append(leave.Members, member)
	if resp, err := leave.RequestWith(t.Context(), s.cl); err != nil || resp.ErrorCode != 0 || resp.Members[0].ErrorCode != 0 {
		t.Fatal(resp, err)
	}
	h = s.next()
	s.is(h, lost)
	s.valid(false)
	h.Done()
	h = s.next()
	s.is(h, assigned)
	s.valid(true)
	s.in(true)
	h.Done()
	if now := s.Member(); now.ID == first.ID {
		t.Errorf("the new member has the name of the old one, %s", now.ID)
	}

	done := s.callback(kgo.OnPartitionsRevoked, map[string][]int32{testTopic: {0, 1}})
	h = s.next()
	s.is(h, revoked)
	select {
	case <-done:
		t.Error("the callback has returned before the partitions were let go")
	default:
	}
	h.Done()
	s.returns(done)
}

// A member's client joins, and reads nothing.
func TestMemberReadsNothing(t *testing.T) {
	s := join(t, func(c *Config) { c.InstanceID, c.Number = "eu", 3 })
	h := s.next()
	s.is(h, assigned)
	if m := s.Member(); m.Instance == nil || *m.Instance != "eu-3" {
		t.Errorf("the member is %+v, want the instance eu-3", m)
	}
	h.Done()
	for range 5 {
		select {
		case <-s.sent.beats:
		case <-time.After(20 * time.Second):
			t.Fatal("it sends no heartbeats")
		}
	}
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch, kmsg.OffsetCommit} {
		if n := s.sent.by[key].Load(); n > 0 {
			t.Errorf("the client has sent %s %d times", key.Name(), n)
		}
	}
}

// The group is told that a member leaves. It need not answer: the client is closed when the session has ended, or when nothing may wait for
// brokers any more.
func TestLeavingIsBounded(t *testing.T) {
	for _, name := range []string{"answered", "session", "until"} {
		t.Run(name, func(t *testing.T) {
			s := join(t, nil)
			s.next().Done()
			release, asked := make(chan struct{}), make(chan struct{})
			t.Cleanup(sync.OnceFunc(func() { close(release) }))
			if name != "answered" {
				s.cluster.ControlKey(int16(kmsg.LeaveGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
					close(asked)
					<-release // nor is anything else answered meanwhile
					return nil, nil, false
				})
			}
			if s.g.cfg.SessionTimeout = time.Hour; name == "session" {
				s.g.cfg.SessionTimeout = 100 * time.Millisecond
			}
			s.Leave()
			if name == "until" {
				s.returns(asked)
				select {
				case <-s.Left():
					t.Error("it has left before it was answered")
				default:
				}
				s.ends()
			}
			s.returns(s.Left())
			if name != "answered" {
				return
			}
			cl, err := kgo.NewClient(s.g.cfg.Client...)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			describe := kmsg.NewPtrDescribeGroupsRequest()
			describe.Groups = []string{"g"}
			if resp, err := describe.RequestWith(t.Context(), cl); err != nil || len(resp.Groups) != 1 || len(resp.Groups[0].Members) > 0 {
				t.Errorf("the group is %+v, %v", resp, err)
			}
		})
	}
}

// A member that has its partitions in another name gives up its stay, whatever it is told first.
func TestGivenUpMember(t *testing.T) {
	for name, option := range map[string]any{"assigned": kgo.OnPartitionsAssigned, "revoked": kgo.OnPartitionsRevoked} {
		t.Run(name, func(t *testing.T) {
			s := join(t, nil)
			s.next().Done()
			other := "another"
			s.owner.Store(&other)
			s.valid(false)
			done := s.callback(option, map[string][]int32{testTopic: {0, 1}})
			h := s.next()
			s.is(h, renamed)
			s.valid(false)
			h.Done()
			s.returns(done)
			s.valid(false)
		})
	}
}

// Callbacks of a stay that is over wait for nothing, and say nothing of how the next one stands with the group.
func TestEndedStayWaitsForNothing(t *testing.T) {
	for name, taken := range map[string]bool{"not taken": false, "taken and not done": true} {
		t.Run(name, func(t *testing.T) {
			s := join(t, nil)
			s.next().Done()
			done := s.callback(kgo.OnPartitionsLost, map[string][]int32{testTopic: {0, 1}})
			if taken {
				s.is(s.next(), lost)
			}
			s.Leave()
			s.Leave()
			s.returns(done)
			s.returns(s.Left())
			s.group.standing.set(false, nil) // as a next stay begins
			s.stands(true, nil)
			s.in(false)
			s.group.Wait()
		})
	}
}

// What ends a member's stay is known, until it is in again.
func TestWhyAMemberIsOutside(t *testing.T) {
	s := join(t, nil)
	s.next().Done()
	hooks := reflect.ValueOf(s.cl.OptValue(kgo.WithHooks)).Convert(reflect.TypeFor[[]kgo.Hook]())
	for _, hook := range hooks.Interface().([]kgo.Hook) {
		if m, ok := hook.(kgo.HookGroupManageError); ok {
			m.OnGroupManageError(kerr.GroupMaxSizeReached)
		}
	}
	if joined, err := s.group.standing.Get(); joined || !errors.Is(err, kerr.GroupMaxSizeReached) {
		t.Errorf("in the group: %v (%v)", joined, err)
	}
	done := s.callback(kgo.OnPartitionsAssigned, nil) // there is no partition for it
	s.is(s.next(), "assigned [] revoked [] lost false renamed false from this stay true")
	s.in(true)
	s.Leave()
	s.returns(done)
}
