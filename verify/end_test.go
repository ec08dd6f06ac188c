package verify

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/bench/check"
)

// commit writes a record in a transaction, in whose marker its log ends.
func (s *fakeGroup) commit(r *kgo.Record) *kgo.Record {
	s.Helper()
	return s.transact(r, kgo.TryCommit)
}

// A log mostly ends in the marker of a transaction: what is judged once all of it has been read is judged then.
func TestLogThatEndsInAMarker(t *testing.T) {
	ask := func(s *fakeGroup, due float64) *kgo.Record {
		return &kgo.Record{Topic: "delays", Key: []byte("k"), Value: []byte("v"), Timestamp: s.at(0), Headers: headers("delay-until="+millis(s.at(due)), "delay-target-topic=orders")}
	}
	for name, tt := range map[string]struct {
		act  func(s *fakeGroup)
		want map[string]int64
		says string
	}{
		"what was aborted is delivered": {func(s *fakeGroup) {
			s.write(s.delivered(s.abort(ask(s, 10)), 10))
		}, map[string]int64{"stray": 1}, "no committed request is there"},
		"it says that it was tried, and nothing in the log does": {func(s *fakeGroup) {
			r := s.delivered(s.commit(ask(s, 10)), 10)
			r.Headers = append(r.Headers, headers("delay-tries=1")...)
			s.write(r)
		}, map[string]int64{"altered": 1}, "delay-tries says 1, and its last retry record 0"},
		"it came to a retry route at a time that is not known, and was not put off": {func(s *fakeGroup) {
			s.config.Routes[0] = check.Route{Topic: "delays", Allow: []string{"orders"}, Target: "orders", Retry: &check.Retry{Initial: 10 * time.Minute, Max: 10 * time.Minute, Factor: 1, MaxAttempts: 8}}
			r := s.delivered(s.commit(&kgo.Record{Topic: "delays", Key: []byte("k"), Value: []byte("v"), Timestamp: s.at(0)}), 1)
			r.Headers = append(r.Headers, headers("delay-attempt=1")...)
			s.write(r)
		}, map[string]int64{"early": 1}, "came at a time that is not known"},
		"it comes twice, beside a route that says nothing": {func(s *fakeGroup) {
			s.config.Routes[1] = check.Route{Topic: "reminders", Allow: []string{"orders"}, Prefix: "x-wheel-", Emit: "none"}
			s.commit(&kgo.Record{Topic: "reminders", Timestamp: s.at(0), Headers: headers("x-wheel-until="+millis(s.at(300)), "x-wheel-target-topic=orders")})
			first := s.write(s.delivered(s.ask(0, 10), 10))
			again := *first
			s.write(&again)
		}, map[string]int64{"doubled": 1}, "seen 2 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			tt.act(s)
			s.resolveAll(30)
			v := s.verifier()
			for range 2 {
				s.expect(s.pass(v), tt.want, tt.says)
			}
		})
	}
}

// What cannot be read is not taken for what a log does not have.
func TestUnreadableIsNotPassedOver(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.CorruptMessage, kerr.UnknownServerError} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.ask(0, 10)
			s.resolveAll(30)
			var over atomic.Bool
			var refusals atomic.Int64
			id := s.fake.TopicInfo("delays").TopicID
			s.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				s.fake.KeepControl()
				r := req.(*kmsg.FetchRequest)
				resp := r.ResponseKind().(*kmsg.FetchResponse)
				for _, asked := range r.Topics {
					if over.Load() || asked.Topic != "delays" && asked.TopicID != id {
						continue
					}
					refusals.Add(1)
					refused := kmsg.NewFetchResponseTopic()
					refused.Topic, refused.TopicID = asked.Topic, asked.TopicID
					for _, p := range asked.Partitions {
						answer := kmsg.NewFetchResponseTopicPartition()
						answer.Partition, answer.ErrorCode = p.Partition, code.Code
						refused.Partitions = append(refused.Partitions, answer)
					}
					resp.Topics = append(resp.Topics, refused)
				}
				return resp, nil, len(resp.Topics) > 0
			})
			v := s.verifier()
			ctx, cancel := context.WithTimeout(t.Context(), 4*quiet)
			defer cancel()
			if r, err := v.Pass(ctx); err == nil {
				t.Errorf("%+v", r.Counts)
			}
			if n := refusals.Load(); n < 5 || n > 100 {
				t.Errorf("it was asked for %d times in 8 s", n)
			}
			over.Store(true)
			s.expect(s.pass(v), map[string]int64{"missing": 1}, "delays/0@0: due")
		})
	}
}

