package processor

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/wiretap"
	"github.com/duewheel/duewheel/processor/kafka"
)

// transact writes records to the test's partition in a transaction, and returns what ends it.
func transact(t *testing.T, w *wiretap.Tap, id string, n int) (end func(kgo.TransactionEndTry)) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.C.ListenAddrs()...), kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: testTopic, Partition: testTP.Partition, Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return func(commit kgo.TransactionEndTry) {
		t.Helper()
		if err := cl.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
}

// The position passes what was aborted, below an open transaction, and nothing that readers see: not
// a record, and not a marker.
func TestPassAborted(t *testing.T) {
	l, w := testCluster(t)
	transact(t, w, "first", 1)(kgo.TryCommit) // 0, and its marker at 1
	abort := transact(t, w, "second", 3)      // 2 to 4
	end := transact(t, w, "third", 1)         // 5
	abort(kgo.TryAbort)                       // its marker at 6
	p := &partition{tp: testTP}
	pass := func(from, to int64) int64 {
		t.Helper()
		id := w.C.TopicInfo(testTopic).TopicID
		passed, err := passAborted(t.Context(), l.reader, map[*partition]stretch{p: {tp: testTP, id: id, from: from, to: to}})
		if err != nil {
			t.Fatal(err)
		}
		next, ok := passed[p]
		if !ok {
			return -1
		}
		return next.to
	}
	for _, c := range []struct {
		name           string
		from, to, want int64
	}{
		{"a record", 0, 5, 0},
		{"a marker", 1, 5, 1},
		{"what was aborted, up to the open transaction", 2, 5, 5},
		{"in the middle of it", 3, 5, 5},
		{"nothing is asked", 5, 5, -1},
	} {
		equal(t, c.name, pass(c.from, c.to), c.want)
	}
	end(kgo.TryCommit) // its marker at 7
	equal(t, "up to the record behind it", pass(2, 8), 5)
	equal(t, "a marker behind the end of a transaction", pass(6, 8), 6)
}

// A topic that is forbidden keeps no other from being looked at.
func TestPassAbortedOfOneThatIsForbidden(t *testing.T) {
	l, w := testCluster(t)
	transact(t, w, "first", 3)(kgo.TryAbort) // 0 to 2, and its marker at 3
	w.C.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.C.KeepControl()
		req, resp := kreq.(*kmsg.MetadataRequest), kreq.ResponseKind().(*kmsg.MetadataResponse)
		if !slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.Topic != nil && *t.Topic == "forbidden" }) {
			return nil, nil, false
		}
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.ErrorCode = kmsg.StringPtr("forbidden"), kerr.TopicAuthorizationFailed.Code
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	one, other := &partition{tp: testTP}, &partition{tp: kafka.TopicPartition{Topic: "forbidden"}}
	passed, err := passAborted(t.Context(), l.reader, map[*partition]stretch{
		one:   {tp: testTP, id: w.C.TopicInfo(testTopic).TopicID, to: 3},
		other: {tp: other.tp, to: 3},
	})
	equal(t, "up to the marker", passed[one].to, 3)
	if _, is := passed[other]; is || !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("of the other one: %+v, %v", passed[other], err)
	}
}
