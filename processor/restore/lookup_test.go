package restore

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/state"
)

// What says that a log was cut is believed of a leader that says of its own epoch that it ends where the log does.
func TestLookUpAsksTwice(t *testing.T) {
	const own = 0 // the leader's epoch
	for _, c := range []struct {
		name      string
		epoch     int32
		end, last int64 // of the checkpoint's epoch, and of the leader's own
		asked     int
		ended     int64 // -1: not known
		lacking   error
		fresh     bool // the restore has just begun
	}{
		{"it was not cut", 7, 5, 5, 1, 5, nil, true},
		{"it was cut", 7, 3, 5, 2, 3, nil, true},
		{"the answer is 0 whatever is asked", 7, 0, 0, 2, -1, nil, true},
		{"a leader of before says so", 7, 3, 4, 2, -1, kerr.NotLeaderForPartition, true},
		{"a leader of before does not know it", 7, -1, 5, 1, -1, kerr.NotLeaderForPartition, true},
		{"it is not known", 7, -1, 5, 1, -1, nil, false},
		{"nor older than the leader", own, -1, -1, 1, -1, nil, true},
		{"the checkpoint bears none", -1, 3, 5, 0, -1, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, w := testCluster(t)
			e.Epochs.Tell(true)
			asked := 0
			w.Epochs(func(epoch int32) int64 {
				if asked++; epoch == own {
					return c.last
				}
				return c.end
			})
			cl := w.Client(t)
			for range 5 {
				if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: testTopic, Partition: testTP.Partition}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			of := map[kafka.TopicPartition]Found{testTP: {ID: testID, Fetched: kafka.Fetched{Offset: 4, Epoch: c.epoch}}}
			r := &restore{Env: e}
			if c.fresh {
				r.began = time.Now()
			}
			lacking, err := r.lookUp(t.Context(), of)
			if err != nil || !errors.Is(lacking, c.lacking) {
				t.Fatal(lacking, err)
			}
			ended := int64(-1)
			if f := of[testTP]; f.Ended != nil {
				ended = *f.Ended
			}
			equal(t, "where it ended", ended, c.ended)
			if _, is := of[testTP]; is != (c.lacking == nil) {
				t.Errorf("among what was found: %v", is)
			}
			equal(t, "questions", asked, c.asked)
		})
	}
}

// The epochs of a topic that was made anew begin from 0 again, and what a checkpoint of the former one bears says nothing of them.
func TestLookUpOfATopicMadeAnew(t *testing.T) {
	e, w := testCluster(t)
	e.Epochs.Tell(true)
	asked := 0
	w.Epochs(func(int32) int64 { asked++; return -1 })
	former := state.Checkpoint{TopicID: [4]byte{9}, Offset: 4}
	metadata, err := former.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	of := map[kafka.TopicPartition]Found{testTP: {ID: testID, Fetched: kafka.Fetched{Offset: 4, Epoch: 7, Metadata: metadata}}}
	lacking, err := (&restore{Env: e, began: time.Now()}).lookUp(t.Context(), of)
	if err != nil || lacking != nil || len(of) != 1 {
		t.Errorf("%v, %v, and of %d it is known", lacking, err, len(of))
	}
	equal(t, "questions", asked, 0)
}

// A checkpoint that is older than the one that the local store bears is asked for again, for a while: a coordinator may be behind. Where the log is cut, or a
// person has set it back, it is the store that is of no use.
func TestLookUpOfAnOutdatedCheckpoint(t *testing.T) {
	w := state.Key{Due: 9, Seq: 8}
	for _, test := range []struct {
		name     string
		position state.Position
		c        state.Checkpoint
		ago      time.Duration // since when it is asked for
		believed bool
	}{
		{"O is older", state.Position{Offset: 4, Resume: 4, Parsers: "0:p1"}, state.Checkpoint{Offset: 3}, 0, false},
		{"W is older", state.Position{Offset: 4, Resume: 4, Watermark: w, Parsers: "0:p1"}, state.Checkpoint{Offset: 4}, 0, false},
		{"for long", state.Position{Offset: 4, Resume: 4, Parsers: "0:p1"}, state.Checkpoint{Offset: 3}, outdatedPatience, true},
		{"it is the same", state.Position{Offset: 4, Resume: 4, Watermark: w, Parsers: "0:p1"}, state.Checkpoint{Offset: 4, Watermark: w}, 0, true},
		{"it is newer", state.Position{Offset: 3, Resume: 3, Parsers: "0:p1"}, state.Checkpoint{Offset: 4, Watermark: w}, 0, true},
		{"the log is cut", state.Position{Offset: 6, Resume: 6, Parsers: "0:p1"}, state.Checkpoint{Offset: 3}, 0, true},
		{"it was set back", state.Position{Offset: 4, Resume: 4, Parsers: "0:p1"}, state.Checkpoint{Offset: 3, LowWater: 3, GivenUp: 3}, 0, true},
		{"the store has nothing", state.Position{}, state.Checkpoint{Offset: 3}, 0, true},
		{"of a former topic", state.Position{Offset: 4, Resume: 4, Parsers: "0:p1"}, state.Checkpoint{Offset: 3, TopicID: [4]byte{9}}, 0, true},
	} {
		e, _ := stored(t, test.position)
		if test.c.TopicID == [4]byte{} {
			test.c.TopicID = testID.Short()
		}
		metadata, err := test.c.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		f := Found{ID: testID, Fetched: kafka.Fetched{Offset: test.c.Offset, Epoch: state.NoEpoch, Metadata: metadata}, Bounds: kafka.Bounds{Stable: 5, High: 5}}
		err = (&restore{Env: e, began: time.Now().Add(-test.ago)}).outdated(testTP, f)
		equal(t, test.name+": it is believed", err == nil, test.believed)
	}
}

