package restore

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
	"github.com/duewheel/duewheel/processor/internal/wiretap"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/state"
)

// committed has the coordinator answer for each partition, by number, with the checkpoint of a writer, or with a code; -1: not at all.
func committed(t *testing.T, w *wiretap.Tap, id kafka.TopicID, writers []string, codes []int16) {
	t.Helper()
	w.Answer(kmsg.OffsetFetch, func(kreq kmsg.Request) (kmsg.Response, error) {
		resp := answers.Fetch(kreq.(*kmsg.OffsetFetchRequest), 0, "", 0).(*kmsg.OffsetFetchResponse)
		for i := range resp.Groups[0].Topics {
			rt := &resp.Groups[0].Topics[i]
			rt.Partitions = slices.DeleteFunc(rt.Partitions, func(p kmsg.OffsetFetchResponseGroupTopicPartition) bool {
				return codes != nil && codes[p.Partition] == -1
			})
			for j := range rt.Partitions {
				p := &rt.Partitions[j]
				if codes != nil && codes[p.Partition] != 0 {
					p.ErrorCode, p.Offset = codes[p.Partition], -1
					continue
				}
				md, err := state.Checkpoint{TopicID: id.Short(), Writer: writers[p.Partition]}.Metadata()
				if err != nil {
					t.Error(err)
				}
				p.Metadata = &md
			}
		}
		return resp, nil
	})
}

// four are the partitions of the test's topic.
func four(w *wiretap.Tap) (ids map[kafka.TopicPartition]kafka.TopicID, id kafka.TopicID) {
	id = kafka.TopicID(w.C.TopicInfo(testTopic).TopicID)
	ids = map[kafka.TopicPartition]kafka.TopicID{}
	for p := range int32(4) {
		ids[kafka.TopicPartition{Topic: testTopic, Partition: p}] = id
	}
	return ids, id
}

// Every writer that holds a checkpoint is fenced with all of its ids, once, and it is said once; who asks is not, and where nobody is named nobody is.
func TestFenceOfSeveral(t *testing.T) {
	e, w := testCluster(t)
	ids, id := four(w)
	told := map[string]int{}
	e.Fenced = func(_ kafka.TopicPartition, writer string) { told[writer]++ }
	var mu sync.Mutex
	var timeouts []int32
	code := int16(0)
	w.Answer(kmsg.InitProducerID, func(kreq kmsg.Request) (kmsg.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		req := kreq.(*kmsg.InitProducerIDRequest)
		timeouts = append(timeouts, req.TransactionTimeoutMillis)
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = code
		return resp, nil
	})
	r := &restore{Env: e, member: stay{}, began: time.Now()}
	for _, writers := range [][]string{{"g-other-0", e.Writer, "", "g-third-0"}, {"g-other-0", "g-third-0", "g-other-0", e.Writer}} {
		committed(t, w, id, writers, nil)
		w.Take()
		if err := r.fence(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, id := range slices.Concat(producer.IDsOf("g-other-0"), producer.IDsOf("g-third-0")) {
			want = append(want, "InitProducerID "+id)
		}
		got := wiretap.Only(w.Take(), "InitProducerID")
		slices.Sort(got)
		slices.Sort(want)
		equals(t, "fenced", got, want)
	}
	equal(t, "told of writers", len(told), 2)
	equal(t, "of one", told["g-other-0"], 1)
	if slices.ContainsFunc(timeouts, func(n int32) bool { return int64(n) != e.EmptyTimeout.Milliseconds() }) {
		t.Errorf("with a timeout of %d ms", timeouts)
	}
	code = kerr.TransactionalIDAuthorizationFailed.Code
	if err := r.fence(t.Context(), ids); !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Errorf("what is refused is told as %v", err)
	}
}

// What holds partitions up is explained: at first that its writer is fenced, and then with what that was answered. Only a transaction that is older than it may be hangs,
// which is said once.
func TestFenceIsExplained(t *testing.T) {
	e, w := testCluster(t)
	ids, id := four(w)
	committed(t, w, id, []string{"g-other-0", "g-other-0", "g-other-0", "g-other-0"}, nil)
	w.Answer(kmsg.InitProducerID, func(kreq kmsg.Request) (kmsg.Response, error) {
		resp := kreq.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return resp, nil
	})
	for tp := range ids {
		e.Assigned.Remember(e.Lane, tp, nil)
	}
	why := func() string { return e.Assigned.All()[0].Reason }
	r := &restore{Env: e, member: stay{}, began: time.Now().Add(-e.TransactionTimeout)}
	if err := r.free(t.Context(), ids); err == nil || !strings.Contains(why(), "fencing its writer") {
		t.Errorf("first it says %q, %v", why(), err)
	}
	e.Assigned.Explain(e.Lane, []kafka.TopicPartition{{Topic: testTopic}}, "the answer")
	if err := r.free(t.Context(), ids); err == nil || why() != "the answer" || r.hangs {
		t.Errorf("then it says %q, %v; it hangs: %v", why(), err, r.hangs)
	}
	r.began = time.Now().Add(-e.TransactionTimeout - hangsAfter - time.Second)
	if err := r.free(t.Context(), ids); err == nil || !strings.Contains(why(), "find-hanging") || !r.hangs {
		t.Errorf("at last it says %q, %v; it hangs: %v", why(), err, r.hangs)
	}
	equal(t, "fences", r.fences, 3)
	for fences, want := range map[int]time.Duration{0: 0, 1: 20 * time.Millisecond, 2: 80 * time.Millisecond, 30: fenceMost} {
		if got := fenceAgain(fences); fences > 0 && got > want {
			t.Errorf("after %d fences it rests for %v, want %v at most", fences, got, want)
		}
	}
}

