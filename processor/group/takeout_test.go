package group

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// takeOut has TakeOut work for a process like that of a member.
func (s *staying) takeOut(ctx context.Context, left map[int]string) {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	TakeOut(ctx, cl, s.group.cfg, left)
}

// isIn reports whether the group has the member.
func (s *staying) isIn() (in bool) {
	s.t.Helper()
	id, _ := s.cl.GroupMetadata()
	var ids []string
	if s.group.cfg.Protocol == Consumer {
		d, err := kadm.NewClient(s.cl).DescribeConsumerGroups(context.Background(), "g")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range d["g"].Members {
			ids = append(ids, m.MemberID)
		}
	} else {
		d, err := kadm.NewClient(s.cl).DescribeGroups(context.Background(), "g")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range d["g"].Members {
			ids = append(ids, m.MemberID)
		}
	}
	return slices.Contains(ids, id)
}

// silent makes a member that says nothing any more, as if its process had been killed. Its session is longer than the test.
func (s *staying) silent() (id string) {
	s.t.Helper()
	id, _ = s.cl.GroupMetadata()
	s.cluster.ControlKey(int16(kmsg.Heartbeat), s.hold(id))
	s.cluster.ControlKey(int16(kmsg.ConsumerGroupHeartbeat), s.hold(id))
	return id
}

// hold leaves what a member says of itself unheard.
func (s *staying) hold(id string) func(kmsg.Request) (kmsg.Response, error, bool) {
	return func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		switch r := req.(type) {
		case *kmsg.HeartbeatRequest:
			if r.MemberID == id {
				resp := r.ResponseKind().(*kmsg.HeartbeatResponse)
				return resp, nil, true
			}
		case *kmsg.ConsumerGroupHeartbeatRequest:
			if r.MemberID == id && r.MemberEpoch > 0 {
				resp := r.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
				resp.MemberEpoch, resp.HeartbeatIntervalMillis, resp.MemberID = r.MemberEpoch, 50, &id
				return resp, nil, true
			}
		}
		return nil, nil, false
	}
}

// A member whose process has ended is taken out of the group, long before its session ends; one of which nothing was noted stays in.
func TestTakeOut(t *testing.T) {
	for _, protocol := range []Protocol{Classic, Consumer} {
		t.Run(string(protocol), func(t *testing.T) {
			var named atomic.Pointer[string]
			s := join(t, func(cfg *Config) {
				cfg.Protocol, cfg.Named = protocol, func(id string) { named.Store(&id) }
			})
			s.next().Done()
			id := s.silent()
			if noted := named.Load(); noted == nil || *noted != id {
				t.Fatalf("noted is %v, want %s", noted, id)
			}
			if protocol == Classic {
				other, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.ConsumerGroup("g"), kgo.ConsumeTopics(testTopic), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.ClientID("me"))
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
			}
			s.takeOut(t.Context(), map[int]string{0: id, 1: "one-that-has-left"})
			if s.isIn() {
				t.Error("the member whose process has ended is in the group")
			}
			began := time.Now()
			s.takeOut(t.Context(), map[int]string{0: id})
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("a group without such members was asked for %v", took)
			}
		})
	}
}

// Members are left alone until this process is in the group: others may have ended, too, and one that becomes empty lets the next member wait.
func TestTakeOutWaitsForThisProcess(t *testing.T) {
	for _, another := range []bool{false, true} {
		s := join(t, nil)
		s.next().Done()
		id := s.silent()
		if another {
			cl, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.ConsumerGroup("g"), kgo.ConsumeTopics(testTopic), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.ClientID("another"))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			defer s.Leave() // for which that one waits
		}
		var asked atomic.Int64
		enough := make(chan struct{})
		s.cluster.ControlKey(int16(kmsg.DescribeGroups), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.cluster.KeepControl()
			if asked.Add(1) == 10 {
				close(enough)
			}
			return nil, nil, false
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			<-enough
			cancel()
		}()
		s.takeOut(ctx, map[int]string{0: id})
		if !s.isIn() {
			t.Errorf("it was taken out; another one was there: %v", another)
		}
	}
}

// Nothing is asked for a process that has left nobody, nor for static members of the classic protocol, whose places this process takes; and what brokers
// refuse for good is not asked for again.
func TestTakeOutAsksOnlyWhatItNeeds(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		left   map[int]string
		want   int64
	}{
		{"none", func(*Config) {}, nil, 0},
		{"static", func(cfg *Config) { cfg.InstanceID = "eu" }, map[int]string{0: "a"}, 0},
		{"not allowed", func(*Config) {}, map[int]string{0: "a"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := join(t, nil)
			s.next().Done()
			var asked atomic.Int64
			s.cluster.ControlKey(int16(kmsg.DescribeGroups), func(req kmsg.Request) (kmsg.Response, error, bool) {
				s.cluster.KeepControl()
				asked.Add(1)
				resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
				g := kmsg.NewDescribeGroupsResponseGroup()
				g.Group, g.ErrorCode = "g", kerr.GroupAuthorizationFailed.Code
				resp.Groups = append(resp.Groups, g)
				return resp, nil, true
			})
			cfg := s.group.cfg
			c.change(&cfg)
			cfg.SessionTimeout = time.Second
			cl, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			TakeOut(t.Context(), cl, cfg, c.left)
			if n := asked.Load(); n != c.want {
				t.Errorf("asked %d times, want %d", n, c.want)
			}
		})
	}
}