// A partition whose checkpoint is not believed is left out, and is looked up again.
func TestLookUpLeavesOutWhatIsOutdated(t *testing.T) {
	e, _ := testCluster(t)
	part, err := e.Store.Partition(e.Store.ID(testTP, testID))
	if err == nil {
		err = part.Commit(state.Position{Watermark: state.Key{Due: 9, Seq: 8}, Parsers: "0:p1"})
	}
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := state.Checkpoint{TopicID: testID.Short()}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	for ago, want := range map[time.Duration]int{0: 0, outdatedPatience: 1} {
		of := map[kafka.TopicPartition]Found{testTP: {ID: testID, Fetched: kafka.Fetched{Epoch: state.NoEpoch, Metadata: metadata}}}
		lacking, err := (&restore{Env: e, began: time.Now().Add(-ago)}).lookUp(t.Context(), of)
		if err != nil || len(of) != want || (lacking == nil) != (want == 1) {
			t.Errorf("after %s: %v, %v, and %d are believed", ago, lacking, err, len(of))
		}
	}
}

// A partition of which it is not known where its log ends is left out, whatever is said of its epochs.
func TestLookUpLeavesOutWhatIsNotTold(t *testing.T) {
	e, w := testCluster(t)
	e.Epochs.Tell(true)
	w.Epochs(func(int32) int64 { return 5 })
	w.C.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.C.KeepControl()
		resp := kreq.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, rt := range kreq.(*kmsg.ListOffsetsRequest).Topics {
			topic := kmsg.NewListOffsetsResponseTopic()
			topic.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, kerr.UnknownTopicOrPartition.Code
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	of := map[kafka.TopicPartition]Found{testTP: {ID: testID, Fetched: kafka.Fetched{Offset: 4, Epoch: 7}}}
	lacking, err := (&restore{Env: e}).lookUp(t.Context(), of)
	if err != nil || !errors.Is(lacking, kerr.UnknownTopicOrPartition) || len(of) != 0 {
		t.Errorf("%v, %v, and of %d it is known", lacking, err, len(of))
	}
}

// A store that holds what the log has lost since is emptied, whatever offsets say: that log was written on.
func TestStoreOfWhatTheLogHasLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		epoch int32 // of the store
		holds int32 // of the checkpoint
		end   int64 // what the broker says; -1: it does not know that epoch
		last  int64 // and of its own epoch
		mute  bool  // brokers cannot be asked
		kept  bool
	}{
		{"cut below", 4, 5, 49, 60, false, false},
		{"cut above", 4, 5, 50, 60, false, true},
		{"not known any more", 4, 5, -1, 60, false, true},
		{"of the checkpoint's epoch", 5, 5, 0, 60, false, true},
		{"of no epoch", state.NoEpoch, 5, 0, 60, false, true},
		{"the answer is 0 whatever is asked", 4, 5, 0, 0, false, true},
		{"nobody can be asked", 4, 5, 49, 60, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, w := testCluster(t)
			w.Epochs(func(epoch int32) int64 {
				if epoch == c.epoch {
					return c.end
				}
				return c.last // of the leader itself
			})
			store, err := e.Store.Partition(e.Store.ID(testTP, testID))
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Commit(state.Position{Resume: 60, Offset: 50, Epoch: c.epoch}); err != nil {
				t.Fatal(err)
			}
			e.Epochs.Tell(!c.mute)
			heir := local.Heir{TP: testTP, Store: store, Reader: e.Reader, Epochs: e.Epochs, Log: e.Log}
			if err := heir.ForgetLost(t.Context(), state.Checkpoint{Offset: 60, LowWater: 60}, c.holds, 60); err != nil {
				t.Fatal(err)
			}
			_, kept := store.Position()
			equal(t, "kept", kept, c.kept)
			equal(t, "its epoch is asked for where there is no checkpoint", e.storeEpoch(testTP, testID) == c.epoch, kept)
		})
	}
}
