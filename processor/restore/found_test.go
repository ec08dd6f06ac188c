package restore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// What is wrong with a checkpoint stops the partition with an error that says what to do;
// without one a group begins where the log does (design rules 11, 12).
func TestCheckpointOf(t *testing.T) {
	good := state.Checkpoint{TopicID: testID.Short(), Offset: 50, LowWater: 20}
	other := good
	other.TopicID = [4]byte{9}
	moved := good
	moved.Identity = "former"
	metadata := func(c state.Checkpoint) string {
		md, err := c.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		return md
	}
	bounds := kafka.Bounds{Start: 10, Stable: 60, High: 70}
	given, err := good.GivenTo("heir")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		offset      int64
		metadata    string
		bounds      kafka.Bounds
		ended       int64 // where the checkpoint's epoch ends; 0: not known
		acceptLoss  bool
		o, l, given int64
		err         error
		says        string
	}{
		{name: "as it is", offset: 50, metadata: metadata(good), bounds: bounds, o: 50, l: 20},
		{name: "nothing committed", offset: -1, bounds: bounds, o: 10, l: 10, given: 10},
		{name: "the topic was made anew", offset: 50, metadata: metadata(other), bounds: bounds, o: 10, l: 10, given: 10},
		{name: "set by a tool", offset: 50, bounds: bounds, err: ErrForeignCheckpoint, says: "duewheel checkpoints reset"},
		{name: "mirrored", offset: 50, metadata: "mm2", bounds: bounds, err: ErrForeignCheckpoint, says: "--to-offset"},
		{name: "of a later version", offset: 50, metadata: "dw2 t=01020304", bounds: bounds, err: state.ErrUnknownVersion},
		{name: "of a group in whose place this one is", offset: 50, metadata: metadata(moved), bounds: bounds, err: ErrOtherIdentity, says: "says former, and the group goes by g: set group.identity to the former"},
		{name: "given to another group", offset: 50, metadata: given, bounds: bounds, err: state.ErrGiven, says: "group heir takes the place of this one"},
		{name: "corrupt", offset: 50, metadata: "dw1 l=x", bounds: bounds, err: state.ErrCorrupt},
		{name: "above the log", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 10, Stable: 40, High: 49}, err: ErrBeyondLog},
		{name: "above where the log was cut, though that was written on", offset: 50, metadata: metadata(good), bounds: bounds, ended: 49, err: ErrBeyondLog, says: "from 49 on"},
		{name: "and an operator has decided to go on from there", offset: 50, metadata: metadata(good), bounds: bounds, ended: 49, acceptLoss: true, o: 49, l: 20},
		{name: "cut below what was pending", offset: 50, metadata: metadata(good), bounds: bounds, ended: 15, acceptLoss: true, o: 15, l: 15},
		{name: "cut at both ends", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 30, Stable: 60, High: 60}, ended: 40, acceptLoss: true, o: 40, l: 30, given: 30},
		{name: "cut above it", offset: 50, metadata: metadata(good), bounds: bounds, ended: 50, o: 50, l: 20},
		{name: "at the end of the log", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 10, Stable: 50, High: 50}, o: 50, l: 20},
		{name: "the log has lost pending records", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 21, Stable: 60, High: 60}, err: local.ErrLogTruncated,
			says: "start the replica that had it last, with its state directory, and stop the others until it has the partition. Give the topic retention.ms=-1, or a longer one. Only when no replica has them, go on without them with `--accept-loss`"},
		{name: "and an operator has decided to go on", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 55, Stable: 60, High: 60}, acceptLoss: true, o: 55, l: 55, given: 55},
		{name: "trimmed up to what is needed", offset: 50, metadata: metadata(good), bounds: kafka.Bounds{Start: 20, Stable: 60, High: 60}, o: 50, l: 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testEnv(t)
			e.AcceptLoss = c.acceptLoss
			p := &Partition{TP: testTP, ID: testID, Log: e.Log}
			f := Found{ID: testID, Fetched: kafka.Fetched{Offset: c.offset, Metadata: c.metadata}, Bounds: c.bounds}
			if c.ended > 0 {
				f.Ended = &c.ended
			}
			got, err := e.checkpointOf(p, f)
			if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %v that says %q", err, c.err, c.says)
			}
			if err == nil && (got.Offset != c.o || got.LowWater != c.l || got.GivenUp != c.given) {
				t.Errorf("got %+v, want O %d, L %d and %d given up", got, c.o, c.l, c.given)
			}
		})
	}
}

