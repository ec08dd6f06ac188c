package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// What is owed to which partition follows from who led it when, and how the last transaction ended that may have written to it.
func TestMarkersOwed(t *testing.T) {
	for _, test := range []struct{ name, story, want string }{
		{"it had a leader all the time", "see 0@3; begin orders; ack 0@7; see 0@3; end commit; see 0@3", ""},
		{"it had none when the transaction ended", "see 0@3; begin orders; ack 0@7; see 0-4; end abort; see 0@5", "orders/0 abort 7"},
		{"none is there yet", "see 0@3; begin orders; ack 0@7; see 0-4; end abort", "(orders/0 abort 7)"},
		{"it has lost it afterwards", "see 0@3; begin orders; ack 0@7; end commit; see 0-4; see 0@5", "orders/0 commit -1"},
		{"nobody saw it without one", "see 0@3; begin orders; ack 0@7; end commit; see 0@5", "orders/0 commit -1"},
		{"without one twice", "see 0-4; begin orders; end commit; see 0-6; see 0@7", "orders/0 abort 0"},
		{"another one leads", "see 0@3; begin orders; ack 0@7; end commit; see 0@4", ""},
		{"it had none before", "see 0@3; see 0-4; see 0@5; begin orders; ack 0@7; end commit; see 0@5", ""},
		{"the last one counts", "see 0@3; begin orders; ack 0@7; end abort; begin orders; ack 0@9; end commit; see 0@5", "orders/0 commit -1"},
		{"that is known to have written to it", "see 0@3; begin orders; ack 0@7; end commit; begin orders; ack 1@2; end abort; see 0@5", "orders/0 commit 7"},
		{"from where it begins on", "see 0@3; begin orders; ack 0@7; ack 1@2; ack 0@5; end commit; begin orders; end abort; see 0@5", "orders/0 commit 5"},
		{"maybe it has written to it", "see 0@3; begin orders; see 0-4; end abort; see 0@5", "orders/0 abort 0"},
		{"each partition for itself", "see 0@3; see 1@3; begin orders; ack 0@7; ack 1@8; end commit; see 1@5", "orders/1 commit -1"},
		{"it is first seen afterwards", "begin orders; ack 0@7; end commit; see 0@2", "orders/0 commit -1"},
		{"it is first seen afterwards, with its first leader", "begin orders; ack 0@7; end commit; see 0@0", ""},
		{"it is first seen afterwards, without a leader", "begin orders; ack 0@7; end commit; see 0-1", "(orders/0 commit -1)"},
		{"another topic", "see 0@3; begin bills; end commit; see 0@5", ""},
		{"it is not known how it ended", "see 0@3; begin orders; ack 0@7; see 0@5; end ?", "orders/0 ? 7"},
		{"offsets", "offsets 0@3; begin orders; end commit; offsets 0@5", "__consumer_offsets/0 commit -1"},
		{"offsets without records", "offsets 0@3; begin bills; end abort; offsets 0-4; offsets 0@5", "__consumer_offsets/0 abort -1"},
		{"inherited", "inherit 0 abort; see 0@3", "orders/0 abort -1"},
		{"inherited, without a leader", "inherit 0 commit; see 0-3", "(orders/0 commit -1)"},
		{"written", "see 0@3; begin orders; end commit; see 0@5; paid 0", ""},
		{"lost while it was written", "see 0@3; begin orders; ack 0@7; end commit; see 0@5; payable; see 0@7; paid 0", "orders/0 commit -1"},
		{"its leader does not answer", "see 0@3; begin orders; ack 0@7; end commit; see 0@5; postpone 0", "(orders/0 commit -1)"},
	} {
		m := NewMarkers(nil, "group", slog.New(slog.DiscardHandler))
		before := ^uint64(0)
		for _, step := range strings.Split(test.story, "; ") {
			word, rest, _ := strings.Cut(step, " ")
			var partition, number int32
			var at rune
			fmt.Sscanf(rest, "%d%c%d", &partition, &at, &number)
			tp := kafka.TopicPartition{Topic: "orders", Partition: partition}
			switch word {
			case "see":
				m.See("orders", map[int32]kafka.Leader{partition: {Epoch: number, There: at == '@'}})
			case "offsets":
				m.See(kafka.OffsetsTopic, map[int32]kafka.Leader{partition: {Epoch: number, There: at == '@'}})
			case "begin":
				m.of("id").begin([]string{rest})
			case "ack":
				m.of("id").wrote([]*kgo.Record{{Topic: "orders", Partition: partition, Offset: int64(number)}, {Topic: "orders", Partition: partition, Offset: int64(number) + 1}})
			case "end":
				m.of("id").end(map[string]outcome{"abort": aborted, "commit": committed, "?": unknown}[rest])
			case "inherit":
				m.of("id").inherit([]kafka.TopicPartition{tp}, strings.HasSuffix(rest, "commit"))
			case "payable":
				_, before = m.payable("id")
			case "paid":
				m.of("id").paid([]kafka.TopicPartition{tp}, before)
			case "postpone":
				m.of("id").owed[tp] = time.Now().Add(time.Hour)
			}
		}
		var got []string
		for tp := range m.of("id").owed {
			last := m.of("id").lastOf([]kafka.TopicPartition{tp})[tp]
			what := fmt.Sprintf("%v %s %d", tp, [...]string{aborted: "abort", committed: "commit", unknown: "?"}[last.how], last.first)
			if tps, _ := m.payable("id"); !slices.Contains(tps, tp) {
				what = "(" + what + ")"
			}
			got = append(got, what)
		}
		equal(t, test.name, strings.Join(got, ", "), test.want)
		equal(t, test.name+", owes", m.Owes("id"), test.want != "" && test.want[0] != '(')
	}
	equal(t, "without transactions", (*Markers)(nil).Owes("id"), false)
}

