package standby

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/internal/samples"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
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
	testID   = kafka.TopicID{1, 2, 3, 4, 5}
	testTP   = kafka.TopicPartition{Topic: testTopic, Partition: 3}
	testMark = topics.NewMark(testID.Short(), "g", testTP.Partition)
	farMs    = int64(40_000)
)

// testEnv is that of a process with a store and without lanes.
func testEnv(t *testing.T) *Env {
	t.Helper()
	routes, err := topics.NewRoutes(topics.Route{Topic: testTopic, Allow: []string{"orders"}, DeadLetter: testTopic + ".dead"})
	if err != nil {
		t.Fatal(err)
	}
	e := &Env{
		Group: "g", Instance: "me", Copies: 1, SessionTimeout: 10 * time.Second, Routes: map[string]*topics.Route{testTopic: routes[0]},
		Assigned: &picture.Set{}, Epochs: &kafka.Epochs{}, Rebalances: &atomic.Int64{}, Uneven: wait.NewWake(), Log: slog.New(slog.DiscardHandler),
	}
	e.Store = local.New(state.Options{Dir: "state", FS: vfs.NewMem(), MemoryBudget: 8 << 20, Logger: e.Log}, e.Group, e.Assigned)
	if err := e.Store.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Store.Close)
	return e
}

// req is a request for a target, due at a ms.
func req(offset, due int64, target string) *kgo.Record {
	return samples.Request(testTopic, testTP.Partition, offset, testNow, due, target)
}

// control is the marker of a transaction.
func control(offset int64) *kgo.Record {
	return samples.Marker(testTopic, testTP.Partition, offset, testNow)
}

func ms(n int64) int64 { return testNow + n }

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
