package standby

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/assignor"
	"github.com/duewheel/duewheel/processor/internal/answers"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// nowhere has no broker.
var nowhere = []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}

// readsFrom gives standbys their reader.
func (s *Set) readsFrom(t *testing.T, client []kgo.Opt) {
	t.Helper()
	reader, closeReader, err := kafka.NewReader(client, fetchBytes)
	if err != nil {
		t.Fatal(err)
	}
	s.reader = reader
	t.Cleanup(closeReader)
}

// broker is one with the delay topic, of each of whose partitions a group has committed the same.
type broker struct {
	*kfake.Cluster
	mu   sync.Mutex
	seen []string // which requests it was sent, but for those that a client makes by itself
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &broker{Cluster: c}
}

// commits has it watch requests, and answer that a checkpoint is committed.
func (b *broker) commits(t *testing.T, c state.Checkpoint) {
	t.Helper()
	c.TopicID = kafka.TopicID(b.TopicInfo(testTopic).TopicID).Short()
	md, err := c.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	b.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		b.mu.Lock()
		defer b.mu.Unlock()
		switch req := req.(type) {
		case *kmsg.ApiVersionsRequest, *kmsg.MetadataRequest, *kmsg.FindCoordinatorRequest, *kmsg.FetchRequest:
		case *kmsg.OffsetFetchRequest:
			b.seen = append(b.seen, fmt.Sprintf("OffsetFetch stable=%v", req.RequireStable))
			return answers.Fetch(req, c.Offset, md, 0), nil, true
		default:
			b.seen = append(b.seen, kmsg.NameForKey(req.Key()))
		}
		return nil, nil, false
	})
}

// Standbys are not kept of what a lane of the same process has, and what a lane takes over is left
// alone from then on.
func TestStandbysLeaveLanesAlone(t *testing.T) {
	e := testEnv(t)
	s := New(e)
	c := checkpointAt(e, state.Checkpoint{Offset: 1})
	e.Assigned.Remember(0, testTP, nil)
	store, err := e.Store.Partition(e.Store.ID(testTP, testID))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.open(t.Context(), testTP, testID, c, kafka.Bounds{}); err != nil || s.m[testTP] != nil {
		t.Fatalf("a lane's partition is followed: %v, error %v", s.m[testTP], err)
	}
	if err := store.Commit(state.Position{Epoch: state.NoEpoch}); err != nil {
		t.Errorf("the lane cannot use its store any more: %v", err)
	}
	e.Assigned.Forget(0, testTP)
	if err := s.open(t.Context(), testTP, testID, c, kafka.Bounds{}); err != nil || s.m[testTP] == nil {
		t.Fatalf("the partition is not followed: error %v", err)
	}
	b := s.m[testTP]
	if s.Take(testTP, testID) != b.Follower {
		t.Error("it is not what is taken over")
	}
	touched := false
	if err := s.step(b, func() error { touched = true; return nil }); err != nil || touched {
		t.Errorf("it is still worked with, error %v", err)
	}
	if s.Take(testTP, testID) != nil {
		t.Error("it is taken over twice")
	}
}

// Standbys only ask: they write nothing to Kafka.
func TestStandbysOnlyAsk(t *testing.T) {
	e, b := testEnv(t), newBroker(t)
	s := New(e)
	id := kafka.TopicID(b.TopicInfo(testTopic).TopicID)
	s.readsFrom(t, []kgo.Opt{kgo.SeedBrokers(b.ListenAddrs()...)})
	b.commits(t, checkpointAt(e, state.Checkpoint{Offset: 0}))
	s.wanted, s.ids = []kafka.TopicPartition{testTP}, map[kafka.TopicPartition]kafka.TopicID{testTP: id}
	s.follow(t.Context())
	equal(t, "standbys", len(s.Pictures()), 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := slices.Compact(b.seen)
	equals(t, "requests", seen, []string{"OffsetFetch stable=false", "ListOffsets"})
}

// A standby is kept until the lane that has been given the partition takes it, although the group says
// already that it is this replica's own.
func TestStandbyWaitsForItsLane(t *testing.T) {
	e, b := testEnv(t), newBroker(t)
	s := New(e)
	s.readsFrom(t, []kgo.Opt{kgo.SeedBrokers(b.ListenAddrs()...)})
	if err := s.open(t.Context(), testTP, testID, checkpointAt(e, state.Checkpoint{Offset: 1}), kafka.Bounds{}); err != nil || s.m[testTP] == nil {
		t.Fatalf("the partition is not followed: error %v", err)
	}
	s.reading[testTP] = true
	s.saw(&assignor.View{Replicas: []string{"duewheel-me", "duewheel-other"}, Owners: map[kafka.TopicPartition]string{testTP: "duewheel-me"}}, "duewheel-me")
	s.follow(t.Context())
	e.Assigned.Remember(0, testTP, nil) // only now the lane hears of it
	if s.Take(testTP, testID) == nil {
		t.Error("it was given up a moment before it was needed")
	}
}

// What the group has written before it had its name is its own to a standby, too: the checkpoint says by which name.
func TestStandbyGoesByTheNameOfItsCheckpoint(t *testing.T) {
	for identity, want := range map[string]string{"former": "former", "": "g"} {
		e, b := testEnv(t), newBroker(t)
		s := New(e)
		s.readsFrom(t, []kgo.Opt{kgo.SeedBrokers(b.ListenAddrs()...)})
		if err := s.open(t.Context(), testTP, testID, checkpointAt(e, state.Checkpoint{Offset: 1, Identity: identity}), kafka.Bounds{}); err != nil {
			t.Fatal(err)
		}
		equal(t, "what it takes for written by the group", s.m[testTP].mark, topics.NewMark(testID.Short(), want, testTP.Partition))
	}
}

// The fetches of standbys are bounded, and one that waits for its owner is not read on.
func TestStandbysPauseReading(t *testing.T) {
	e := testEnv(t)
	s := New(e)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ended, nowhere); err != nil {
		t.Fatal(err)
	}
	equal(t, "bytes of the first fetch", s.reader.OptValue(kgo.FetchMaxBytes), any(int32(2<<20)))
	s.readsFrom(t, nowhere)
	if err := s.open(t.Context(), testTP, testID, checkpointAt(e, state.Checkpoint{Offset: 1}), kafka.Bounds{}); err != nil {
		t.Fatal(err)
	}
	b := s.m[testTP]
	paused := func() bool {
		s.steer()
		return len(s.reader.PauseFetchPartitions(nil)) > 0
	}
	equal(t, "paused at the beginning", paused(), false)
	for offset := range int64(3) {
		if err := b.read([]*kgo.Record{req(offset, ms(1000), "orders")}); err != nil {
			t.Fatal(err)
		}
		equal(t, fmt.Sprintf("paused after record %d", offset), paused(), offset > 0)
	}
	if _, err := b.Follow(checkpointAt(e, state.Checkpoint{Offset: 3})); err != nil {
		t.Fatal(err)
	}
	equal(t, "paused when the owner has accepted them", paused(), false)
}
