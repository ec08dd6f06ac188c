package verify

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/bench/check"
)

// cut removes what lies below an offset.
func (s *fakeGroup) cut(topic string, partition int32, to int64) {
	s.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: to, LeaderEpoch: -1})
	cut, err := s.adm.DeleteRecords(s.Context(), offsets)
	if err == nil {
		err = cut.Error()
	}
	if err != nil {
		s.Fatal(err)
	}
}

// many asks for records that are due a minute later each, from some minute on, and delivers all but those that are left out.
func (s *fakeGroup) many(from, n int, leftOut ...int) (delivered []*kgo.Record) {
	s.Helper()
	for i := range n {
		q := s.ask(float64(from), float64(from+i+1))
		if !slices.Contains(leftOut, i) {
			delivered = append(delivered, s.write(s.delivered(q, float64(from+i+1))))
		}
	}
	return delivered
}

// What is due and not resolved is overdue, and not missing: replicas may be down.
func TestOverdue(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 10, 4, 8, 9)
	s.resolve("delays", 0, 10, 7.5, 8)
	s.expect(s.pass(s.verifier()), map[string]int64{"missing": 1, "overdue": 2}, "delays/0@4: due")
	s.config.Grace = 2 * time.Hour
	s.expect(s.pass(s.verifier()), map[string]int64{"missing": 1}, "2 pending")
	s.config.Group = "another"
	s.config.Grace = time.Minute
	s.expect(s.pass(s.verifier()), map[string]int64{"overdue": 3}, "the group has no checkpoint of 1 partition:")
}

// A checkpoint that is of another topic, or of another release, says nothing.
func TestCheckpointsThatSayNothing(t *testing.T) {
	for name, tt := range map[string]struct{ metadata, says string }{
		"of another release": {"dw2 t=00000000 w=1:1 l=0", "cannot be read"},
		"of a tool":          {"", "cannot be read"},
		"of an older topic":  {fmt.Sprintf("dw1 t=00000000 w=%d:9 l=9 c=0:p1", time.Now().UnixMilli()), "has no checkpoint"},
		"given away":         {"dw1 t=00000000 w=1:1 l=0 m=heir", `the group has given the checkpoints of 1 partition to group "heir"`},
		"without numbers":    {"dw1 t=00000000 w=x:9 l=9", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeGroup(t)
			s.many(0, 3, 1)
			var offsets kadm.Offsets
			offsets.Add(kadm.Offset{Topic: "delays", At: 3, LeaderEpoch: -1, Metadata: tt.metadata})
			if err := s.adm.CommitAllOffsets(t.Context(), group, offsets); err != nil {
				t.Fatal(err)
			}
			s.expect(s.pass(s.verifier()), map[string]int64{"overdue": 1}, tt.says)
		})
	}
}

// A request without a timestamp is from no time, and what was delivered of it at any time is found.
func TestRequestWithoutATimestamp(t *testing.T) {
	s := newFakeGroup(t)
	long := s.at(-10_000)
	q := s.write(&kgo.Record{Topic: "delays", Timestamp: time.UnixMilli(-1), Headers: headers("delay-until="+millis(long), "delay-target-topic=orders")})
	r := s.delivered(q, -10_000)
	s.write(r)
	s.ask(0, 200)
	s.resolve("delays", 0, 2, 30, 1)
	s.expect(s.pass(s.verifier()), nil, "delay delays: whole; some requests have no timestamp")
	s.cut("delays", 0, 1)
	s.write(&kgo.Record{Topic: "delays", Timestamp: time.UnixMilli(-1), Headers: headers("delay-until="+millis(s.at(300)), "delay-target-topic=orders")})
	s.expect(s.pass(s.verifier()), nil, "delay delays: all that is left of it; some requests have no timestamp")
}

