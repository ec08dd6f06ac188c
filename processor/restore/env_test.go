package restore

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/internal/wiretap"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

const (
	testTopic = "requests"
	testNow   = int64(1_000_000_000_000) // when tests begin
)

var (
	testID = kafka.TopicID{1, 2, 3, 4, 5}
	testTP = kafka.TopicPartition{Topic: testTopic, Partition: 3}
)

// stay is that of a member, of which brokers know nothing.
type stay struct{}

func (stay) Member() kafka.Member { return kafka.Member{ID: "me", Generation: 1} }

// still is a clock that stands still.
type still struct{}

func (still) Now() int64   { return testNow }
func (still) Limit() int64 { return testNow }

// none are the standbys of a process that keeps none.
type none struct{}

func (none) Advance(kafka.TopicPartition, kafka.TopicID, state.Checkpoint) error { return nil }
func (none) Take(kafka.TopicPartition, kafka.TopicID) *pending.Follower          { return nil }

// testEnv is that of a lane with a store and without brokers.
func testEnv(t *testing.T, brokers ...string) *Env {
	t.Helper()
	if len(brokers) == 0 {
		brokers = []string{"127.0.0.1:1"}
	}
	e := &Env{
		Group: "g", Writer: "g-0@me", SessionTimeout: 10 * time.Second, TransactionTimeout: time.Minute, EmptyTimeout: 30 * time.Second, Window: 4000,
		Clock: still{}, Coordinator: kafka.NewCoordinator("g"), Epochs: &kafka.Epochs{}, Standbys: none{}, Assigned: &picture.Set{},
		Warm: &atomic.Int64{}, Fenced: func(kafka.TopicPartition, string) {}, Uneven: wait.NewWake(), Until: context.Background(), Log: slog.New(slog.DiscardHandler),
	}
	e.routes(t, func(*topics.Route) {})
	e.Store = local.New(state.Options{Dir: "state", FS: vfs.NewMem(), MemoryBudget: 8 << 20, Logger: e.Log}, e.Group, e.Assigned)
	if err := e.Store.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Store.Close)
	reader, closeReader, err := kafka.NewReader([]kgo.Opt{kgo.SeedBrokers(brokers...)}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeReader)
	e.Reader = reader
	return e
}

// testCluster is a broker with the delay topic, and a lane that can reach it.
func testCluster(t *testing.T) (*Env, *wiretap.Tap) {
	t.Helper()
	w := wiretap.New(t, kfake.SeedTopics(4, testTopic))
	return testEnv(t, w.C.ListenAddrs()...), w
}

// routes makes the test's route anew.
func (e *Env) routes(t *testing.T, tune func(*topics.Route)) {
	t.Helper()
	r := topics.Route{Topic: testTopic, Allow: []string{"orders", "bills"}, DeadLetter: testTopic + ".dead"}
	tune(&r)
	made, err := topics.NewRoutes(r)
	if err != nil {
		t.Fatal(err)
	}
	e.Routes = map[string]*topics.Route{testTopic: made[0]}
}

// finds makes the test's partition, whose checkpoint was found as it is, and whose log ends there.
func (e *Env) finds(t *testing.T, c state.Checkpoint, end int64) *Partition {
	t.Helper()
	c.TopicID = testID.Short()
	md, err := c.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := e.Make(testTP, Found{ID: testID, Fetched: kafka.Fetched{Offset: c.Offset, Metadata: md}, Bounds: kafka.Bounds{Stable: end, High: end}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func equals[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %v, want %v", what, got, want)
	}
}
