package verify

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// fakeGroup is a fake cluster, and a processor that keeps its promises as long as it is not told otherwise: it writes what a group would have
// written in the last hour.
type fakeGroup struct {
	*testing.T
	fake   *kfake.Cluster
	addr   kgo.Opt
	cl     *kgo.Client
	adm    *kadm.Client
	config Config
	began  time.Time // an hour ago
}

const group = "duewheel"

func newFakeGroup(t *testing.T) *fakeGroup {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "delays", "reminders", "orders", "bills.de", "delays.dead", "reminders.dead", "unrelated"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	s := &fakeGroup{T: t, fake: fake, addr: kgo.SeedBrokers(fake.ListenAddrs()...), began: time.Now().Add(-time.Hour).Truncate(time.Millisecond)}
	s.cl = s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	s.adm = kadm.NewClient(s.cl)
	s.config = Config{Group: group, Patience: time.Second, Routes: []check.Route{
		{Topic: "delays", Allow: []string{"orders", "bills.*"}, MaxDelay: 366 * 24 * time.Hour},
		{Topic: "reminders", Target: "orders", Delay: 5 * time.Minute, CancelsAnswered: true},
	}}
	return s
}

func (s *fakeGroup) client(opts ...kgo.Opt) *kgo.Client {
	s.Helper()
	cl, err := kgo.NewClient(append(opts, s.addr)...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(cl.Close)
	return cl
}

func (s *fakeGroup) write(r *kgo.Record) *kgo.Record {
	s.Helper()
	if err := s.cl.ProduceSync(s.Context(), r).FirstErr(); err != nil {
		s.Fatal(err)
	}
	return r
}

// abort writes one in a transaction that is aborted.
func (s *fakeGroup) abort(r *kgo.Record) *kgo.Record {
	s.Helper()
	return s.transact(r, kgo.TryAbort)
}

func (s *fakeGroup) transact(r *kgo.Record, end kgo.TransactionEndTry) *kgo.Record {
	s.Helper()
	cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(s.Name()))
	if err := cl.BeginTransaction(); err != nil {
		s.Fatal(err)
	}
	if err := cl.ProduceSync(s.Context(), r).FirstErr(); err != nil {
		s.Fatal(err)
	}
	if err := cl.EndTransaction(s.Context(), end); err != nil {
		s.Fatal(err)
	}
	return r
}

