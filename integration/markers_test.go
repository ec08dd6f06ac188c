package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
)

// The end of a transaction comes to a partition that has no leader when the transaction ends, although Kafka leaves its marker out (KAFKA-20734): nothing
// is delivered that was aborted, nothing is lost that was committed, and readers go on; whether the writer goes on, or another replica has fenced it.
func endsWithoutALeader(t *testing.T, c *brokers.Cluster) {
	for _, test := range []struct {
		name   string
		commit bool
		fenced bool
		want   []string // that is read when the next transaction of the writer has ended the other way
	}{
		{"aborted", false, false, []string{"second"}},
		{"committed", true, false, []string{"first"}},
		{"aborted by who fences it", false, true, []string{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newMarkerWorld(t, c)
			tx := w.write("first")
			if err := w.node.Kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			started := false
			defer func() {
				if !started {
					w.node.Start(context.Background())
				}
			}()
			w.awaitLeader(w.topic, false)
			other := producer.NewMarkers(w.opts, w.group, slog.New(slog.DiscardHandler))
			switch {
			case test.fenced:
				w.ask(other.Look(t.Context(), w.client, []string{kafka.OffsetsTopic}))
				w.ask(other.Fence(t.Context(), w.client, []string{w.id}, time.Minute, true))
			case test.commit:
				w.ask(tx.Decide(t.Context(), slices.Values(w.records)))
			default:
				w.abort(tx)
			}
			w.awaitEnd()
			if err := w.node.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			started = true
			w.awaitLeader(w.topic, true)
			if test.fenced {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go other.Run(ctx, w.client)
			} else {
				eventually(t, func() string { // a broker may not have heard of it yet
					w.ask(w.markers.Look(t.Context(), w.client, []string{w.topic}))
					if !w.markers.Owes(w.id) {
						return "for an end that is owed"
					}
					return ""
				})
				w.ask(w.p.Renew(t.Context()))
				if tx = w.write("second"); test.commit {
					w.abort(tx)
				} else {
					w.ask(tx.Decide(t.Context(), slices.Values(w.records)))
				}
			}
			if got := w.read(); !slices.Equal(got, test.want) {
				t.Errorf("%q is read, want %q", got, test.want)
			}
		})
	}
}

// markerWorld is a writer, and a topic on one broker that coordinates neither its transactions nor its group.
type markerWorld struct {
	*tenant
	node      *brokers.Node
	opts      []kgo.Opt
	group, id string
	topic     string
	member    kafka.Member
	markers   *producer.Markers
	p         *producer.Producer
	records   []*kgo.Record
}

