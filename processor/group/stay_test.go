package group

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a member is told to be reaches its client, and what it is not told does not.
func TestMemberIsAsConfigured(t *testing.T) {
	for _, c := range []struct {
		name, instance string
		protocol       Protocol
		want           any
	}{{"static", "eu", Classic, "eu-3"}, {"not static", "", Classic, nil}, {"of the consumer protocol", "", Consumer, nil}} {
		t.Run(c.name, func(t *testing.T) {
			g := New(Config{
				Client: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Group: "g", Topics: []string{testTopic}, Protocol: c.protocol,
				Balancer: kgo.StickyBalancer, ClientID: "me", InstanceID: c.instance, Number: 3, SessionTimeout: 9 * time.Second,
				HeartbeatInterval: 700 * time.Millisecond, RebalanceTimeout: 11 * time.Second, Until: context.Background(), Log: slog.New(slog.DiscardHandler),
			}, &Standing{})
			s, err := g.Join()
			if err != nil {
				t.Fatal(err)
			}
			for option, want := range map[string][2]any{
				"group":              {s.cl.OptValue(kgo.ConsumerGroup), "g"},
				"session timeout":    {s.cl.OptValue(kgo.SessionTimeout), 9 * time.Second},
				"heartbeat interval": {s.cl.OptValue(kgo.HeartbeatInterval), 700 * time.Millisecond},
				"rebalance timeout":  {s.cl.OptValue(kgo.RebalanceTimeout), 11 * time.Second},
				"client id":          {s.cl.OptValue(kgo.ClientID), "me"},
				"instance id":        {s.cl.OptValues(kgo.InstanceID)[1], c.want != nil},
				"broker's balancer":  {s.cl.OptValue(kgo.ServerSideBalancer), c.protocol == Consumer},
				"commits by itself":  {s.cl.OptValue(kgo.DisableAutoCommit), true},
				"age of metadata":    {s.cl.OptValue(kgo.MetadataMaxAge), 30 * time.Second},
				"pause of metadata":  {s.cl.OptValue(kgo.MetadataMinAge), 100 * time.Millisecond},
			} {
				if want[0] != want[1] {
					t.Errorf("%s is %v, want %v", option, want[0], want[1])
				}
			}
			if (s.instance != nil) != (c.want != nil) || s.instance != nil && *s.instance != c.want {
				t.Errorf("instance id is %v, want %v", s.instance, c.want)
			}
			s.Leave()
			g.Wait()
			<-s.Left()
		})
	}
}

// lines is a log that is written while it is read.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *lines) count(of string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.Buffer.String(), of)
}

// Why the group does not take a member is said once, however often that asks, and once more when it has been in meanwhile.
func TestRefusalIsToldOnce(t *testing.T) {
	var log lines
	s := join(t, func(cfg *Config) {
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		cfg.Client = append(cfg.Client, kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))
	})
	s.next().Done()
	s.cluster.ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil, true
	})
	s.Rebalance()
	for times := 1; times <= 2; times++ {
		for refused := 0; refused < 5 || log.count("not in the group") < times; {
			h := s.next()
			if h.Lost {
				refused++
			}
			h.Done()
		}
		if n := log.count("not in the group"); n != times {
			t.Errorf("told %d times, want %d", n, times)
		}
		s.group.standing.set(true, nil)
	}
}
