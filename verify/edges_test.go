package verify

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/bench/check"
)

// open writes a record in a transaction that stays open.
func (s *fakeGroup) open(r *kgo.Record) {
	s.Helper()
	cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("open in "+s.Name()))
	if err := cl.BeginTransaction(); err != nil {
		s.Fatal(err)
	}
	if err := cl.ProduceSync(s.Context(), r).FirstErr(); err != nil {
		s.Fatal(err)
	}
}

// A log that has lost its end is told of, also where a transaction is open, and where the first of what is gone was.
func TestEndIsCutBesideAnOpenTransaction(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 3)
	s.open(&kgo.Record{Topic: "delays"})
	s.resolve("delays", 0, 100, 30, 90)
	s.expect(s.pass(s.verifier()), map[string]int64{"cut": 1}, "delays/0@4: the log ends at 4, and the group has read up to 100: the cluster has lost records")
	s.cut("delays", 0, 3)
	s.resolve("delays", 0, 3, 30, 2)
	s.expect(s.pass(s.verifier()), map[string]int64{"cut": 1}, "delays/0@2: the log begins at 3, and what is pending began at 2")
}

// What has been due for as long as Config.Grace is overdue, and what has been due for a millisecond less is pending.
func TestGraceIsOver(t *testing.T) {
	s := newFakeGroup(t)
	due := s.began.Add(30 * time.Minute)
	s.ask(0, 30)
	s.resolve("delays", 0, 1, 0, 0)
	for name, tt := range map[string]struct {
		now  time.Time
		want map[string]int64
	}{
		"as long":  {due.Add(time.Minute), map[string]int64{"overdue": 1}},
		"not that": {due.Add(time.Minute - time.Millisecond), nil},
	} {
		s.config.Now = func() time.Time { return tt.now }
		r := s.pass(s.verifier())
		if s.expect(r, tt.want, "1 requested"); r.Counts.Pending+r.Counts.Overdue != 1 {
			t.Errorf("%s: %+v", name, r.Counts)
		}
	}
}

// A record of a retry route that says when its request is due is no trouble; one that a target did not take is.
func TestPutOffIsNotTriedAgain(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0] = check.Route{Topic: "delays", Target: "orders", Retry: &check.Retry{Initial: time.Minute, Max: time.Minute, Factor: 1, MaxAttempts: 3, Behind: time.Hour}}
	q := s.request(0, "trace=1")
	s.tryAgain(q, 1, 2, 0, 2)
	r := s.delivered(q, 2)
	r.Headers = append(r.Headers, headers("delay-attempt=1")...)
	s.write(r)
	s.resolveAll(30)
	if r := s.pass(s.verifier()); r.Counts.Retried != 0 || !r.Well() {
		t.Errorf("put off: %+v, %v", r.Counts, r.Faults)
	}
	q = s.request(3, "trace=1")
	s.tryAgain(q, 4, 5, 0, 5)
	s.tryAgain(q, 5, 5, 1, 6)
	r = s.delivered(q, 5)
	r.Timestamp = s.at(6)
	r.Headers = append(r.Headers, headers("delay-attempt=1", "delay-tries=1")...)
	s.write(r)
	s.resolveAll(30)
	if r := s.pass(s.verifier()); r.Counts.Retried != 1 || !r.Well() {
		t.Errorf("tried again: %+v, %v", r.Counts, r.Faults)
	}
}

// What an open transaction keeps back of a partition that has nothing else is not said to be nothing.
func TestOpenTransactionInAnEmptyPartition(t *testing.T) {
	s := newFakeGroup(t)
	s.open(&kgo.Record{Topic: "delays", Partition: 1})
	r := s.pass(s.verifier())
	s.expect(r, nil, "note: delays/1 was read up to offset 0 of 1: an open transaction keeps back the rest")
	s.expect(r, nil, "\nall is well, as far as it can be told\n")
}

// What has left the log is early by when it is read, where its route gives another timestamp to what it delivers, and else it is not.
func TestEarlyOfWhatLeftTheLogUntimed(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].Timestamp = "due"
	q := s.ask(0, 10)
	s.ask(1, 200)
	s.cut("delays", 0, 1)
	s.resolve("delays", 0, 2, 30, 1)
	r := s.delivered(q, 10)
	r.Timestamp = s.at(10)
	s.write(r)
	s.expect(s.pass(s.verifier()), nil, "1 arrived of requests outside of the window")
	r = s.delivered(&kgo.Record{Topic: "delays", Offset: 0, Key: []byte("l")}, 300)
	r.Timestamp = s.at(300)
	s.write(r)
	s.expect(s.pass(s.verifier()), map[string]int64{"early": 1, "doubled": 1}, fmt.Sprintf("delays/0@%d: read at", q.Offset))
}

// What says that it is of a partition in which nothing was ever written is a stray.
func TestStrayOfAnEmptyPartition(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(50, 200)
	s.resolve("delays", 0, 1, 0, 0)
	s.write(s.delivered(&kgo.Record{Topic: "delays", Partition: 1, Offset: 3}, 50))
	s.write(s.condemned(&kgo.Record{Topic: "delays", Partition: 1, Offset: 4, Timestamp: s.at(50)}, "no_due"))
	s.expect(s.pass(s.verifier()), map[string]int64{"stray": 2}, "delays/1@3: seen at orders/")
}

// A delay topic that was made anew has the offsets of the former one again: strays come with a note that says so.
func TestStraysOfAFormerTopic(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(50, 200)
	s.resolve("delays", 0, 1, 0, 0)
	if r := s.pass(s.verifier()); slices.Contains(r.Notes, noteOfAnew) {
		t.Errorf("without strays: %q", r.Notes)
	}
	s.write(s.delivered(&kgo.Record{Topic: "delays", Offset: 3}, 50))
	s.expect(s.pass(s.verifier()), map[string]int64{"stray": 1}, noteOfAnew)
}

// A window may begin before 1970: brokers are not asked for times that mean something else to them, or nothing.
func TestFromBefore1970(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 5, 1)
	s.resolve("delays", 0, 5, 60, 5)
	s.fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		for _, topic := range req.(*kmsg.ListOffsetsRequest).Topics {
			for _, p := range topic.Partitions {
				if p.Timestamp < -2 {
					t.Errorf("brokers are asked where %d is", p.Timestamp)
				}
			}
		}
		return nil, nil, false
	})
	s.config.From = time.Now().AddDate(-100, 0, 0)
	if r := s.pass(s.verifier()); r.Counts.Requested != 5 {
		t.Errorf("%+v", r.Counts)
	}
}