func newMarkerWorld(t *testing.T, c *brokers.Cluster) *markerWorld {
	s := newTenant(t, c, setting{targets: 1, seed: newSeed(t)})
	w := &markerWorld{tenant: s, opts: s.opts(), group: s.name + "-writers", id: s.name + "-writer-0", topic: s.name + ".alone"}
	var coordinators []int32
	eventually(t, func() string {
		ids, groups := s.admin.FindTxnCoordinators(t.Context(), w.id), s.admin.FindGroupCoordinators(t.Context(), w.group)
		if err := errors.Join(ids.Error(), groups.Error()); err != nil {
			return err.Error()
		}
		coordinators = []int32{ids[w.id].NodeID, groups[w.group].NodeID}
		return ""
	})
	for _, n := range c.Nodes() {
		if !slices.Contains(coordinators, n.ID()) {
			w.node = n
		}
	}
	s.createOn([]int32{w.node.ID()}, w.topic)
	w.join()
	w.markers = producer.NewMarkers(w.opts, w.group, slog.New(slog.NewTextHandler(s.log, nil)))
	w.ask(w.markers.Look(t.Context(), s.client, []string{w.topic, kafka.OffsetsTopic}))
	w.p = producer.New(producer.Config{Client: w.opts, ID: w.id, Spare: producer.NewSpare(nil, nil), Timeout: time.Minute, Markers: w.markers,
		Bounds: producer.NewBounds(func(string) int32 { return 1 << 20 }), Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(w.p.Close)
	w.ask(w.p.Renew(t.Context()))
	return w
}

// join makes a member of the group.
func (w *markerWorld) join() {
	cl, err := kgo.NewClient(append(w.opts, kgo.ConsumerGroup(w.group), kgo.ConsumeTopics(w.route.Topic))...)
	w.ask(err)
	w.t.Cleanup(cl.Close)
	eventually(w.t, func() string {
		id, generation := cl.GroupMetadata()
		w.member = kafka.Member{ID: id, Generation: generation}
		if generation < 0 {
			return "for a member of the group"
		}
		return ""
	})
}

func (w *markerWorld) ask(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// write writes a record in a transaction, which is open then.
func (w *markerWorld) write(value string) *producer.Transaction {
	w.t.Helper()
	tx, err := w.p.Open(w.t.Context(), kafka.NewCoordinator(w.group), w.member, []kafka.Commit{{TP: kafka.TopicPartition{Topic: w.topic}, Offset: 1}})
	w.ask(err)
	tx.WritesTo([]string{w.topic})
	rec := &kgo.Record{Topic: w.topic, Value: []byte(value)}
	w.records = []*kgo.Record{rec}
	done := make(chan error, 1)
	w.p.Client().Produce(context.Background(), rec, func(_ *kgo.Record, err error) { done <- err })
	w.ask(w.p.Client().Flush(w.t.Context()))
	w.ask(<-done)
	tx.Wrote(w.records)
	return tx
}

// abort aborts the transaction, however long the coordinator takes for that.
func (w *markerWorld) abort(tx *producer.Transaction) {
	w.t.Helper()
	if tx.Abort(w.t.Context(), errors.New("given up")) == nil {
		return
	}
	eventually(w.t, func() string {
		if err := w.p.Renew(w.t.Context()); err != nil {
			return err.Error()
		}
		return ""
	})
}

// awaitLeader waits until a topic has a leader in its first partition, or none.
func (s *tenant) awaitLeader(topic string, there bool) {
	s.t.Helper()
	eventually(s.t, func() string {
		leaders, err := kafka.AskLeaders(s.t.Context(), s.client, []string{topic})
		if is, told := leaders[topic][0]; err != nil || !told || is.There != there {
			return "for a leader or none"
		}
		return ""
	})
}

// awaitEnd waits until the coordinator says that the transaction has ended.
func (w *markerWorld) awaitEnd() {
	w.t.Helper()
	eventually(w.t, func() string {
		if told, err := kafka.AskEndings(w.t.Context(), w.client, time.Second, w.id); err != nil || told[w.id].Decided && !told[w.id].Ended {
			return "for the transaction to end"
		}
		return ""
	})
}

// read is what a read_committed reader finds up to the end of the topic, or as far as it comes.
func (w *markerWorld) read() []string {
	w.t.Helper()
	eventually(w.t, func() string {
		ends, err := w.admin.ListEndOffsets(w.t.Context(), w.topic)
		stable, err2 := w.admin.ListCommittedOffsets(w.t.Context(), w.topic)
		end, _ := ends.Lookup(w.topic, 0)
		at, _ := stable.Lookup(w.topic, 0)
		if err := errors.Join(err, err2); err != nil || at.Offset < end.Offset {
			return "for an open transaction to end: " + w.standing()
		}
		return ""
	})
	cl, err := kgo.NewClient(append(w.opts, kgo.ConsumeTopics(w.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())...)
	w.ask(err)
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(w.t.Context(), w.topic)
	w.ask(err)
	end, _ := ends.Lookup(w.topic, 0)
	values := []string{}
	for next := int64(0); next < end.Offset; {
		cl.PollFetches(w.t.Context()).EachRecord(func(r *kgo.Record) {
			if next = r.Offset + 1; !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		})
	}
	return values
}

// The only broker that a target is on is killed again and again while everything is delivered to it and to another one. Some transaction has written to it
// each time, and ends without it.
func aloneAndKilled(t *testing.T, c *brokers.Cluster) {
	const target = 1
	s := newTenant(t, c, setting{targets: 2, seed: newSeed(t), nodes: map[int][]int32{target: {3, 3, 3}}})
	ps := s.startTwo()
	stop := s.keepLoading(load.Config{Rate: 500})
	for range 2 {
		s.awaitDelivered(500)
		if err := c.Node(3).Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.awaitLeader(s.targets[target], false)
		if err := c.Node(3).Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	s.arrive()
	for _, p := range ps {
		t.Logf("turns %v", p.Stats().Transactions)
		p.stop()
	}
	if s.log.count("its end was written to them again") == 0 {
		t.Error("no end was written again, and that is what this is about")
	}
	s.judge()
}

// The end of a transaction is written again, and asked for, with the rights that a replica has. What it may not write to is named, and the rest is written.
func endsWithRights(t *testing.T, c *brokers.Cluster) {
	s := newTenant(t, c, setting{targets: 2, seed: newSeed(t)})
	user := "User:" + brokers.User
	s.allowReplica(user, s.name)
	s.allow(kadm.NewACLs().Topics(s.targets[1]).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribe).Allow(user).AllowHosts())
	as := c.Opts(brokers.SASL)
	cl, err := kgo.NewClient(as...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	id := producer.IDsOf(producer.Writer(s.name, "one", 0))[0]
	in, err := kafka.AskForEpoch(t.Context(), cl, id, time.Minute, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	allowed := kafka.TopicPartition{Topic: s.targets[0]}
	forbidden := kafka.TopicPartition{Topic: s.targets[1]}
	for _, commit := range []bool{true, false} {
		refused, err := kafka.WriteMarkers(t.Context(), as, s.name, id, in, commit, []kafka.TopicPartition{{Topic: kafka.OffsetsTopic}, allowed, forbidden})
		if err != nil || len(refused) != 1 || !errors.Is(refused[forbidden], kerr.TopicAuthorizationFailed) {
			t.Errorf("commit %v: refused %v, %v", commit, refused, err)
		}
		eventually(t, func() string {
			told, err := kafka.AskEndings(t.Context(), cl, time.Second, id)
			if err != nil {
				t.Fatal(err)
			}
			if e := told[id]; !e.Ended || e.Commit != commit {
				return fmt.Sprintf("for its end: %+v", e)
			}
			return ""
		})
	}
	ends, err := s.admin.ListEndOffsets(t.Context(), s.targets...)
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]int64{allowed.Topic: 2, forbidden.Topic: 0} { // markers
		if end, _ := ends.Lookup(topic, 0); end.Offset != want {
			t.Errorf("%s ends at %d, want %d", topic, end.Offset, want)
		}
	}
}
