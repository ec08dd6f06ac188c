package producer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// How a transaction ends that was asked to commit without an answer, its coordinator says; not before a late request could change it no more.
func TestMarkersResolve(t *testing.T) {
	for _, test := range []struct {
		name, states string
		known, asked bool
		want         string // what is owed when the leader was lost
		requests     int    // for its end, or for the id
	}{
		{"not asked to commit", "CompleteCommit", true, false, "abort", 0},
		{"committed", "CompleteCommit", true, true, "commit", 0},
		{"about to be committed", "PrepareCommit", true, true, "commit", 0},
		{"aborted", "CompleteAbort", true, true, "abort", 0},
		{"open, and then committed", "Ongoing PrepareCommit", true, true, "commit", 1},
		{"open, and then aborted", "Ongoing PrepareAbort", true, true, "abort", 1},
		{"open still", "Ongoing", true, true, "", 2},
		{"somebody has asked for the id since", "Empty", true, true, "", 0},
		{"it may not be told", denied, true, true, "", 0},
		{"it may not be told any more", "Ongoing " + denied, true, true, "", 1},
		{"of an earlier process", "Ongoing PrepareAbort", false, false, "abort", 1},
		{"of an earlier process that committed", "PrepareCommit", false, false, "commit", 0},
		{"of an earlier process, ended", "CompleteAbort", false, false, "", 0},
	} {
		mc := newMarkerCluster(t)
		mc.states["id"] = strings.Fields(test.states)
		m := NewMarkers([]kgo.Opt{kgo.SeedBrokers(mc.ListenAddrs()...)}, "group", slog.New(slog.DiscardHandler))
		m.See("orders", map[int32]kafka.Leader{1: {Epoch: 0, There: true}})
		if test.known {
			m.of("id").begin([]string{"orders"})
			m.of("id").wrote([]*kgo.Record{{Topic: "orders", Partition: 1}})
		}
		if test.asked {
			m.of("id").asked, m.of("id").decided = true, &decision{in: kafka.ProducerID{ID: 7, Epoch: 1}, commit: true}
		}
		if err := m.resolve(t.Context(), mc.cl, "id", time.Minute); err != nil {
			t.Error(err)
		}
		m.See("orders", map[int32]kafka.Leader{1: {Epoch: 2, There: true}})
		got, tp := "", kafka.TopicPartition{Topic: "orders", Partition: 1}
		if _, owed := m.of("id").owed[tp]; owed {
			got = [...]string{aborted: "abort", committed: "commit", unknown: ""}[m.of("id").last[tp].how]
		}
		equal(t, test.name, got, test.want)
		equal(t, test.name+": requests", len(mc.asked), test.requests)
	}
}