// In the place of what a coordinator says: it is not there yet, or a right is missing.
const (
	moves  = "moves"
	denied = "denied"
)

// markerCluster is one whose coordinator says of each id what states say, one after the other, and what it is asked for.
type markerCluster struct {
	*kfake.Cluster
	cl     *kgo.Client
	mu     sync.Mutex
	states map[string][]string
	asked  []string
	vain   func()      // not nil: it does not answer requests for an end, and calls this
	refuse *kerr.Error // its answer to the next one, and that it is busy, to all
}

func newMarkerCluster(t *testing.T) *markerCluster {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	mc := &markerCluster{Cluster: c, cl: cl, states: map[string][]string{}}
	c.ControlKey(int16(kmsg.DescribeTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mc.mu.Lock()
		defer mc.mu.Unlock()
		resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		for _, id := range req.(*kmsg.DescribeTransactionsRequest).TransactionalIDs {
			s := kmsg.NewDescribeTransactionsResponseTransactionState()
			s.TransactionalID, s.ProducerID, s.ProducerEpoch, s.State = id, 7, 1, "Empty"
			if says := mc.states[id]; len(says) > 0 {
				s.State = says[0]
				if len(says) > 1 {
					mc.states[id] = says[1:]
				}
				switch s.State {
				case moves:
					s.ErrorCode = kerr.CoordinatorLoadInProgress.Code
				case denied:
					s.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
				}
			}
			if s.State == "Ongoing" || strings.HasPrefix(s.State, "Prepare") {
				topic := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
				topic.Topic, topic.Partitions = "orders", []int32{1}
				s.Topics = append(s.Topics, topic)
			}
			resp.TransactionStates = append(resp.TransactionStates, s)
		}
		return resp, nil, true
	})
	note := func(key kmsg.Key, say func(kmsg.Request) (string, kmsg.Response)) {
		c.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			mc.mu.Lock()
			defer mc.mu.Unlock()
			said, resp := say(req)
			if said == "" {
				return nil, nil, false
			}
			mc.asked = append(mc.asked, said)
			if resp == nil {
				return nil, errors.New("hung up"), true
			}
			return resp, nil, true
		})
	}
	note(kmsg.AddPartitionsToTxn, func(req kmsg.Request) (string, kmsg.Response) {
		r := req.(*kmsg.AddPartitionsToTxnRequest)
		resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
		said := fmt.Sprintf("v%d %s %d/%d adds", r.Version, r.TransactionalID, r.ProducerID, r.ProducerEpoch)
		for _, topic := range r.Topics {
			rt := kmsg.NewAddPartitionsToTxnResponseTopic()
			rt.Topic = topic.Topic
			for _, partition := range topic.Partitions {
				said += fmt.Sprintf(" %s/%d", topic.Topic, partition)
				rp := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				rp.Partition = partition
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return said, resp
	})
	note(kmsg.AddOffsetsToTxn, func(req kmsg.Request) (string, kmsg.Response) {
		return "adds offsets of " + req.(*kmsg.AddOffsetsToTxnRequest).Group, req.ResponseKind()
	})
	note(kmsg.EndTxn, func(req kmsg.Request) (string, kmsg.Response) {
		r := req.(*kmsg.EndTxnRequest)
		said, resp := fmt.Sprintf("v%d commits %v", r.Version, r.Commit), req.ResponseKind().(*kmsg.EndTxnResponse)
		if mc.vain != nil {
			mc.vain()
			return said + " in vain", nil
		}
		if mc.refuse != nil {
			resp.ErrorCode = mc.refuse.Code
			if mc.refuse != kerr.ConcurrentTransactions {
				mc.refuse = nil
			}
		}
		return said, resp
	})
	note(kmsg.InitProducerID, func(req kmsg.Request) (string, kmsg.Response) {
		if req.(*kmsg.InitProducerIDRequest).TransactionalID == nil {
			return "", nil
		}
		id := *req.(*kmsg.InitProducerIDRequest).TransactionalID
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ProducerID, resp.ProducerEpoch = 7, 1
		if says := mc.states[id]; len(says) > 0 && says[0] != "Empty" && !strings.HasPrefix(says[0], "Complete") {
			resp.ErrorCode = 51 // CONCURRENT_TRANSACTIONS
		}
		return "asks for " + id, resp
	})
	return mc
}

// What is owed is written by the transaction of a client that names what is in it, once for what was aborted, and once for what was committed.
func TestMarkersAreWritten(t *testing.T) {
	mc := newMarkerCluster(t)
	m := NewMarkers([]kgo.Opt{kgo.SeedBrokers(mc.ListenAddrs()...)}, "group", slog.New(slog.DiscardHandler))
	m.See("orders", map[int32]kafka.Leader{0: {Epoch: 0, There: true}, 1: {Epoch: 0, There: true}})
	m.of("id").inherit([]kafka.TopicPartition{{Topic: "orders", Partition: 1}}, true)
	m.of("id").inherit([]kafka.TopicPartition{{Topic: "orders", Partition: 0}, {Topic: kafka.OffsetsTopic, Partition: 3}}, false)
	m.See(kafka.OffsetsTopic, map[int32]kafka.Leader{3: {There: true}})
	m.of("id").inherit([]kafka.TopicPartition{{Topic: "orders", Partition: 2}}, true)
	m.See("orders", map[int32]kafka.Leader{2: {There: true}})
	m.of("id").last[kafka.TopicPartition{Topic: "orders", Partition: 2}] = ended{how: unknown} // nothing is written there
	m.See("orders", map[int32]kafka.Leader{1: {Epoch: 2, There: true}})                        // it alone is known to have had none
	count := func(what string, written, owed int64) {
		t.Helper()
		got, left := m.Counts()
		equal(t, what+" written", got, written)
		equal(t, what+" owed", left, owed)
	}
	count("before", 0, 4)
	if err := m.Settle(t.Context(), mc.cl, "id", kafka.ProducerID{ID: 7, Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	equal(t, "asked", strings.Join(mc.asked, "; "), "v3 id 7/2 adds orders/0; adds offsets of group; v4 commits false; v3 id 7/2 adds orders/1; v4 commits true")
	equal(t, "owes", m.Owes("id"), false)
	count("after", 1, 0)
}

// A transaction of markers whose end was not answered is ended before anybody asks for the id, which would abort it.
func TestMarkersAreFinished(t *testing.T) {
	finished, again := "v4 commits true; ", "asks for id; v3 id 7/1 adds orders/1; v4 commits true"
	for _, test := range []struct {
		name   string
		refuse *kerr.Error
		want   string
		err    error
	}{
		{"it is open", nil, finished + again, nil},
		{"it has ended", kerr.InvalidTxnState, finished + again, nil},
		{"somebody has asked for the id", kerr.ProducerFenced, finished + again, nil},
		{"nobody may ask", kerr.TransactionalIDAuthorizationFailed, finished + again, nil},
		{"its end is on the way", kerr.ConcurrentTransactions, "v4 commits true", kafka.ErrBusyID},
		{"nobody knows", kerr.UnknownServerError, "v4 commits true", kerr.UnknownServerError},
	} {
		mc := newMarkerCluster(t)
		m := NewMarkers([]kgo.Opt{kgo.SeedBrokers(mc.ListenAddrs()...)}, "group", slog.New(slog.DiscardHandler))
		m.See("orders", map[int32]kafka.Leader{1: {Epoch: 0, There: true}})
		m.of("id").inherit([]kafka.TopicPartition{{Topic: "orders", Partition: 1}}, true)
		ctx, cancel := context.WithCancel(t.Context())
		mc.set(cancel, nil)
		if err := m.claim(ctx, mc.cl, "id", time.Minute, 0); err == nil {
			t.Error("it is claimed without an answer")
		}
		mc.set(nil, test.refuse)
		err := m.claim(t.Context(), mc.cl, "id", time.Minute, 0)
		equal(t, test.name, strings.Join(slices.Compact(mc.asked), "; "), test.want)
		equal(t, test.name+": error", errors.Is(err, test.err), true)
		equal(t, test.name+": it owes", m.Owes("id"), test.err != nil)
	}
}

func (mc *markerCluster) set(vain func(), refuse *kerr.Error) {
	mc.mu.Lock()
	defer mc.mu.Unlock()
	mc.vain, mc.refuse, mc.asked = vain, refuse, nil
}

// A process that is started again with the ids of one that has ended in the midst of a transaction looks who leads its partitions before it goes on.
func TestMarkersOfAnEarlierProcess(t *testing.T) {
	mc := newMarkerCluster(t)
	mc.states["id"] = []string{"Ongoing", "PrepareAbort"}
	m := NewMarkers([]kgo.Opt{kgo.SeedBrokers(mc.ListenAddrs()...)}, "group", slog.New(slog.DiscardHandler))
	if err := m.resolve(t.Context(), mc.cl, "id", time.Minute); err != nil {
		t.Fatal(err)
	}
	mc.asked = nil
	if err := m.Settle(t.Context(), mc.cl, "id", kafka.ProducerID{ID: 7, Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	equal(t, "asked", strings.Join(mc.asked, "; "), "v3 id 7/2 adds orders/1; v4 commits false")
}

// Where one was aborted after a committed transaction, the last stable offset tells which of them is open; while others have something open below, for some time neither.
func TestMarkersOfWhichIsOpen(t *testing.T) {
	for _, test := range []struct {
		name    string
		aborted bool
		first   int64 // of the committed one. The log has a record, and all of it can be read
		waited  time.Duration
		want    string
	}{
		{"no other has tried", false, 0, 0, "v4 commits true"},
		{"it has ended", true, 0, 0, "v4 commits false"},
		{"it is open", true, 1, 0, "v4 commits true"},
		{"others are open", true, 2, 0, ""},
		{"others are open for long", true, 2, heldMost, "v4 commits true"},
	} {
		mc := newMarkerCluster(t)
		if err := mc.cl.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: 1}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		m := NewMarkers([]kgo.Opt{kgo.SeedBrokers(mc.ListenAddrs()...)}, "group", slog.New(slog.DiscardHandler))
		a := m.of("id")
		a.begin([]string{"orders"})
		a.wrote([]*kgo.Record{{Topic: "orders", Partition: 1, Offset: test.first}})
		a.end(committed)
		if test.aborted {
			a.begin([]string{"orders"})
			a.end(aborted)
			a.look = nil
		}
		m.See("orders", map[int32]kafka.Leader{1: {Epoch: 0, There: true}})
		m.See("orders", map[int32]kafka.Leader{1: {Epoch: 2, There: true}})
		if test.waited > 0 {
			a.held = time.Now().Add(-test.waited)
		}
		err := m.Settle(t.Context(), mc.cl, "id", kafka.ProducerID{ID: 7, Epoch: 2})
		equal(t, test.name+": it waits", errors.Is(err, errHeld), test.want == "")
		equal(t, test.name, strings.Join(mc.asked[min(1, len(mc.asked)):], "; "), test.want)
		equal(t, test.name+": it owes", m.Owes("id"), test.want == "")
	}
}

// Who fences a writer writes the end of its transaction again, unless the writer is back.
func TestMarkersOfAFencedWriter(t *testing.T) {
	written := "v3 id 7/1 adds orders/1; v4 commits false"
	for _, test := range []struct {
		name, then string
		again      bool // it is fenced once more
		want       string
	}{
		{"it is gone", "CompleteAbort", false, written},
		{"it was fenced once more", "Empty", true, written},
		{"somebody has asked for the id", "Empty", false, ""},
		{"it is back", "Ongoing", false, ""},
	} {
		mc := newMarkerCluster(t)
		mc.states["id"] = []string{"Ongoing", "PrepareAbort"}
		m := NewMarkers([]kgo.Opt{kgo.SeedBrokers(mc.ListenAddrs()...)}, "group", slog.New(slog.DiscardHandler))
		if err := m.Fence(t.Context(), mc.cl, []string{"id", "other"}, time.Minute, true); err != nil {
			t.Fatal(err)
		}
		ids, topics := m.inherited()
		equal(t, "owed by", fmt.Sprint(ids, topics), "[id] [orders]")
		if err := m.Look(t.Context(), mc.cl, topics); err != nil {
			t.Fatal(err)
		}
		mc.asked = nil
		m.settleFor(t.Context(), mc.cl, "id")
		equal(t, "asked while its end is on the way", strings.Join(mc.asked, "; "), "")
		mc.states["id"] = []string{test.then}
		if test.again {
			if err := m.Fence(t.Context(), mc.cl, []string{"id", "other"}, time.Minute, false); err != nil {
				t.Fatal(err)
			}
			mc.asked = nil
		}
		m.settleFor(t.Context(), mc.cl, "id")
		equal(t, test.name, strings.Join(mc.asked, "; "), test.want)
		_, _, known := m.left("id")
		equal(t, test.name+": known", known, false)
	}
}