// A request of 1970, as a client writes it that sets a timestamp of 0, is a request.
func TestRequestOfTheFirstMillisecond(t *testing.T) {
	s := newFakeGroup(t)
	q := s.write(&kgo.Record{Topic: "delays", Timestamp: time.UnixMilli(0), Headers: headers("delay-until="+millis(s.at(10)), "delay-target-topic=orders")})
	s.write(s.delivered(q, 10))
	s.resolve("delays", 0, 1, 30, 1)
	s.expect(s.pass(s.verifier()), nil, "delay delays: from 1970-01-01T00:00:00.001Z on\n")
	s.write(&kgo.Record{Topic: "delays", Partition: 1, Timestamp: s.at(0), Headers: headers("delay-until="+millis(s.at(200)), "delay-target-topic=orders")})
	s.expect(s.pass(s.verifier()), nil, "delay delays: from 1970-01-01T00:00:00.001Z on\n")
}

// The window is what was written from a time on and before another one.
func TestFromTo(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 5, 1)
	s.many(20, 5, 1)
	s.many(40, 5, 1)
	s.resolve("delays", 0, 15, 60, 15)
	s.config.From = s.at(10)
	s.expect(s.pass(s.verifier()), map[string]int64{"missing": 2}, "delays/0@6: due")
	s.config.To = s.at(30)
	r := s.pass(s.verifier())
	s.expect(r, map[string]int64{"missing": 1}, "delays/0@6: due")
	if r.Counts.Requested != 5 || r.Counts.Elsewhere != 8 {
		t.Errorf("%+v", r.Counts)
	}
	s.cut("delays", 0, 3)
	if s.pass(s.verifier()).Windows[0].Cut {
		t.Error("what lies before the window is said to be gone of it")
	}
}

// Before a time that is to come all is in the window, also what is written while it reads.
func TestUntilATimeToCome(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 200)
	s.config.To = time.Now().Add(time.Hour)
	var reads atomic.Bool
	s.fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		if !reads.Swap(true) {
			s.fake.SleepControl(func() { s.ask(1, 200) })
		}
		return nil, nil, false
	})
	v := s.verifier()
	s.pass(v)
	s.expect(s.pass(v), nil, "2 pending")
}

// That a log did not reach so far is forgotten when it is read from its new beginning on.
func TestLossIsMended(t *testing.T) {
	s := newFakeGroup(t)
	v := s.verifier()
	s.pass(v)
	s.many(0, 4)
	s.cut("delays", 0, 2)
	at := place{"delays", 0}
	v.requests.outOfRange[at], v.requests.parts[at].goal = true, 5
	for range 2 {
		if err := v.requests.explain(t.Context(), time.Now().Add(-quiet)); err != nil {
			t.Error(err)
		}
	}
	if next := v.requests.parts[at].next; next != 2 {
		t.Errorf("it goes on at %d", next)
	}
}

// A replacement and a cancel that were written behind the window concern what is in it.
func TestCancelledBehindTheWindow(t *testing.T) {
	s := newFakeGroup(t)
	s.ask(0, 30)
	s.ask(0, 30, "delay-id=a")
	s.request(20, "delay-cancel=0-0-"+millis(s.at(30)))
	s.request(20, "delay-cancel=a")
	s.resolve("delays", 0, 4, 60, 4)
	s.config.To = s.at(10)
	s.expect(s.pass(s.verifier()), nil, "2 cancelled, replaced or left out")
}

// What has arrived twice of a request that is there, and not asked for, is not judged.
func TestArrivedTwiceBeforeTheWindow(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 10)
	s.write(s.delivered(q, 10))
	s.write(s.delivered(q, 10))
	s.ask(20, 200)
	s.resolve("delays", 0, 2, 30, 1)
	s.config.From = s.at(10)
	s.expect(s.pass(s.verifier()), nil, "2 arrived of requests outside of the window")
}

// A replacement that was lost, where cancels are answered, has not taken away what was delivered.
func TestReplacementIsMissing(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].CancelsAnswered = true
	s.write(s.delivered(s.ask(0, 30), 30))
	s.ask(2, 40, "delay-replace=0-0-"+millis(s.at(30)))
	s.resolve("delays", 0, 2, 50, 2)
	s.expect(s.pass(s.verifier()), map[string]int64{"missing": 1}, "delays/0@1: due")
}

