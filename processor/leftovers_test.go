package processor

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the store holds of a partition that is elsewhere is given up after a while: not sooner, not what
// a lane or a standby here needs, and not what the log has lost.
func TestLeftovers(t *testing.T) {
	for _, c := range []struct {
		name  string
		found state.Checkpoint
		start int64 // of the log
		here  bool
		after time.Duration
		gone  bool
	}{
		{"elsewhere for long", state.Checkpoint{Offset: 9, LowWater: 4}, 0, false, leftoverAfter, true},
		{"elsewhere for a while", state.Checkpoint{Offset: 9, LowWater: 4}, 0, false, leftoverAfter - time.Second, false},
		{"a lane has it", state.Checkpoint{Offset: 9, LowWater: 4}, 0, true, leftoverAfter, false},
		{"the log has lost what is pending", state.Checkpoint{Offset: 9, LowWater: 4}, 5, false, leftoverAfter, false},
		{"no checkpoint", state.Checkpoint{Offset: -1}, 0, false, leftoverAfter, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			tp := kafka.TopicPartition{Topic: testTopic, Partition: 0}
			id := state.PartitionID{Group: "g", Topic: testTopic, TopicID: w.c.TopicInfo(testTopic).TopicID, Partition: 0}
			part, err := l.store.Partition(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(part.Put(state.Key{Due: 1}, []byte("x")), part.Commit(state.Position{Offset: 5})); err != nil {
				t.Fatal(err)
			}
			w.logStart(t, tp, c.start)
			w.checkpoints(t, withParsers(l, c.found), nil)
			if c.here {
				l.assigned.Remember(l.n, tp, nil)
			}
			f := newLeftovers(l.shared, nil, l.reader)
			began := time.Now()
			for _, at := range []time.Duration{0, c.after} {
				if err := f.sweep(t.Context(), began.Add(at)); err != nil {
					t.Fatal(err)
				}
			}
			if _, held := l.store.opened.Load().Positions()[id]; held == c.gone {
				t.Errorf("the store still has it: %v", held)
			}
		})
	}
}

// What the store holds of a topic that is not there any more is given up when brokers have said so for a while, whichever group had it; not when
// they do not say. What a topic is there for is left alone, also where no route has it: offsets may expire, and then only the store knows.
func TestLeftoversOfTopicsThatAreGone(t *testing.T) {
	for _, c := range []struct {
		name  string
		group string
		topic string
		id    byte // of the topic; 0: the one that it has
		deny  error
		back  bool // brokers say in between that it is there
		after time.Duration
		gone  bool
	}{
		{name: "deleted", group: "g", topic: "former", id: 1, after: goneAfter, gone: true},
		{name: "deleted a while ago", group: "g", topic: "former", id: 1, after: goneAfter - time.Second},
		{name: "deleted, of another group", group: "former", topic: "former", id: 1, after: goneAfter, gone: true},
		{name: "made anew", group: "g", topic: testTopic, id: 1, after: goneAfter, gone: true},
		{name: "made anew, of another group", group: "former", topic: "orders", id: 1, after: goneAfter, gone: true},
		{name: "brokers say so now and then", group: "g", topic: "former", id: 1, back: true, after: goneAfter},
		{name: "brokers do not say", group: "g", topic: "former", id: 1, deny: kerr.TopicAuthorizationFailed, after: goneAfter},
		{name: "there, and of no route", group: "g", topic: "orders", after: goneAfter},
		{name: "there, and of another group", group: "former", topic: testTopic, after: goneAfter},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			w.checkpoints(t, state.Checkpoint{Offset: -1}, nil)
			id := state.PartitionID{Group: c.group, Topic: c.topic, TopicID: [16]byte{c.id}, Partition: 0}
			if c.id == 0 {
				id.TopicID = w.c.TopicInfo(c.topic).TopicID
			}
			part, err := l.store.Partition(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(part.Put(state.Key{Due: 1}, []byte("x")), part.Commit(state.Position{Offset: 5})); err != nil {
				t.Fatal(err)
			}
			var say error
			w.c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
				w.c.KeepControl()
				if r := req.(*kmsg.MetadataRequest); say != nil && len(r.Topics) == 1 && *r.Topics[0].Topic == c.topic {
					return noMetadata(r, say), nil, true
				}
				return nil, nil, false
			})
			f := newLeftovers(l.shared, nil, l.reader)
			began := time.Now()
			for _, at := range []time.Duration{0, leftoverAfter, leftoverAfter + goneAfter/2, leftoverAfter + c.after} {
				if say = c.deny; c.back && at == leftoverAfter+goneAfter/2 {
					say = kerr.LeaderNotAvailable
				}
				if err := f.sweep(t.Context(), began.Add(at)); err != nil {
					t.Fatal(err)
				}
			}
			if _, held := l.store.opened.Load().Positions()[id]; held == c.gone {
				t.Errorf("the store still has it: %v", held)
			}
			if err := part.Commit(state.Position{Offset: 6}); c.gone != errors.Is(err, state.ErrEnded) {
				t.Errorf("who held it writes: %v", err)
			}
		})
	}
}