// A decision to commit that was not answered is repeated before anybody asks for the id, which would abort what is open: a coordinator may have acted on it,
// and the next one may not have heard of it. One that was heard of is repeated until it is carried out, since it may be lost still.
func TestMarkersRepeatADecision(t *testing.T) {
	for _, test := range []struct {
		name, states string
		bumps        bool
		refuse       *kerr.Error
		how          outcome
		asked, again string // in order to find out how it ends; and then for the id
	}{
		{"it was lost", "Ongoing CompleteCommit", true, nil, committed, "v5 commits true", "asks for id"},
		{"it was lost, before KIP-890", "Ongoing CompleteCommit", false, nil, committed, "v4 commits true", "asks for id"},
		{"it is carried out", "PrepareCommit", true, kerr.ConcurrentTransactions, committed, "", "v5 commits true"},
		{"it is carried out as soon as it is repeated", "Ongoing PrepareCommit", true, kerr.ConcurrentTransactions, committed, "v5 commits true", "v5 commits true"},
		{"it was carried out", "CompleteCommit", true, nil, committed, "", "v5 commits true; asks for id"},
		{"somebody has asked for the id", "Ongoing Empty", true, kerr.ProducerFenced, unknown, "v5 commits true", "asks for id"},
		{"it comes too late", "Ongoing CompleteAbort", true, kerr.InvalidTxnState, aborted, "v5 commits true", "asks for id"},
		{"nobody may ask", "Ongoing", true, kerr.TransactionalIDAuthorizationFailed, unknown, "v5 commits true; asks for id", "asks for id"},
	} {
		mc := newMarkerCluster(t)
		mc.states["id"], mc.refuse = strings.Fields(test.states), test.refuse
		m := NewMarkers([]kgo.Opt{kgo.SeedBrokers(mc.ListenAddrs()...)}, "group", slog.New(slog.DiscardHandler))
		a, tp := m.of("id"), kafka.TopicPartition{Topic: "bills", Partition: 1}
		a.begin([]string{"bills"})
		a.wrote([]*kgo.Record{{Topic: "bills", Partition: 1}})
		a.asked, a.decided = true, &decision{kafka.ProducerID{ID: 7, Epoch: 1}, true, test.bumps}
		if err := m.resolve(t.Context(), mc.cl, "id", time.Minute); err != nil {
			t.Error(test.name, err)
		}
		equal(t, test.name, strings.Join(slices.Compact(mc.asked), "; "), test.asked)
		equal(t, test.name+": it has ended in the right way", a.last[tp].how == test.how, true)
		mc.asked = nil
		a.look = nil
		err := m.claim(t.Context(), mc.cl, "id", time.Minute, 0)
		equal(t, test.name+": then", strings.Join(mc.asked, "; "), test.again)
		equal(t, test.name+": busy", errors.Is(err, kafka.ErrBusyID), !strings.HasSuffix(test.again, "id") || test.states == "Ongoing")
	}
}

// While its decision is repeated, the next one to ask for an id waits for as long as it has patience.
func TestMarkersRepeatWithPatience(t *testing.T) {
	mc := newMarkerCluster(t)
	m := NewMarkers([]kgo.Opt{kgo.SeedBrokers(mc.ListenAddrs()...)}, "group", slog.New(slog.DiscardHandler))
	m.of("id").decided = &decision{kafka.ProducerID{ID: 7, Epoch: 1}, true, true}
	mc.refuse = kerr.ConcurrentTransactions
	time.AfterFunc(50*time.Millisecond, func() { mc.set(nil, nil) })
	if err := m.claim(t.Context(), mc.cl, "id", time.Minute, time.Minute); err != nil {
		t.Error(err)
	}
	mc.mu.Lock()
	defer mc.mu.Unlock()
	equal(t, "asked", strings.Join(slices.Compact(mc.asked), "; "), "v5 commits true; asks for id")
}

// A coordinator that does not say how a transaction ends, since it is just being moved, is asked again before anybody asks for the id: that it was
// committed nobody would know any more.
func TestMarkersResolveWhileTheCoordinatorMoves(t *testing.T) {
	mc := newMarkerCluster(t)
	mc.states["id"] = []string{moves}
	m := NewMarkers(nil, "group", slog.New(slog.DiscardHandler))
	a, tp := m.of("id"), kafka.TopicPartition{Topic: "orders", Partition: 1}
	a.begin([]string{"orders"})
	a.wrote([]*kgo.Record{{Topic: "orders", Partition: 1}})
	a.asked = true
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := m.resolve(ctx, mc.cl, "id", time.Minute); err == nil {
		t.Error("it is settled without an answer")
	}
	mc.mu.Lock()
	mc.states["id"] = []string{"PrepareCommit"}
	mc.mu.Unlock()
	if err := m.resolve(t.Context(), mc.cl, "id", time.Minute); err != nil {
		t.Error(err)
	}
	equal(t, "committed", m.of("id").last[tp].how == committed, true)
}

// What is no answer at all may be one later, whatever the client calls it; what no broker knows, or nobody may know, is none later either.
func TestMayBeTold(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                                     false,
		kerr.CoordinatorLoadInProgress:          true,
		kerr.TransactionalIDAuthorizationFailed: false,
		kerr.UnsupportedVersion:                 false,
		io.EOF:                                  true,
		io.ErrUnexpectedEOF:                     true,
		context.DeadlineExceeded:                true,
		errors.New("the broker connection has died and the request will be retried on a new connection"):             true,
		errors.New("broker is too old; the broker has already indicated it will not know how to handle the request"): false,
	} {
		if err != nil {
			err = fmt.Errorf("describe transactions: %w", errors.Join(err))
		}
		equal(t, fmt.Sprint(err), mayBeTold(err), want)
	}
}