// What takes the place of something that was delivered in an earlier pass has doubled it.
func TestReplacementArrivesInALaterPass(t *testing.T) {
	s := newFakeGroup(t)
	s.write(s.delivered(s.ask(0, 10), 10))
	other := s.ask(2, 55, "delay-replace=0-0-"+millis(s.at(10)))
	s.config.Grace = 30 * time.Minute
	s.resolve("delays", 0, 2, 40, 1)
	v := s.verifier()
	s.expect(s.pass(v), nil, "1 pending")
	s.write(s.delivered(other, 55))
	s.expect(s.pass(v), map[string]int64{"doubled": 1}, "1 replacements of it were delivered")
}

// Another pass goes on where the last one ended; what is settled is given up meanwhile, and a record that comes again is still seen.
func TestPasses(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].CancelsAnswered = true
	first := s.ask(0, 1)
	v := s.verifier()
	arrived := s.write(s.delivered(first, 1))
	for i := range 2 * 64 {
		s.write(s.delivered(s.ask(0, float64(i)/10+1, fmt.Sprintf("delay-id=%d", i)), float64(i)/10+1))
	}
	last := s.ask(2, 500)
	s.resolve("delays", 0, 130, 40, 129)
	s.expect(s.pass(v), nil, "1 pending")
	if held := v.Held(); held > 20_000 {
		t.Errorf("%d bytes are held of what is settled", held)
	}
	again := *arrived
	s.write(&again)
	s.write(s.condemned(s.request(3, "delay-cancel=0-0-"+millis(s.at(1))), "too_late"))
	s.request(3, fmt.Sprintf("delay-cancel=0-%d-%s", last.Offset, millis(s.at(500))))
	s.request(3, "delay-cancel=0-0-"+millis(s.at(1)))
	s.resolve("delays", 0, 133, 41, 133)
	r := s.pass(v)
	s.expect(r, map[string]int64{"doubled": 2}, "seen 2 times, now at orders")
	if r.Counts.Taken != 1 || r.Counts.Pending != 0 {
		t.Errorf("%+v", r.Counts)
	}
}

// A fault that mends itself is not there any more; one that does not stays.
func TestOverdueComes(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 10)
	s.resolve("delays", 0, 1, 5, 0)
	v := s.verifier()
	s.expect(s.pass(v), map[string]int64{"overdue": 1}, "")
	s.write(s.delivered(q, 10))
	s.resolve("delays", 0, 1, 15, 1)
	s.expect(s.pass(v), nil, "all is well")
}

// Little memory is enough for a window of any length, as long as little is pending; else it says so.
func TestMemory(t *testing.T) {
	s := newFakeGroup(t)
	value := make([]byte, 300) // so that it takes several fetches
	batch := func(pending bool) {
		var all []*kgo.Record
		for i := range 30_000 {
			due := float64(i)/1000 + 6
			if pending {
				due += 1000
			}
			all = append(all, &kgo.Record{Topic: "delays", Key: []byte("k"), Value: value, Timestamp: s.at(float64(i) / 1000), Headers: headers("delay-until="+millis(s.at(due)), "delay-target-topic=orders")})
		}
		if err := s.cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if pending {
			return
		}
		var came []*kgo.Record
		for i, q := range all {
			if i != 7777 {
				came = append(came, s.delivered(q, float64(i)/1000+6))
			}
		}
		if err := s.cl.ProduceSync(t.Context(), came...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	batch(false)
	s.resolve("delays", 0, 30_000, 50, 30_000)
	s.config.Memory = 800_000 // of 30,000 slots of 48 bytes
	v := s.verifier()
	s.expect(s.pass(v), map[string]int64{"missing": 1}, "delays/0@7777: due")
	batch(true)
	if _, err := v.Pass(t.Context()); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "--memory") {
		t.Errorf("got %v", err)
	}
}

// An open transaction keeps back what may tell; it is waited for, and then said.
func TestOpenTransaction(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 5, 1)
	s.resolve("delays", 0, 5, 30, 5)
	cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("open"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	v := s.verifier()
	r := s.pass(v)
	s.expect(r, nil, "cannot tell of 1: an open transaction keeps records back")
	s.expect(r, nil, "\nall is well, as far as it can be told\n")
	if err := cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	s.expect(s.pass(v), map[string]int64{"missing": 1}, "delays/0@1")
}

// What an open transaction has kept back for long is read when that ends, however long the fetch takes.
func TestOpenTransactionEnds(t *testing.T) {
	t.Parallel()
	s := newFakeGroup(t)
	s.config.Patience = time.Minute
	cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("open"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	q := &kgo.Record{Topic: "delays", Timestamp: s.at(0), Headers: headers("delay-until="+millis(s.at(1)), "delay-target-topic=orders")}
	if err := cl.ProduceSync(t.Context(), q).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.write(s.delivered(q, 1))
	var fetched, ended atomic.Bool
	s.hold("delays", &fetched)
	var asked, since int // how often it was asked what no transaction keeps back: in all, and since that one had ended
	s.fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.KeepControl()
		r := req.(*kmsg.ListOffsetsRequest)
		if r.IsolationLevel == 0 || !slices.ContainsFunc(r.Topics, func(t kmsg.ListOffsetsRequestTopic) bool { return t.Topic == "delays" }) {
			return nil, nil, false
		}
		if asked++; asked == 1 {
			time.AfterFunc(2*quiet, func() { ended.Store(cl.EndTransaction(s.Context(), kgo.TryCommit) == nil) })
		}
		if ended.Load() {
			since++
		}
		fetched.Store(since > 3)
		return nil, nil, false
	})
	if r := s.pass(s.verifier()); r.Counts.Delivered != 1 || r.Counts.Faults != 0 {
		t.Errorf("%+v", r.Counts)
	}
}

