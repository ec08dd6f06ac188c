package local

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/internal/answers"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// household is a process with a store and without lanes, and a broker with its delay topic, and with orders.
type household struct {
	*Store
	assigned picture.Set
	routes   map[string]*topics.Route
	broker   *kfake.Cluster
	cl       *kgo.Client
}

func newHousehold(t *testing.T, fs vfs.FS) *household {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, testTopic), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	routes, err := topics.NewRoutes(topics.Route{Topic: testTopic, Allow: []string{"orders"}, DeadLetter: testTopic + ".dead"})
	if err != nil {
		t.Fatal(err)
	}
	h := &household{broker: broker, cl: cl, routes: map[string]*topics.Route{testTopic: routes[0]}}
	h.Store = New(state.Options{Dir: "state", FS: fs, MemoryBudget: 1 << 20, Logger: slog.New(slog.DiscardHandler)}, "g", &h.assigned)
	if err := h.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// leftovers are those of it, where no standby is kept.
func (h *household) leftovers() *Leftovers {
	return NewLeftovers(h.Store, "g", h.routes, func(kafka.TopicPartition) bool { return false }, h.cl)
}

// holds has the store hold a record of a partition.
func (h *household) holds(t *testing.T, id state.PartitionID) *state.Partition {
	t.Helper()
	part, err := h.Partition(id)
	if err == nil {
		err = errors.Join(part.Put(state.Key{Due: 1}, []byte("x")), part.Commit(state.Position{Offset: 5}))
	}
	if err != nil {
		t.Fatal(err)
	}
	return part
}

// checkpoint is what the group has committed of each partition of the delay topic; a negative offset is none.
func (h *household) checkpoint(t *testing.T, c state.Checkpoint) {
	t.Helper()
	md := ""
	if c.Offset >= 0 {
		c.TopicID = kafka.TopicID(h.broker.TopicInfo(testTopic).TopicID).Short()
		c.Parsers = pending.WithParser(state.Checkpoint{}, h.routes[testTopic].Spec(), 0)
		var err error
		if md, err = c.Metadata(); err != nil {
			t.Fatal(err)
		}
	}
	h.broker.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		h.broker.KeepControl()
		return answers.Fetch(req.(*kmsg.OffsetFetchRequest), c.Offset, md, 0), nil, true
	})
}

// logStart cuts a log off: it gets some records, and those below an offset are deleted.
func (h *household) logStart(t *testing.T, tp kafka.TopicPartition, start int64) {
	t.Helper()
	if start == 0 {
		return
	}
	for range 9 {
		if err := h.cl.ProduceSync(t.Context(), &kgo.Record{Topic: tp.Topic, Partition: tp.Partition}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := kadm.NewClient(h.cl).DeleteRecords(t.Context(), kadm.Offsets{tp.Topic: {tp.Partition: {Topic: tp.Topic, Partition: tp.Partition, At: start}}})
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

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
			h := newHousehold(t, vfs.NewMem())
			tp := kafka.TopicPartition{Topic: testTopic, Partition: 0}
			id := state.PartitionID{Group: "g", Topic: testTopic, TopicID: h.broker.TopicInfo(testTopic).TopicID, Partition: 0}
			h.holds(t, id)
			h.logStart(t, tp, c.start)
			h.checkpoint(t, c.found)
			if c.here {
				h.assigned.Remember(0, tp, nil)
			}
			f := h.leftovers()
			began := time.Now()
			for _, at := range []time.Duration{0, c.after} {
				if err := f.sweep(t.Context(), began.Add(at)); err != nil {
					t.Fatal(err)
				}
			}
			if _, held := h.Opened().Positions()[id]; held == c.gone {
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
			h := newHousehold(t, vfs.NewMem())
			h.checkpoint(t, state.Checkpoint{Offset: -1})
			id := state.PartitionID{Group: c.group, Topic: c.topic, TopicID: [16]byte{c.id}, Partition: 0}
			if c.id == 0 {
				id.TopicID = h.broker.TopicInfo(c.topic).TopicID
			}
			part := h.holds(t, id)
			var say error
			h.broker.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
				h.broker.KeepControl()
				if r := req.(*kmsg.MetadataRequest); say != nil && len(r.Topics) == 1 && *r.Topics[0].Topic == c.topic {
					return noMetadata(r, say), nil, true
				}
				return nil, nil, false
			})
			f := h.leftovers()
			began := time.Now()
			for _, at := range []time.Duration{0, leftoverAfter, leftoverAfter + goneAfter/2, leftoverAfter + c.after} {
				if say = c.deny; c.back && at == leftoverAfter+goneAfter/2 {
					say = kerr.LeaderNotAvailable
				}
				if err := f.sweep(t.Context(), began.Add(at)); err != nil {
					t.Fatal(err)
				}
			}
			if _, held := h.Opened().Positions()[id]; held == c.gone {
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
			h := newHousehold(t, vfs.NewMem())
			id := state.PartitionID{Group: "g", Topic: "former", TopicID: [16]byte{1}, Partition: 0}
			h.holds(t, id)
			silent := false
			h.broker.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
				h.broker.KeepControl()
				r := req.(*kmsg.MetadataRequest)
				return nil, errors.New("no answer"), silent && len(r.Topics) == 1 && *r.Topics[0].Topic == id.Topic
			})
			f := h.leftovers()
			store, began := h.Opened(), time.Now()
			for n, at := range []time.Duration{0, leftoverAfter, leftoverAfter + goneAfter/2, leftoverAfter + goneAfter} {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if silent = c.broken && n == 2; silent {
					cancel() // a client would go on asking
				}
				if h.opened.Store(store); c.away && n == 2 {
					h.opened.Store(nil)
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
	h := newHousehold(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileReadAt || op.Kind == errorfs.OpOpen) && strings.HasSuffix(op.Path, ".sst") && hangs.Load() {
			reached <- struct{}{}
			<-resume
		}
		return nil
	})))
	id := state.PartitionID{Group: "g", Topic: "former", TopicID: [16]byte{1}, Partition: 0}
	for ; id.Partition < 2; id.Partition++ { // so that a table holds more than the one
		h.holds(t, id)
	}
	id.Partition = 0
	if err := h.Opened().Flush(); err != nil {
		t.Fatal(err)
	}
	f := h.leftovers()
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
		h.assigned.Remember(0, testTP, nil)
		h.assigned.All()
		h.HasRoom()
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