// What a replica trims while it is read has lost nothing.
func TestTrimmedMeanwhile(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 4)
	s.resolve("delays", 0, 4, 5, 4)
	v := s.verifier()
	s.expect(s.pass(v), nil, "4 delivered")
	s.many(5, 4)
	s.resolve("delays", 0, 8, 10, 6)
	s.cut("delays", 0, 6)
	id := s.fake.TopicInfo("delays").TopicID
	var once sync.Once
	s.fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		asks := func(t kmsg.FetchRequestTopic) bool { return t.Topic == "delays" || t.TopicID == id }
		if slices.ContainsFunc(req.(*kmsg.FetchRequest).Topics, asks) {
			once.Do(func() {
				s.fake.SleepControl(func() {
					s.resolve("delays", 0, 8, 11, 8)
					s.cut("delays", 0, 8)
				})
			})
		}
		return nil, nil, false
	})
	s.expect(s.pass(v), nil, "all is well")
}

// What lies behind an open transaction in a delay topic is not known, so it is not said to be well.
func TestRequestsBehindAnOpenTransaction(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 1)
	cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(s.Name()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "delays"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.ask(0, 10) // which no replica reads
	s.resolve("delays", 0, 1, 30, 1)
	s.expect(s.pass(s.verifier()), nil, "\nall is well, as far as it can be told\n")
}

// A transaction that is open in any partition of a target hides what may lie there, and it is said in which.
func TestOpenTransactionInAnyPartition(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 10)
	s.resolveAll(30)
	cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(s.Name()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: 1}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	r := s.pass(s.verifier())
	s.expect(r, nil, "cannot tell of 1: an open transaction keeps records back")
	s.expect(r, nil, "note: orders/1 was read up to offset 0 of 1: an open transaction keeps back the rest")
}

// What was parked where the older part is gone is not called missing.
func TestParkedLettersAreCut(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0] = check.Route{Topic: "delays", Allow: []string{"orders"}, Target: "orders", Retry: &check.Retry{Initial: time.Minute, Max: time.Minute, Factor: 1, MaxAttempts: 1, Parking: "unrelated"}}
	letter := s.condemned(s.request(0, "delay-attempt=1"), "attempts_exhausted")
	letter.Topic = "unrelated"
	s.write(letter)
	s.resolveAll(30)
	s.expect(s.pass(s.verifier()), nil, "1 dead-lettered")
	s.cut("unrelated", 0, letter.Offset+1)
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 1: the older part of a dead letter topic is gone")
}

// What was processed too often lies where the route parks it.
func TestParkedElsewhere(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0] = check.Route{Topic: "delays", Allow: []string{"orders"}, Target: "orders", Retry: &check.Retry{Initial: time.Minute, Max: time.Minute, Factor: 1, MaxAttempts: 1, Parking: "unrelated"}}
	s.write(s.condemned(s.request(0, "delay-attempt=1"), "attempts_exhausted"))
	letter := s.condemned(s.request(0, "delay-attempt=x"), "invalid_attempt")
	letter.Topic = "unrelated"
	s.write(letter)
	s.resolveAll(30)
	r := s.pass(s.verifier())
	s.expect(r, map[string]int64{"altered": 2}, "delays/0@0: dead letter topic delays.dead, not unrelated")
	s.expect(r, map[string]int64{"altered": 2}, "delays/0@1: dead letter topic unrelated, not delays.dead")
}