// With at_least_once a record may come twice.
func TestAtLeastOnce(t *testing.T) {
	s := newFakeGroup(t)
	s.config.AtLeastOnce = true
	arrived := s.many(0, 3)
	again := *arrived[1]
	s.write(&again)
	s.resolve("delays", 0, 3, 30, 3)
	s.expect(s.pass(s.verifier()), nil, "1 arrived again")
}

// Another group on other delay topics writes to the same targets and dead letter topics: that is none of ours.
func TestOtherGroups(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 3)
	s.resolve("delays", 0, 3, 30, 3)
	other := &kgo.Record{Topic: "elsewhere", Offset: 7, Timestamp: s.at(0)}
	s.write(s.delivered(other, 4))
	letter := s.condemned(other, "no_due")
	letter.Topic = "delays.dead"
	s.write(letter)
	r := s.pass(s.verifier())
	s.expect(r, nil, "all is well")
	if r.Counts.Foreign != 2 {
		t.Errorf("%+v", r.Counts)
	}
}

// A timestamp ahead of the clock counts as now on a route with a fixed delay: what was delivered for it is not early.
func TestTimestampsAhead(t *testing.T) {
	s := newFakeGroup(t)
	ahead := s.write(&kgo.Record{Topic: "reminders", Timestamp: s.at(55)})
	s.write(s.delivered(ahead, 6))
	little := s.write(&kgo.Record{Topic: "reminders", Timestamp: s.at(2)})
	s.write(s.delivered(little, 7-0.5/60))
	s.resolve("reminders", 0, 2, 0, 2)
	s.expect(s.pass(s.verifier()), map[string]int64{"altered": 1}, "reminders/0@1: due")
}

// What is delivered while it reads is not missing: it asks what is resolved before it asks where topics end.
func TestDeliveredMeanwhile(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 10)
	s.ask(1, 200)
	s.resolve("delays", 0, 0, 0, 0)
	s.fake.ControlKey(int16(kmsg.OffsetFetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.fake.SleepControl(func() {
			s.write(s.delivered(q, 10))
			s.resolve("delays", 0, 2, 30, 1)
		})
		return nil, nil, false
	})
	s.expect(s.pass(s.verifier()), nil, "1 delivered")
}

// It cannot tell without the delay topic.
func TestNoDelayTopic(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes = s.config.Routes[:1]
	s.config.Routes[0].Topic = "nothing"
	if _, err := s.verifier().Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "delay topic nothing") {
		t.Errorf("got %v", err)
	}
}

