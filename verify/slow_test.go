package verify

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hold answers that nothing is there when a topic is fetched, for a while, and has the client wait before it asks again, as a quota does.
func (s *fakeGroup) hold(topic string, over *atomic.Bool) {
	s.holdBut(topic, func(*kmsg.FetchRequest) bool { return over.Load() })
}

// trickle is hold, but for one batch that comes in between, when it has been asked why nothing does.
func (s *fakeGroup) trickle(topic string, ripe, over *atomic.Bool) {
	var came atomic.Bool
	s.holdBut(topic, func(r *kmsg.FetchRequest) bool {
		if over.Load() || !ripe.Load() || came.Swap(true) {
			return over.Load()
		}
		r.MaxBytes = 1
		return true
	})
}

func (s *fakeGroup) holdBut(topic string, lets func(*kmsg.FetchRequest) bool) {
	s.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		r := req.(*kmsg.FetchRequest)
		id := s.fake.TopicInfo(topic).TopicID
		asks := func(t kmsg.FetchRequestTopic) bool { return t.Topic == topic || t.TopicID == id }
		if !slices.ContainsFunc(r.Topics, asks) || lets(r) {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.FetchResponse)
		resp.ThrottleMillis = int32(atOnce.Milliseconds())
		return resp, nil, true
	})
}

// What a quota keeps back, or an answer that takes long, is waited for: it is not taken for what a log does not have.
func TestSlowFetchesAreWaitedFor(t *testing.T) {
	for name, slow := range map[string]func(*fakeGroup, string){
		"by a quota": func(s *fakeGroup, topic string) {
			var over atomic.Bool
			s.hold(topic, &over)
			time.AfterFunc(3*quiet, func() { over.Store(true) })
		},
		"by a quota that lets some through": func(s *fakeGroup, topic string) {
			var ripe, over atomic.Bool
			s.trickle(topic, &ripe, &over)
			time.AfterFunc(2*quiet, func() { ripe.Store(true) })
			time.AfterFunc(6*quiet, func() { over.Store(true) })
		},
		"in answering": func(s *fakeGroup, topic string) {
			var slept atomic.Bool
			s.fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
				s.fake.KeepControl()
				if !slept.Swap(true) {
					s.fake.SleepControl(func() { time.Sleep(3 * quiet) })
				}
				return nil, nil, false
			})
		},
	} {
		for _, topic := range []string{"delays", "orders"} {
			t.Run(name+"/"+topic, func(t *testing.T) {
				t.Parallel()
				s := newFakeGroup(t)
				s.many(0, 3)
				s.resolve("delays", 0, 3, 30, 3)
				v := s.verifier()
				slow(s, topic)
				s.expect(s.pass(v), nil, "all is well")
			})
		}
	}
}

// A broker that is asked for metadata and says nothing does not keep the end.
func TestClosesBesideASilentBroker(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 3)
	v := s.verifier()
	s.pass(v)
	asked, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	once := sync.OnceFunc(func() { close(asked) })
	s.fake.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		once()
		s.fake.SleepControl(func() { <-over })
		return nil, nil, false
	})
	v.requests.cl.ForceMetadataRefresh()
	<-asked
	began := time.Now()
	if v.Close(); time.Since(began) > 8*farewell {
		t.Errorf("it took %v", time.Since(began))
	}
}

// That nothing has come says something when the brokers have answered in earnest what they were asked since, and the leader of a partition was
// reached at all.
func TestAnswered(t *testing.T) {
	const leader, other = 1, 2
	send := func(a *answered, broker int32) {
		a.OnBrokerWrite(kgo.BrokerMetadata{NodeID: broker}, int16(kmsg.Fetch), 1, 0, 0, nil)
	}
	read := func(a *answered, broker int32) {
		a.OnBrokerRead(kgo.BrokerMetadata{NodeID: broker}, int16(kmsg.Fetch), 1, 0, 0, nil)
	}
	full := func(a *answered, broker int32) {
		send(a, broker)
		read(a, broker)
		send(a, broker)
	}
	for name, c := range map[string]struct {
		do   func(*answered)
		want bool
	}{
		"nothing was asked":      {func(*answered) {}, false},
		"all answer":             {func(a *answered) { full(a, leader); full(a, other) }, true},
		"another one answers":    {func(a *answered) { full(a, other) }, false},
		"the leader does not":    {func(a *answered) { send(a, leader); full(a, other) }, false},
		"the other one does not": {func(a *answered) { full(a, leader); send(a, other) }, false},
		"something else is answered": {func(a *answered) {
			send(a, leader)
			a.OnBrokerRead(kgo.BrokerMetadata{NodeID: leader}, int16(kmsg.Metadata), 1, 0, 0, nil)
			send(a, leader)
		}, false},
		"by a quota": {func(a *answered) {
			send(a, leader)
			read(a, leader)
			a.OnBrokerThrottle(kgo.BrokerMetadata{NodeID: leader}, time.Hour, true)
			send(a, leader)
		}, false},
		"long ago": {func(a *answered) {
			full(a, leader)
			a.brokers[leader].asked = time.Now().Add(-time.Hour)
		}, false},
		"from a follower": {func(a *answered) {
			full(a, leader)
			f := a.brokers[leader]
			f.asked, f.sent, f.waits = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour), false
			full(a, other)
		}, true},
	} {
		var a answered
		c.do(&a)
		if got := a.since(time.Now().Add(-time.Minute), leader); got != c.want {
			t.Errorf("%s: all that is there would have come: %v, want %v", name, got, c.want)
		}
	}
}
