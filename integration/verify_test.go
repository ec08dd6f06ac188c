package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
	"github.com/duewheel/duewheel/verify"
)

// Verify finds nothing wrong while replicas deliver, cancel and are killed, and afterwards; then each fault that is made on purpose; and of what
// is gone with the older part of topics it says that it cannot tell.
func TestVerify(t *testing.T) {
	s := newTenant(t, shared(t), answersCancels(setting{targets: 2, seed: newSeed(t)}))
	k := s.newKiller(2)
	a := s.newAsker()
	stop := a.keepAsking(300)
	running := s.verifier()
	for k.kills < 3 {
		k.strike()
		expectFaults(t, s.pass(running), nil)
	}
	stop()
	s.arrive()
	k.terminate()
	seen := s.watch.Counts()
	r := s.pass(running)
	expectFaults(t, r, nil)
	if c := r.Counts; c.Requested != seen.Requested || c.Delivered != seen.Delivered || c.DeadLettered != seen.DeadLettered || c.Pending > 0 || c.Untold > 0 {
		t.Errorf("requested %d, delivered %d, dead-lettered %d, and verify says %+v", seen.Requested, seen.Delivered, seen.DeadLettered, c)
	}
	expectFaults(t, s.pass(s.verifier()), nil)

	f := s.newForger()
	due := time.Now().Add(-10 * time.Minute)
	f.arrive(f.request(due), due, nil)
	f.request(due) // missing
	twice := f.arrive(f.request(due), due, nil)
	f.write(twice)
	f.arrive(f.request(due), due, func(r *kgo.Record) { r.Value = []byte("w") })
	f.arrive(f.request(due), due, func(r *kgo.Record) { r.Key = []byte("k") })
	f.arrive(f.request(due, "trace", "1"), due, nil) // its header is gone
	f.arrive(f.request(due, "trace", "1"), due, func(r *kgo.Record) {
		r.Headers = append([]kgo.RecordHeader{{Key: "trace", Value: []byte("2")}}, r.Headers...)
	})
	f.arrive(f.request(due), due, func(r *kgo.Record) {
		r.Headers = append([]kgo.RecordHeader{{Key: "trace", Value: []byte("1")}}, r.Headers...)
	})
	f.arrive(f.request(due, "trace", "1"), due, func(r *kgo.Record) {
		r.Headers = append([]kgo.RecordHeader{{Key: "trace", Value: []byte("1")}}, r.Headers...)
	}) // as asked for
	f.arrive(f.request(due), due, func(r *kgo.Record) { r.Timestamp = due.Add(-time.Minute) })
	f.arrive(f.request(due), due, func(r *kgo.Record) { r.Timestamp = due.Add(time.Hour) }) // late, and in time to come
	f.arrive(f.request(due), due, func(r *kgo.Record) { r.Topic = s.targets[1] })
	first, second := f.request(due), f.request(due)
	f.arrive(second, due, nil) // out of order
	f.arrive(first, due, nil)
	f.arrive(f.request(due, "delay-untl", "1"), due, nil) // it had to be dead-lettered
	f.arrive(&kgo.Record{Topic: s.route.Topic, Offset: first.Offset + 1_000_000}, due, nil)
	f.expire(f.request(due, topics.HeaderExpires, "9999999999999"), due)
	f.resolve()
	f.request(due) // overdue
	f.write(&kgo.Record{Topic: s.targets[1], Value: []byte("of others")})
	want := map[string]int64{
		"missing": 1, "doubled": 1, "altered": 7, "early": 1, "late": 1, "overdue": 1,
		"disordered": 1, "delivered in vain": 1, "dead-lettered in vain": 1, "stray": 1,
	}
	again := s.verifier()
	expectFaults(t, s.pass(again), want)

	f.cut(s.targets[0], 2)
	f.cut(s.targets[0], 1)
	f.cut(s.targets[0], 0)
	r = s.pass(s.verifier())
	// What arrived in the other target, and what has to lie in the dead letter topic or must not.
	expectFaults(t, r, map[string]int64{"altered": 1, "overdue": 1, "missing": 1, "dead-lettered in vain": 1})
	if r.Counts.Untold < seen.Delivered/2 {
		t.Errorf("cannot tell of %d", r.Counts.Untold)
	}
	f.cut(s.route.Topic, 0)
	r = s.pass(s.verifier())
	expectFaults(t, r, map[string]int64{"cut": 1})
	if !slices.ContainsFunc(r.Windows, func(w verify.Window) bool { return w.Topic == s.route.Topic && w.Cut }) {
		t.Errorf("the windows are %v", r.Windows)
	}
}