// What lies beyond the offset of a checkpoint is not resolved, however far the watermark is.
func TestOverdueBeyondTheOffset(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 4, 1, 3)
	s.resolve("delays", 0, 3, 30, 3)
	s.expect(s.pass(s.verifier()), map[string]int64{"missing": 1, "overdue": 1}, "delays/0@1: due")
}

// Others write to a target, too, with whatever timestamps: they do not say since when it holds all deliveries.
func TestOthersInACutTarget(t *testing.T) {
	s := newFakeGroup(t)
	arrived := s.many(0, 10, 3)
	first := s.write(&kgo.Record{Topic: "orders", Partition: arrived[0].Partition, Timestamp: s.at(-500)})
	q := s.ask(10, 20)
	s.write(s.delivered(q, 20))
	s.resolve("delays", 0, 11, 30, 11)
	s.cut("orders", arrived[0].Partition, first.Offset)
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 10: the older part of their target is gone")
}

// A target may have had fewer partitions when a record was delivered.
func TestPartitionsWereAdded(t *testing.T) {
	s := newFakeGroup(t)
	s.many(0, 20)
	var all []*kgo.Record
	for i := range 20 {
		q := s.write(&kgo.Record{Topic: "delays", Key: fmt.Append(nil, i), Timestamp: s.at(20), Headers: headers("delay-until="+millis(s.at(25)), "delay-target-topic=orders")})
		all = append(all, s.delivered(q, 25))
	}
	if err := s.cl.ProduceSync(t.Context(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.adm.UpdatePartitions(t.Context(), 7, "orders"); err != nil {
		t.Fatal(err)
	}
	s.resolve("delays", 0, 40, 40, 40)
	s.expect(s.pass(s.verifier()), nil, "40 delivered")
}

// A route leaves out what has an id that is had: where the one that has it is gone, it cannot be told.
func TestLeftOutBecauseOfWhatIsGone(t *testing.T) {
	s := newFakeGroup(t)
	s.config.Routes[0].OnDuplicate = check.LeaveOut
	s.write(s.delivered(s.ask(0, 20, "delay-id=a"), 20))
	s.ask(1, 21, "delay-id=a")
	s.ask(2, 22, "delay-id=a")
	s.resolve("delays", 0, 3, 30, 3)
	s.expect(s.pass(s.verifier()), nil, "2 cancelled, replaced or left out")
	s.cut("delays", 0, 1)
	s.expect(s.pass(s.verifier()), nil, "cannot tell of 1: their id may have been had by a request outside of the window")
}

// A cancel that a replica passes on to another partition, by a handle or an id, was asked for once.
func TestPassedOnIsAskedOnce(t *testing.T) {
	s := newFakeGroup(t)
	q := s.ask(0, 100, "delay-id=a")
	details, err := s.adm.ListTopics(s.Context(), "delays")
	if err != nil {
		t.Fatal(err)
	}
	id := details["delays"].ID
	cancel := func(name string, partition int32, more ...string) *kgo.Record {
		return s.write(&kgo.Record{Topic: "delays", Partition: partition, Timestamp: s.at(1), Headers: headers(append([]string{"delay-cancel=" + name}, more...)...)})
	}
	passOn := func(name string) {
		r := cancel(name, 1)
		cancel(name, 0, fmt.Sprintf("delay-forwarded=%s:%s:0:1:%d:%s", hex.EncodeToString(id[:4]), group, r.Offset, millis(s.at(1))))
	}
	handle := fmt.Sprintf("0-%d-%s", q.Offset, millis(s.at(100)))
	cancel("a", 0)
	passOn("a")
	passOn(handle)
	s.resolve("delays", 0, 4, 0, 4)
	s.resolve("delays", 1, 2, 0, 2)
	r := s.pass(s.verifier())
	s.expect(r, nil, "3 asked to cancel something")
	if r.Counts.Cancels != 3 || r.Counts.Taken != 1 {
		t.Errorf("%d cancels, and %d were taken away", r.Counts.Cancels, r.Counts.Taken)
	}
}
