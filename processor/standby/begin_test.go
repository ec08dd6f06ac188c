package standby

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// fetched is what brokers answer when a checkpoint is committed.
func fetched(t *testing.T, c state.Checkpoint) kafka.Fetched {
	t.Helper()
	md, err := c.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return kafka.Fetched{Offset: c.Offset, Epoch: c.Epoch, Metadata: md}
}

// A topic that was made anew has nothing in common with the one before: what is followed of that one is handed to no lane and told of no checkpoint, and makes
// way for a standby of the new one, when a checkpoint of that is committed.
func TestStandbyOfATopicMadeAnew(t *testing.T) {
	e, b := testEnv(t), newBroker(t)
	s := New(e)
	s.readsFrom(t, []kgo.Opt{kgo.SeedBrokers(b.ListenAddrs()...)})
	open := func() *standby {
		t.Helper()
		if err := s.open(t.Context(), testTP, testID, checkpointAt(e, state.Checkpoint{Offset: 1}), kafka.Bounds{}); err != nil {
			t.Fatal(err)
		}
		return s.m[testTP]
	}
	anew := kafka.TopicID(b.TopicInfo(testTopic).TopicID)
	was := open()
	if err := s.Advance(testTP, anew, checkpointAt(e, state.Checkpoint{Offset: 5, LowWater: 5})); err != nil {
		t.Fatal(err)
	}
	equal(t, "O of what is followed, when another topic has advanced", was.Marks().Committed.Offset, 1)
	equal(t, "the lane of another topic gets it", s.Take(testTP, anew) != nil, false)
	was = open()
	c := checkpointAt(e, state.Checkpoint{})
	s.followOne(t.Context(), testTP, anew, fetched(t, c))
	equal(t, "followed by a checkpoint of the former topic", s.m[testTP], was)
	c.TopicID = anew.Short()
	s.followOne(t.Context(), testTP, anew, fetched(t, c))
	equal(t, "the topic that is followed", s.m[testTP].id, anew)
}

// A standby begins when there is something to follow, and not before its time: what was given up rests, and what this process catches up with comes first.
func TestStandbyBeginsInTime(t *testing.T) {
	other := kafka.TopicPartition{Topic: testTopic, Partition: 0}
	for name, c := range map[string]struct {
		make   func(s *Set, f *kafka.Fetched)
		begins bool
	}{
		"at once":               {func(*Set, *kafka.Fetched) {}, true},
		"nothing is committed":  {func(_ *Set, f *kafka.Fetched) { f.Offset = -1 }, false},
		"it rests":              {func(s *Set, _ *kafka.Fetched) { s.notBefore[testTP] = time.Now().Add(time.Minute) }, false},
		"it has rested":         {func(s *Set, _ *kafka.Fetched) { s.notBefore[testTP] = time.Now().Add(-time.Minute) }, true},
		"a lane is restoring":   {func(s *Set, _ *kafka.Fetched) { s.Assigned.Remember(0, other, nil) }, false},
		"the lane has given up": {func(s *Set, _ *kafka.Fetched) { s.Assigned.Remember(0, other, nil); s.Assigned.Forget(0, other) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			e, b := testEnv(t), newBroker(t)
			s := New(e)
			s.readsFrom(t, []kgo.Opt{kgo.SeedBrokers(b.ListenAddrs()...)})
			id := kafka.TopicID(b.TopicInfo(testTopic).TopicID)
			cp := checkpointAt(e, state.Checkpoint{})
			cp.TopicID = id.Short()
			f := fetched(t, cp)
			c.make(s, &f)
			s.followOne(t.Context(), testTP, id, f)
			equal(t, "it begins", s.m[testTP] != nil, c.begins)
		})
	}
}

// A checkpoint that was set back by hand has all be read again from its low water on, whether the standby was reading or waited for its owner.
func TestStandbySetBackReadsAgain(t *testing.T) {
	e, b := testEnv(t), newBroker(t)
	s := New(e)
	s.readsFrom(t, []kgo.Opt{kgo.SeedBrokers(b.ListenAddrs()...)})
	id := kafka.TopicID(b.TopicInfo(testTopic).TopicID)
	follow := func(c state.Checkpoint) {
		t.Helper()
		c = checkpointAt(e, c)
		c.TopicID = id.Short()
		s.followOne(t.Context(), testTP, id, fetched(t, c))
		if s.m[testTP] == nil {
			t.Fatal("it is not followed")
		}
	}
	follow(state.Checkpoint{Offset: 1})
	if err := s.m[testTP].read([]*kgo.Record{req(0, ms(1000), "orders"), req(1, ms(1000), "orders")}); err != nil {
		t.Fatal(err)
	}
	s.steer()
	s.steer() // which pauses it
	equal(t, "partitions that wait for their owner", len(s.reader.PauseFetchPartitions(nil)), 1)
	follow(state.Checkpoint{Offset: 0})
	_, knows := s.reading[testTP]
	equal(t, "it goes on reading where it was", knows, false)
	s.steer()
	equal(t, "partitions that wait", len(s.reader.PauseFetchPartitions(nil)), 0)
	equal(t, "read from", s.m[testTP].Marks().Position, 0)
}