// at is so many minutes after the beginning.
func (s *fakeGroup) at(minutes float64) time.Time {
	return s.began.Add(time.Duration(minutes * float64(time.Minute)))
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func headers(all ...string) (list []kgo.RecordHeader) {
	for _, h := range all {
		name, value, _ := strings.Cut(h, "=")
		list = append(list, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return list
}

// request writes one to delays/0 at some minute.
func (s *fakeGroup) request(minute float64, more ...string) *kgo.Record {
	s.Helper()
	return s.write(&kgo.Record{Topic: "delays", Key: []byte("k"), Value: []byte("v"), Timestamp: s.at(minute), Headers: headers(more...)})
}

// ask writes one that is due at some minute in orders.
func (s *fakeGroup) ask(minute, due float64, more ...string) *kgo.Record {
	s.Helper()
	return s.request(minute, append([]string{"trace=1", "delay-until=" + millis(s.at(due)), "delay-target-topic=orders"}, more...)...)
}

// delivered is what becomes of a request, 5 ms late.
func (s *fakeGroup) delivered(q *kgo.Record, due float64) *kgo.Record {
	r := &kgo.Record{Topic: "orders", Partition: 1, Key: q.Key, Value: q.Value, Timestamp: s.at(due).Add(5 * time.Millisecond)}
	for _, h := range q.Headers {
		if !strings.HasPrefix(h.Key, "delay-") {
			r.Headers = append(r.Headers, h)
		}
	}
	r.Headers = append(r.Headers, headers("delay-due="+millis(s.at(due)), fmt.Sprintf("delay-source=%s/%d/%d", q.Topic, q.Partition, q.Offset))...)
	r.Partition = int32(kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(r, 2))
	return r
}

// condemned is the dead letter of a request.
func (s *fakeGroup) condemned(q *kgo.Record, code string) *kgo.Record {
	return &kgo.Record{Topic: q.Topic + ".dead", Key: q.Key, Value: q.Value, Timestamp: q.Timestamp.Add(time.Second), Headers: slices.Concat(q.Headers, headers(
		"__delay.errors.topic="+q.Topic, fmt.Sprint("__delay.errors.partition=", q.Partition), fmt.Sprint("__delay.errors.offset=", q.Offset),
		"__delay.errors.timestamp="+millis(q.Timestamp), "__delay.errors.stage="+stageOf(code), "__delay.errors.code="+code, "__delay.errors.message=why"))}
}

// stageOf is where a request is refused with a code.
func stageOf(code string) string {
	switch code {
	case "target_not_allowed":
		return "AUTHORIZE"
	case "too_far_ahead", "too_late", "unknown_handle", "attempts_exhausted", "duplicate_id":
		return "STORE"
	case "unknown_target", "forbidden_target", "too_large", "rejected", "expired":
		return "PRODUCE"
	}
	return "PARSE"
}

// carryOn writes a request once more, to be tried again at some minute.
func (s *fakeGroup) carryOn(q *kgo.Record, due, next float64) *kgo.Record {
	s.Helper()
	return s.tryAgain(q, due, due, 1, next)
}

// tryAgain writes a request once more, at some minute: when it was due first, how often it was tried, and when it is due now.
func (s *fakeGroup) tryAgain(q *kgo.Record, at, first float64, tried int64, next float64) *kgo.Record {
	s.Helper()
	return s.write(&kgo.Record{Topic: q.Topic, Partition: q.Partition, Key: q.Key, Value: q.Value, Timestamp: s.at(at), Headers: slices.Concat(q.Headers, headers(
		s.mark(q, "delay-retry", q.Offset, q.Timestamp.UnixMilli(), s.at(first).UnixMilli(), tried, s.at(next).UnixMilli())))})
}

// mark is a header that a replica writes for itself, into the partition of a record.
func (s *fakeGroup) mark(q *kgo.Record, name string, numbers ...int64) string {
	s.Helper()
	details, err := s.adm.ListTopics(s.Context(), q.Topic)
	if err != nil {
		s.Fatal(err)
	}
	id := details[q.Topic].ID
	text := fmt.Sprintf("%s=%s:%s:%d", name, hex.EncodeToString(id[:4]), group, q.Partition)
	for _, n := range numbers {
		text += fmt.Sprint(":", n)
	}
	return text
}

// resolve commits a checkpoint: all below an offset is accepted, and what is due up to a minute resolved.
func (s *fakeGroup) resolve(topic string, partition int32, offset int64, minute float64, low int64) {
	s.Helper()
	details, err := s.adm.ListTopics(s.Context(), topic)
	if err != nil {
		s.Fatal(err)
	}
	id := details[topic].ID
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1,
		Metadata: fmt.Sprintf("dw1 t=%s w=%d:%d l=%d c=0:p1", hex.EncodeToString(id[:4]), s.at(minute).UnixMilli(), offset, low)})
	if err := s.adm.CommitAllOffsets(s.Context(), group, offsets); err != nil {
		s.Fatal(err)
	}
}

func (s *fakeGroup) verifier() *Verifier {
	s.Helper()
	v, err := New(s.config, s.addr)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(v.Close)
	return v
}

func (s *fakeGroup) pass(v *Verifier) *Report {
	s.Helper()
	r, err := v.Pass(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	c := r.Counts
	if sum := c.Delivered + c.DeadLettered + c.Taken + c.Pending + c.Overdue + c.Missing + c.Untold - c.Doubled; sum != c.Requested && c.Faults == 0 {
		s.Errorf("%d requests, and %d outcomes: %+v", c.Requested, sum, c)
	}
	return r
}

// expect looks for the faults of each kind and no other.
func (s *fakeGroup) expect(r *Report, want map[string]int64, says string) {
	s.Helper()
	got := make(map[string]int64)
	for _, f := range r.Faults {
		got[f.Kind] = f.Count
	}
	for _, kind := range Kinds() {
		if got[kind] != want[kind] {
			s.Errorf("%s: %d, want %d", kind, got[kind], want[kind])
		}
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		s.Fatal(err)
	}
	if !strings.Contains(b.String(), says) {
		s.Errorf("the report does not say %q", says)
	}
	if s.Failed() {
		s.Log("\n" + b.String())
	}
}