// Where a log was cut below the place from which on another parser holds, what is written there now is read by that.
func TestCutReadsByTheNewestParser(t *testing.T) {
	e := testEnv(t)
	e.AcceptLoss = true
	p := &Partition{TP: testTP, ID: testID, Log: e.Log}
	c := state.Checkpoint{Offset: 100, LowWater: 20, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1"}, {From: 92, Spec: "p1+1"}, {From: 95, Spec: "p1+2"}}}
	until := int64(90)
	got, err := e.cut(p, c, Found{Bounds: kafka.Bounds{High: 120}, Ended: &until})
	if err != nil {
		t.Fatal(err)
	}
	equals(t, "parsers", got.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1"}, {From: 90, Spec: "p1+2"}})
}

// A log that starts above the low water has lost nothing as long as the store holds it all.
func TestStoreCoversTheLog(t *testing.T) {
	for _, c := range []struct {
		name     string
		position state.Position
		logStart int64
		want     bool
	}{
		{"the store resumes inside the log", state.Position{Resume: 100, Offset: 100}, 60, true},
		{"the store resumes where the log starts", state.Position{Resume: 60, Offset: 100}, 60, true},
		{"a part is in neither", state.Position{Resume: 50, Offset: 100}, 60, false},
		{"what it took in above its checkpoint is forgotten", state.Position{Resume: 100, Offset: 50}, 60, false},
		{"it leads the checkpoint", state.Position{Resume: 100, Offset: 200}, 60, false},
		{"its watermark leads the checkpoint", state.Position{Resume: 100, Offset: 100, Watermark: state.Key{Due: 9}}, 60, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testEnv(t)
			p := &Partition{TP: testTP, Log: e.Log}
			part, err := e.Store.Partition(e.Store.ID(p.TP, p.ID))
			if err != nil {
				t.Fatal(err)
			}
			if err := part.Put(state.Key{Due: testNow, Seq: 10}, []byte("run")); err != nil {
				t.Fatal(err)
			}
			if err := part.Commit(c.position); err != nil {
				t.Fatal(err)
			}
			if upTo, err := e.storeReaches(p, state.Checkpoint{Offset: 100}); err != nil || upTo >= c.logStart != c.want {
				t.Errorf("it reaches up to %d, and %v; the log starts at %d, want %v", upTo, err, c.logStart, c.want)
			}
		})
	}
}

// A configuration that changes before anything was accepted by it leaves no trace, and one that
// does not fit into the checkpoint waits.
func TestParsersOfACheckpoint(t *testing.T) {
	e := testEnv(t)
	p := e.finds(t, state.Checkpoint{Offset: 7, LowWater: 3, Parsers: []state.ParserEpoch{{From: 0, Spec: "p1+5"}, {From: 7, Spec: "p1+9"}}}, 7)
	equals(t, "parsers", p.Marks().Committed.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1+5"}, {From: 7, Spec: "p1"}})
	full := state.Checkpoint{Offset: 1 << 40, LowWater: 0}
	for from := int64(0); ; from++ {
		next := full
		next.Parsers = append(slices.Clone(full.Parsers), state.ParserEpoch{From: from, Spec: topics.Spec(time.Duration(from+1) * time.Second)})
		next.TopicID, next.Writer = testID.Short(), "g-0@me"
		if _, err := next.Metadata(); err != nil {
			break
		}
		full = next
	}
	p = e.finds(t, full, 1<<40)
	equal(t, "parsers", len(p.Marks().Committed.Parsers), len(full.Parsers))
}

// Where records begin to replace what has their id, that holds from O on; where an owner may have refused what lies above, from the end of the log on. It may have at least
// once, whatever the guarantee is by now: its checkpoint names no writer.
func TestParserAtLeastOnce(t *testing.T) {
	for _, c := range []struct {
		name, writer, before string
		from                 int64
	}{
		{"exactly once", "me", "before", 2}, {"exactly once, at least once before", "me", "", 3},
		{"at least once", "", "", 3}, {"at least once, exactly once before", "", "before", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testEnv(t)
			e.Writer = c.writer
			found := state.Checkpoint{Offset: 2, Writer: c.before, Parsers: pending.WithParser(state.Checkpoint{}, e.Routes[testTopic].Spec(), 0)}
			e.routes(t, func(r *topics.Route) { r.OnDuplicate = topics.DuplicateReplaces })
			p := e.finds(t, found, 3)
			equals(t, "parsers", p.Marks().Committed.Parsers, []state.ParserEpoch{{From: 0, Spec: "p1"}, {From: c.from, Spec: "p1/r"}})
		})
	}
}