// Before a client that has asked to commit and has not been answered is replaced, which aborts what is open, the same is asked for again.
func TestDecisionIsRepeated(t *testing.T) {
	code := int16(0)
	c, p := renewed(t, &code)
	p.cfg.Markers = NewMarkers(p.cfg.Client, "group", slog.New(slog.DiscardHandler))
	if err := p.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	rec := &kgo.Record{Topic: "t", Partition: AnyPartition, Value: []byte("v")}
	tx := begun(t, p)
	tx.WritesTo([]string{"t"})
	p.Client().Produce(t.Context(), rec, nil)
	if err := p.Client().Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		cancel()
		return nil, errNoAnswer, true
	})
	if err := tx.Decide(ctx, slices.Values([]*kgo.Record{rec})); !errors.Is(err, ErrUndecided) {
		t.Fatal(err)
	}
	var asked []string
	c.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch req := req.(type) {
		case *kmsg.EndTxnRequest:
			asked = append(asked, fmt.Sprintf("v%d commits %v %v", req.Version, req.Commit, kafka.ProducerID{ID: req.ProducerID, Epoch: req.ProducerEpoch} == tx.in))
		case *kmsg.InitProducerIDRequest:
			asked = append(asked, "asks for the id")
		}
		return nil, nil, false
	})
	if err := p.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "asked", strings.Join(slices.Compact(asked), "; "), "v5 commits true true; asks for the id")
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	equal(t, "read", len(cl.PollFetches(ctx).Records()), 1)
}

// Nothing is owed to a topic that does not exist any more, nor to one that is made anew under its name, and nothing is kept of it. A broker may only not have heard of it.
func TestMarkersOfATopicThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMarkers(nil, "group", slog.New(slog.DiscardHandler))
		owed := kafka.TopicPartition{Topic: "orders"}
		leads := func(topic string, epoch int32) { m.See(topic, map[int32]kafka.Leader{0: {Epoch: epoch, There: true}}) }
		leads("orders", 3)
		leads("bills", 3)
		for _, id := range []string{"id", "open"} {
			m.of(id).begin([]string{"orders", "bills"})
			m.of(id).wrote([]*kgo.Record{{Topic: "orders", Offset: 7}, {Topic: "bills", Offset: 7}})
		}
		m.of("id").end(aborted)
		m.of("fenced").inherit([]kafka.TopicPartition{owed}, false)
		m.of("fenced").given = &kafka.ProducerID{}
		leads("orders", 5)
		leads("bills", 5)
		keeps := func() string {
			_, orders := m.of("id").owed[owed]
			ids, _ := m.inherited()
			return fmt.Sprint(orders, len(m.leaders), len(m.lapses), len(m.of("id").topics), len(m.of("id").last), len(m.of("id").look), ids, len(m.of("open").owed))
		}
		all, less := "true 2 2 3 3 3 [fenced] 2", "false 1 1 2 2 2 [] 2"
		equal(t, "before", keeps(), all)
		m.See("orders", nil)
		time.Sleep(goneAfter - time.Second)
		m.See("orders", nil)
		equal(t, "while it may be there", keeps(), all)
		leads("orders", 5)
		time.Sleep(goneAfter)
		m.See("orders", nil)
		equal(t, "when it was there meanwhile", keeps(), all)
		m.See("names that were invented", nil)
		equal(t, "names that are kept", len(m.missing), 1)
		time.Sleep(goneAfter)
		m.See("orders", nil)
		equal(t, "when it is gone", keeps(), less)
		equal(t, "what is kept of the writer that was fenced", m.fenced("fenced"), false)
		m.of("open").end(aborted)
		m.See("orders", nil)
		time.Sleep(goneAfter)
		m.See("orders", nil)
		equal(t, "when the last transaction has ended", len(m.of("open").owed), 1)
		equal(t, "names that are kept at the end", len(m.missing), 0)
	})
}