// What a replica has left open itself ends when its producers are renewed. Where they cannot be, partitions say why, and not that somebody is fenced.
func TestOwnTransactionIsExplained(t *testing.T) {
	e, w := testCluster(t)
	ids, id := four(w)
	committed(t, w, id, []string{e.Writer, e.Writer, e.Writer, e.Writer}, nil)
	refused := error(kerr.TransactionalIDAuthorizationFailed)
	e.Awaits = func() error { return refused }
	r := &restore{Env: e, member: stay{}, began: time.Now()}
	if err := r.free(t.Context(), ids); !errors.Is(err, refused) {
		t.Errorf("they wait for %v, and the producers for %v", err, refused)
	}
	refused = nil
	if err := r.free(t.Context(), ids); err != nil {
		t.Errorf("they wait for %v, and the producers for nothing", err)
	}
	committed(t, w, id, []string{"", "", "", ""}, nil)
	refused = kerr.TransactionalIDAuthorizationFailed
	if err := r.free(t.Context(), ids); err != nil {
		t.Errorf("they wait for %v, which is not known to be ours", err)
	}
}

// What cannot be told of one partition holds up no other one, and is no new partition; where it is so of all, the error says why.
func TestCheckpointsOfSome(t *testing.T) {
	e, w := testCluster(t)
	ids, id := four(w)
	all := []kafka.TopicPartition{}
	for tp := range ids {
		all = append(all, tp)
	}
	bad, unstable := kerr.GroupAuthorizationFailed.Code, kerr.UnstableOffsetCommit.Code
	writers := []string{"a", "b", "c", "d"}
	r := &restore{Env: e, member: stay{}, began: time.Now()}
	committed(t, w, id, writers, []int16{0, bad, -1, unstable})
	ready, held, err := r.checkpoints(t.Context(), all)
	if err != nil || len(ready) != 1 || len(held) != 1 {
		t.Fatalf("ready %v, held up %v, %v", ready, held, err)
	}
	if _, is := ready[kafka.TopicPartition{Topic: testTopic}]; !is {
		t.Errorf("ready is %v", ready)
	}
	if _, is := held[kafka.TopicPartition{Topic: testTopic, Partition: 3}]; !is {
		t.Errorf("held up is %v", held)
	}
	for _, c := range []struct {
		codes []int16
		says  string
	}{{[]int16{bad, bad, bad, bad}, "checkpoint of requests/"}, {[]int16{-1, -1, -1, -1}, "not in the answer"}} {
		committed(t, w, id, writers, c.codes)
		if ready, held, err := r.checkpoints(t.Context(), all); len(ready)+len(held) > 0 || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("ready %v, held up %v, %v", ready, held, err)
		}
	}
}

// How a partition was before the transaction that holds it up is shown when that has lasted, and not of a topic that has its name only.
func TestHeldUpIsShown(t *testing.T) {
	e, w := testCluster(t)
	ids, id := four(w)
	md := func(id kafka.TopicID) string {
		md, err := state.Checkpoint{TopicID: id.Short(), Offset: 0, Writer: "a"}.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		return md
	}
	at := kafka.TopicPartition{Topic: testTopic}
	for _, c := range []struct {
		name string
		ago  time.Duration
		of   kafka.TopicID
		want bool
	}{{"at once", 0, id, false}, {"when it lasts", e.SessionTimeout + time.Second, id, true}, {"of another topic", e.SessionTimeout + time.Second, kafka.TopicID{9}, false}} {
		e.Assigned.Remember(e.Lane, at, nil)
		before := e.Assigned.All()[0].Seen
		r := &restore{Env: e, began: time.Now().Add(-c.ago)}
		r.show(t.Context(), ids, map[kafka.TopicPartition]kafka.Fetched{at: {Offset: 0, Metadata: md(c.of)}})
		if got := e.Assigned.All()[0].Seen != before; got != c.want {
			t.Errorf("%s: it is shown: %v, want %v", c.name, got, c.want)
		}
	}
}
