package targets

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// described is a broker that tells of topics what it is told to.
func described(t *testing.T, change func(*kmsg.MetadataResponseTopic), configs map[string]string, code int16) *kgo.Client {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		if len(req.Topics) == 0 {
			return nil, nil, false
		}
		if !req.IncludeTopicAuthorizedOperations {
			t.Error("it is not asked what may be done")
		}
		resp, topic, p := kreq.ResponseKind().(*kmsg.MetadataResponse), kmsg.NewMetadataResponseTopic(), kmsg.NewMetadataResponseTopicPartition()
		p.Replicas, p.ISR = []int32{0}, []int32{0}
		topic.Topic, topic.Partitions = req.Topics[0].Topic, append(topic.Partitions, p)
		change(&topic)
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	c.ControlKey(int16(kmsg.DescribeConfigs), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp, r := kreq.ResponseKind().(*kmsg.DescribeConfigsResponse), kmsg.NewDescribeConfigsResponseResource()
		r.ResourceName, r.ResourceType, r.ErrorCode = "t", kmsg.ConfigResourceTypeTopic, code
		for name, value := range configs {
			of := kmsg.NewDescribeConfigsResponseResourceConfig()
			of.Name, of.Value = name, kmsg.StringPtr(value)
			r.Configs = append(r.Configs, of)
		}
		resp.Resources = append(resp.Resources, r)
		return resp, nil, true
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// What a topic says of itself counts, and Kafka's defaults for what it does not; where its settings may not be read, what was known before counts.
func TestDescribeLimits(t *testing.T) {
	for _, test := range []struct {
		name    string
		configs map[string]string
		code    int16
		want    *Limits
	}{
		{"nothing", nil, 0, &defaultLimits},
		{"all", map[string]string{"max.message.bytes": "5000", "min.insync.replicas": "2", "cleanup.policy": "compact,delete", "compression.type": "uncompressed"}, 0,
			&Limits{MaxBytes: 5000, minISR: 2, Compacted: true, Inflates: true}},
		{"what a producer gives", map[string]string{"cleanup.policy": "delete", "compression.type": "producer"}, 0, &defaultLimits},
		{"forbidden", nil, kerr.TopicAuthorizationFailed.Code, nil},
	} {
		cl := described(t, func(*kmsg.MetadataResponseTopic) {}, test.configs, test.code)
		got, is := describeLimits(t.Context(), cl, []string{"t"})["t"]
		if is != (test.want != nil) || is && got != *test.want {
			t.Errorf("%s: %+v, %v", test.name, got, is)
		}
	}
}

// A look takes in what brokers say of a topic, of its partitions, and of what may be done, and passes on how many of them there are.
func TestRefreshSays(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*kmsg.MetadataResponseTopic)
		status Status
		denied Status
		seen   int // partitions; -1: nothing is said of them
	}{
		"it is well":         {func(*kmsg.MetadataResponseTopic) {}, Ready, 0, 1},
		"a partition is not": {func(t *kmsg.MetadataResponseTopic) { t.Partitions[0].ErrorCode = kerr.LeaderNotAvailable.Code }, Troubled, 0, 1},
		"it is missing": {func(t *kmsg.MetadataResponseTopic) {
			t.ErrorCode, t.Partitions = kerr.UnknownTopicOrPartition.Code, nil
		}, Troubled, Missing, 0},
		"it is not told": {func(t *kmsg.MetadataResponseTopic) {
			t.ErrorCode, t.Partitions = kerr.TopicAuthorizationFailed.Code, nil
		}, Troubled, Forbidden, -1},
		"it may be read":    {func(t *kmsg.MetadataResponseTopic) { t.AuthorizedOperations = 1 << kmsg.ACLOperationRead }, Troubled, Forbidden, 1},
		"it may be written": {func(t *kmsg.MetadataResponseTopic) { t.AuthorizedOperations = 1 << kmsg.ACLOperationWrite }, Ready, 0, 1},
	} {
		seen := -1
		ts := New(time.Hour, time.Hour, func(_ string, leaders map[int32]kafka.Leader) { seen = len(leaders) }, slog.New(slog.DiscardHandler))
		ts.Of([]byte("t"))
		ts.refresh(t.Context(), described(t, test.change, nil, 0), ts.All())
		equal(t, name+": partitions that are passed on", seen, test.seen)
		if s := ts.Of([]byte("t")).State.Load(); s.Status != test.status || s.Denied != test.denied {
			t.Errorf("%s: it is %v, denied %v: %s", name, s.Status, s.Denied, s.Why)
		}
	}
}

// What a target has done to a turn decides what it is thought to be: forbidden since the first time of a row, and nothing else for any other reason. It is looked at at once, and what
// it keeps busy is known.
func TestFailedTakesInWhy(t *testing.T) {
	now := time.Unix(1000, 0)
	s := (&State{Status: Ready, lookAt: now.Add(time.Hour)}).failed(kerr.TopicAuthorizationFailed, busy{}, now)
	if s.Denied != Forbidden || !s.deniedSince.Equal(now) || !s.lookAt.Equal(now) || s.keeps == nil {
		t.Errorf("forbidden: %+v", s)
	}
	again := s.failed(kerr.TopicAuthorizationFailed, nil, now.Add(time.Minute))
	if again.Denied != Forbidden || !again.deniedSince.Equal(now) || again.keeps != nil {
		t.Errorf("forbidden again: %+v", again)
	}
	if other := again.failed(errors.New("another"), nil, now.Add(2*time.Minute)); other.Denied != 0 || other.Failures != 3 {
		t.Errorf("for another reason: %+v", other)
	}
}

type busy struct{}

func (busy) Still() bool { return true }

// Only a target on trial has passed; one that is in trouble meanwhile stays there. Nothing is against one that was not looked at.
func TestPassedOnTrialAlone(t *testing.T) {
	for status, want := range map[Status]Status{OnTrial: Ready, Troubled: Troubled, Forbidden: Forbidden} {
		target := &Target{}
		target.State.Store(&State{Status: status, Why: "it was so"})
		target.Passed()
		if got := target.State.Load().Status; got != want {
			t.Errorf("one %v is %v", status, got)
		}
	}
	if why := notLooked.Against(0); why != "" {
		t.Errorf("one that was not looked at: %s", why)
	}
}