// That a topic is gone has to be said without a break: brokers that cannot be asked, or a store that is away, begin it anew.
func TestGoneIsSaidWithoutABreak(t *testing.T) {
	for _, c := range []struct {
		name   string
		broken bool // brokers do not answer
		away   bool // the store does not work
		gone   bool
	}{
		{name: "each time", gone: true},
		{name: "brokers could not be asked", broken: true},
		{name: "the store was away", away: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, w := testCluster(t)
			id := state.PartitionID{Group: "g", Topic: "former", TopicID: [16]byte{1}, Partition: 0}
			part, err := l.store.Partition(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(part.Put(state.Key{Due: 1}, []byte("x")), part.Commit(state.Position{Offset: 5})); err != nil {
				t.Fatal(err)
			}
			silent := false
			w.c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
				w.c.KeepControl()
				r := req.(*kmsg.MetadataRequest)
				return nil, errors.New("no answer"), silent && len(r.Topics) == 1 && *r.Topics[0].Topic == id.Topic
			})
			f := newLeftovers(l.shared, nil, l.reader)
			store, began := l.store.opened.Load(), time.Now()
			for n, at := range []time.Duration{0, leftoverAfter, leftoverAfter + goneAfter/2, leftoverAfter + goneAfter} {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if silent = c.broken && n == 2; silent {
					cancel() // a client would go on asking
				}
				if l.store.opened.Store(store); c.away && n == 2 {
					l.store.opened.Store(nil)
				}
				if err := f.sweep(ctx, began.Add(at)); (err != nil) != silent {
					t.Fatalf("%v: %v", at, err)
				}
				cancel()
			}
			if _, held := store.Positions()[id]; held == c.gone {
				t.Errorf("the store still has it: %v", held)
			}
		})
	}
}

// How large it is what a store gives up is found out where neither lanes nor probes wait for it.
func TestGivingUpHoldsNothingUp(t *testing.T) {
	var hangs atomic.Bool
	reached, resume := make(chan struct{}, 100), make(chan struct{})
	l, _ := testCluster(t, func(cfg *Config) {
		cfg.FS = errorfs.Wrap(cfg.FS, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if (op.Kind == errorfs.OpFileReadAt || op.Kind == errorfs.OpOpen) && strings.HasSuffix(op.Path, ".sst") && hangs.Load() {
				reached <- struct{}{}
				<-resume
			}
			return nil
		}))
	})
	id := state.PartitionID{Group: "g", Topic: "former", TopicID: [16]byte{1}, Partition: 0}
	for ; id.Partition < 2; id.Partition++ { // so that a table holds more than the one
		part, err := l.store.Partition(id)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(part.Put(state.Key{Due: 1}, []byte("x")), part.Commit(state.Position{Offset: 5})); err != nil {
			t.Fatal(err)
		}
	}
	id.Partition = 0
	if err := l.store.opened.Load().Flush(); err != nil {
		t.Fatal(err)
	}
	f := newLeftovers(l.shared, nil, l.reader)
	now := time.Now()
	f.gone[id] = now.Add(-goneAfter)
	removed, looked := make(chan error, 1), make(chan struct{})
	hangs.Store(true)
	go func() { removed <- f.remove(id, now) }()
	select {
	case <-reached:
	case <-time.After(10 * time.Second):
		t.Fatal("no table is read")
	}
	go func() {
		defer close(looked)
		l.assigned.Remember(l.n, testTP, nil)
		l.assigned.All()
		l.store.hasRoom()
	}()
	select {
	case <-looked:
	case <-time.After(10 * time.Second):
		t.Error("lanes and probes wait for the disk")
	}
	hangs.Store(false)
	close(resume)
	if err := <-removed; err != nil {
		t.Error(err)
	}
	<-looked
}

// noMetadata says of the topics of a request that brokers do not say.
func noMetadata(r *kmsg.MetadataRequest, why error) *kmsg.MetadataResponse {
	resp := r.ResponseKind().(*kmsg.MetadataResponse)
	for _, asked := range r.Topics {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.ErrorCode = asked.Topic, why.(*kerr.Error).Code
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// withParsers completes a checkpoint.
func withParsers(l *lane, c state.Checkpoint) state.Checkpoint {
	c.Parsers = pending.WithParser(state.Checkpoint{}, l.routes[testTopic].Spec(), 0)
	return c
}

// logStart cuts a log off: it gets some records, and those below an offset are deleted.
func (w *wiretap) logStart(t *testing.T, tp kafka.TopicPartition, start int64) {
	t.Helper()
	if start == 0 {
		return
	}
	cl := w.client(t)
	for range 9 {
		r := req(0, testNow, "orders")
		r.Partition = tp.Partition
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := kadm.NewClient(cl).DeleteRecords(t.Context(), kadm.Offsets{tp.Topic: {tp.Partition: {Topic: tp.Topic, Partition: tp.Partition, At: start}}})
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// client is one that has nothing to do with what is tested.
func (w *wiretap) client(t *testing.T) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}