// A static member of the consumer protocol is said to be gone for a while, by its instance id, so that its place is free.
func TestTakeOutFreesThePlaceOfAStaticMember(t *testing.T) {
	s := join(t, func(cfg *Config) { cfg.Protocol, cfg.InstanceID = Consumer, "eu" })
	s.next().Done()
	id, _ := s.cl.GroupMetadata()
	var said atomic.Pointer[kmsg.ConsumerGroupHeartbeatRequest]
	s.cluster.ControlKey(int16(kmsg.ConsumerGroupHeartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		if r := req.(*kmsg.ConsumerGroupHeartbeatRequest); r.MemberEpoch < 0 {
			said.Store(r)
		}
		return nil, nil, false
	})
	s.takeOut(t.Context(), map[int]string{0: id})
	if r := said.Load(); r == nil || r.MemberID != id || r.MemberEpoch != -2 || r.InstanceID == nil || *r.InstanceID != "eu-0" {
		t.Errorf("said is %+v", r)
	}
}

// The members of another replica are taken out by their client ids, by either protocol; others stay, and those of a group that has none of it.
func TestTakeOutReplica(t *testing.T) {
	for _, protocol := range []Protocol{Classic, Consumer} {
		t.Run(string(protocol), func(t *testing.T) {
			gone := join(t, func(cfg *Config) { cfg.Protocol, cfg.ClientID = protocol, "gone-0" })
			gone.next().Done()
			gone.silent()
			cl, err := kgo.NewClient(kgo.SeedBrokers(gone.cluster.ListenAddrs()...))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			cfg := gone.group.cfg
			cfg.ClientID = "here-0"
			of := func(clientID string) bool { return clientID == "gone-0" }
			if protocol == Classic {
				short := cfg
				short.SessionTimeout = 100 * time.Millisecond
				if n, err := TakeOutReplica(t.Context(), cl, short, of); n != 0 || err != nil || !gone.isIn() {
					t.Errorf("%d were taken out by one that is not in the group itself: %v", n, err)
				}
			}
			opts := []kgo.Opt{kgo.SeedBrokers(gone.cluster.ListenAddrs()...), kgo.ConsumerGroup("g"), kgo.ConsumeTopics(testTopic), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.ClientID("here-0")}
			in := make(chan struct{})
			if protocol == Consumer {
				opts = append(opts, kgo.ServerSideBalancer(), kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { close(in) }))
			} else {
				close(in) // it is waited for
			}
			here, err := kgo.NewClient(opts...)
			if err != nil {
				t.Fatal(err)
			}
			defer here.Close()
			<-in
			for _, want := range []int{1, 0} {
				if n, err := TakeOutReplica(t.Context(), cl, cfg, of); n != want || err != nil {
					t.Errorf("%d members were taken out, want %d: %v", n, want, err)
				}
			}
			if gone.isIn() {
				t.Error("it is in the group")
			}
		})
	}
}

// While this process is not in the group, and while brokers do not answer, it tries soon at first and then ever less often, so that the coordinator has
// time for those that join.
func TestTakeOutBacksOff(t *testing.T) {
	for name, failure := range map[string]error{"not in": errNotIn, "no answer": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tries, soon := time.Now(), 0, 0
				_, err := insist(t.Context(), &Config{SessionTimeout: 45 * time.Second}, func(context.Context) (int, error) {
					if tries++; time.Since(began) < 200*time.Millisecond {
						soon++
					}
					return 0, failure
				})
				if took := time.Since(began); err != nil || took < 45*time.Second || took > 46*time.Second {
					t.Errorf("it ended after %v with %v", took, err)
				}
				if soon < 10 || tries < 90 || tries > 130 {
					t.Errorf("it tried %d times in 200 ms, and %d times in a session of 45 s", soon, tries)
				}
			})
		})
	}
}

// What brokers refuse for good is an error, and not asked for again.
func TestTakeOutReplicaIsRefused(t *testing.T) {
	s := join(t, nil)
	s.next().Done()
	s.cluster.ControlKey(int16(kmsg.DescribeGroups), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.ErrorCode = "g", kerr.GroupAuthorizationFailed.Code
		resp.Groups = append(resp.Groups, g)
		return resp, nil, true // once
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := TakeOutReplica(t.Context(), cl, s.group.cfg, func(string) bool { return false }); !errors.Is(err, kerr.GroupAuthorizationFailed) {
		t.Errorf("it says %v", err)
	}
}