// verifier looks at the topics of a tenant.
func (s *tenant) verifier() *verify.Verifier {
	s.t.Helper()
	v, err := verify.New(verify.Config{
		Group: s.name, Late: 30 * time.Minute, AllTargets: true, AtLeastOnce: s.checks.AllowDoubles, Routes: s.checks.Routes,
	}, s.opts()...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(v.Close)
	return v
}

func (s *tenant) pass(v *verify.Verifier) *verify.Report {
	s.t.Helper()
	r, err := v.Pass(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func expectFaults(t *testing.T, r *verify.Report, want map[string]int64) {
	t.Helper()
	for _, kind := range verify.Kinds() {
		got := int64(0)
		for _, f := range r.Faults {
			if f.Kind == kind {
				got = f.Count
			}
		}
		if got != want[kind] {
			t.Errorf("%s: %d, want %d", kind, got, want[kind])
		}
	}
	if t.Failed() {
		var b strings.Builder
		_ = r.Write(&b)
		t.Log("\n" + b.String())
	}
}

// forger does what processors do not.
type forger struct {
	*tenant
	cl   *kgo.Client
	last *kgo.Record // request
}

func (s *tenant) newForger() *forger {
	s.t.Helper()
	cl, err := kgo.NewClient(append(s.opts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(cl.Close)
	return &forger{tenant: s, cl: cl}
}

func (f *forger) write(r *kgo.Record) *kgo.Record {
	f.t.Helper()
	copied := *r
	if err := f.cl.ProduceSync(f.t.Context(), &copied).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
	return &copied
}

// request writes one to partition 0 that is due at some time.
func (f *forger) request(due time.Time, more ...string) *kgo.Record {
	f.t.Helper()
	r := &kgo.Record{Topic: f.route.Topic, Value: []byte("v"), Timestamp: due.Add(-time.Minute), Headers: []kgo.RecordHeader{
		{Key: topics.HeaderUntil, Value: fmt.Append(nil, due.UnixMilli())}, {Key: topics.HeaderTargetTopic, Value: []byte(f.targets[0])},
	}}
	for i := 0; i < len(more); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: more[i], Value: []byte(more[i+1])})
	}
	f.last = f.write(r)
	return f.last
}

// arrive writes what becomes of a request, changed.
func (f *forger) arrive(q *kgo.Record, due time.Time, change func(*kgo.Record)) *kgo.Record {
	f.t.Helper()
	r := &kgo.Record{Topic: f.targets[0], Value: q.Value, Timestamp: due.Add(time.Millisecond), Headers: []kgo.RecordHeader{
		{Key: topics.HeaderDue, Value: fmt.Append(nil, due.UnixMilli())}, {Key: topics.HeaderSource, Value: fmt.Appendf(nil, "%s/%d/%d", q.Topic, q.Partition, q.Offset)},
	}}
	if change != nil {
		change(r)
	}
	return f.write(r)
}

// expire writes the dead letter of a request that has expired.
func (f *forger) expire(q *kgo.Record, at time.Time) {
	f.t.Helper()
	r := &kgo.Record{Topic: f.route.DeadLetter, Value: q.Value, Timestamp: at.Add(time.Millisecond), Headers: slices.Clone(q.Headers)}
	for name, value := range map[string]string{
		topics.HeaderErrorCode: string(topics.CodeExpired), topics.HeaderErrorTopic: q.Topic, topics.HeaderErrorPartition: fmt.Sprint(q.Partition), topics.HeaderErrorOffset: fmt.Sprint(q.Offset),
		topics.HeaderErrorTimestamp: fmt.Sprint(q.Timestamp.UnixMilli()), topics.HeaderErrorStage: string(topics.StageProduce), topics.HeaderErrorMessage: "why",
	} {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	f.write(r)
}

// resolve says for the group, which has no members, that it is done with all of partition 0.
func (f *forger) resolve() {
	f.t.Helper()
	details, err := f.admin.ListTopics(f.t.Context(), f.route.Topic)
	if err != nil {
		f.t.Fatal(err)
	}
	id := details[f.route.Topic].ID
	next := f.last.Offset + 1
	metadata, err := state.Checkpoint{TopicID: [4]byte(id[:4]), Offset: next, LowWater: next, Watermark: state.Key{Due: time.Now().UnixMilli(), Seq: f.last.Offset},
		Parsers: []state.ParserEpoch{{From: 0, Spec: "p1"}}}.Metadata()
	if err != nil {
		f.t.Fatal(err)
	}
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: f.route.Topic, At: next, LeaderEpoch: -1, Metadata: metadata})
	if err := f.admin.CommitAllOffsets(f.t.Context(), f.name, offsets); err != nil {
		f.t.Fatal(err)
	}
}

// cut removes all that lies in a partition.
func (f *forger) cut(topic string, partition int32) {
	f.t.Helper()
	ends, err := f.admin.ListEndOffsets(f.t.Context(), topic)
	if err != nil {
		f.t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, partition)
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: end.Offset, LeaderEpoch: -1})
	cut, err := f.admin.DeleteRecords(f.t.Context(), offsets)
	if err == nil {
		err = cut.Error()
	}
	if err != nil {
		f.t.Fatal(err)
	}
}
