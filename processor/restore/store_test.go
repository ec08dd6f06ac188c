package restore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/duewheel/duewheel/processor/internal/disk"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/state"
)

// stored is a lane whose store has a position for the test's partition.
func stored(t *testing.T, pos state.Position) (*Env, *Partition) {
	t.Helper()
	e := testEnv(t)
	part, err := e.Store.Partition(e.Store.ID(testTP, testID))
	if err != nil {
		t.Fatal(err)
	}
	if err := part.Commit(pos); err != nil {
		t.Fatal(err)
	}
	return e, &Partition{TP: testTP, ID: testID, Log: e.Log}
}

// Without a checkpoint what the store bears takes its place, whole, as long as the log has what the store has not.
func TestStoreInThePlaceOfACheckpoint(t *testing.T) {
	const parsers = "0:p1"
	w := state.Key{Due: 9, Seq: 8}
	for _, c := range []struct {
		name     string
		position state.Position
		high     int64
		want     state.Checkpoint
		err      error
	}{
		{"as it is", state.Position{Resume: 30, Offset: 50, Epoch: 4, Watermark: w, LowWater: 5, Parsers: parsers}, 70,
			state.Checkpoint{Offset: 50, Epoch: 4, Watermark: w, LowWater: 5, Appended: true}, nil},
		{"it resumes where the log begins", state.Position{Resume: 10, Offset: 50, Epoch: 4, Watermark: w, LowWater: 5, Parsers: parsers}, 70,
			state.Checkpoint{Offset: 50, Epoch: 4, Watermark: w, LowWater: 5, Appended: true}, nil},
		{"it resumes below the log", state.Position{Resume: 9, Offset: 50, Epoch: 4, Watermark: w, LowWater: 5, Parsers: parsers}, 70,
			state.Checkpoint{Offset: 10, Epoch: state.NoEpoch, LowWater: 10, GivenUp: 10}, nil},
		{"it lies below the log", state.Position{Resume: 30, Offset: 9, Epoch: 4, Watermark: w, LowWater: 5, Parsers: parsers}, 70,
			state.Checkpoint{Offset: 10, Epoch: state.NoEpoch, LowWater: 10, GivenUp: 10}, nil},
		{"the log ends below it", state.Position{Resume: 30, Offset: 50, Epoch: 4, Watermark: w, LowWater: 5, Parsers: parsers}, 49, state.Checkpoint{}, ErrBeyondLog},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, p := stored(t, c.position)
			got, err := e.checkpointOf(p, Found{ID: testID, Fetched: kafka.Fetched{Offset: -1}, Bounds: kafka.Bounds{Start: 10, Stable: c.high, High: c.high}})
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if c.err != nil {
				return
			}
			equal(t, "parsers", state.ParserList(got.Parsers) == parsers, c.want.Appended)
			c.want.TopicID, got.Parsers = testID.Short(), nil
			equal(t, "O", got.Offset, c.want.Offset)
			equal(t, "W", got.Watermark, c.want.Watermark)
			equal(t, "L", got.LowWater, c.want.LowWater)
			equal(t, "epoch", got.Epoch, c.want.Epoch)
			equal(t, "given up", got.GivenUp, c.want.GivenUp)
			equal(t, "records of ours above", got.Appended, c.want.Appended)
			equal(t, "topic", got.TopicID, c.want.TopicID)
		})
	}
}

// A log that begins above L has lost nothing where the store reaches up to it, and nothing that was accepted where the store reaches up to O.
func TestLogBeginsAboveL(t *testing.T) {
	for _, c := range []struct {
		name           string
		reaches, start int64
		accept         bool
		o, l, given    int64
		err            error
	}{
		{"the store reaches up to the log", 30, 30, false, 50, 20, 0, nil},
		{"it does not", 29, 30, false, 0, 0, 0, local.ErrLogTruncated},
		{"it does not, which was accepted", 29, 30, true, 50, 30, 30, nil},
		{"it has what O has passed", 50, 55, false, 0, 0, 0, local.ErrLogTruncated},
		{"it has what O has passed, and the loss of more was accepted", 50, 55, true, 55, 20, 0, nil},
		{"it has not all that O has passed", 49, 55, true, 55, 55, 55, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, p := stored(t, state.Position{Resume: c.reaches, Offset: 50, LowWater: 20})
			e.AcceptLoss = c.accept
			got, err := e.truncated(p, state.Checkpoint{TopicID: testID.Short(), Offset: 50, LowWater: 20}, c.start)
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if c.err == nil && (got.Offset != c.o || got.LowWater != c.l || got.GivenUp != c.given) {
				t.Errorf("got %+v, want O %d, L %d and %d given up", got, c.o, c.l, c.given)
			}
		})
	}
}

// failing are standbys that cannot be brought up to a checkpoint.
type failing struct{ none }

func (failing) Advance(kafka.TopicPartition, kafka.TopicID, state.Checkpoint) error {
	return errors.New("no")
}

// filling is one that fills the store up to where a checkpoint is.
type filling struct {
	none
	e *Env
}

func (f filling) Advance(tp kafka.TopicPartition, id kafka.TopicID, c state.Checkpoint) error {
	part, err := f.e.Store.Partition(f.e.Store.ID(tp, id))
	if err == nil {
		err = part.Commit(state.Position{Resume: c.Offset, Offset: c.Offset})
	}
	return err
}

// What a standby of this process knows counts, and where it cannot be brought up to the checkpoint, what the store has already.
func TestStandbyCountsForTheStore(t *testing.T) {
	e, p := stored(t, state.Position{Resume: 40, Offset: 40})
	c := state.Checkpoint{Offset: 50}
	e.Standbys = failing{}
	if upTo, err := e.storeReaches(p, c); upTo != 40 || err != nil {
		t.Errorf("without the standby it reaches up to %d, %v", upTo, err)
	}
	e.Standbys = filling{e: e}
	if upTo, err := e.storeReaches(p, c); upTo != 50 || err != nil {
		t.Errorf("with the standby it reaches up to %d, %v", upTo, err)
	}
}

// A partition is claimed by who has it now, and also where its checkpoint has become another one by what was found.
func TestWhatIsClaimed(t *testing.T) {
	ended := int64(45)
	for _, c := range []struct {
		name   string
		writer string
		offset int64
		ended  *int64
		bounds kafka.Bounds
		claim  bool
		told   int32
	}{
		{"its own", "g-0@me", 50, nil, kafka.Bounds{Stable: 60, High: 60}, false, state.NoEpoch},
		{"another's", "g-other-0", 50, nil, kafka.Bounds{Stable: 60, High: 60}, true, state.NoEpoch},
		{"its own, of a log that was cut", "g-0@me", 50, &ended, kafka.Bounds{Stable: 60, High: 60}, true, 7},
		{"its own, of a log that has lost its beginning", "g-0@me", 50, nil, kafka.Bounds{Start: 55, Stable: 60, High: 60}, true, state.NoEpoch},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := testEnv(t)
			e.AcceptLoss = true
			md, err := state.Checkpoint{TopicID: testID.Short(), Offset: c.offset, LowWater: 20, Writer: c.writer, Parsers: []state.ParserEpoch{{Spec: "p1"}}}.Metadata()
			if err != nil {
				t.Fatal(err)
			}
			p, claim, err := e.Make(testTP, Found{ID: testID, Fetched: kafka.Fetched{Offset: c.offset, Epoch: 7, Metadata: md}, Bounds: c.bounds, Ended: c.ended})
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "it is claimed", claim, c.claim)
			equal(t, "the epoch of which its leader has told", p.Told, c.told)
			equal(t, "records of ours may lie above", p.Marks().Committed.Appended, c.ended != nil)
		})
	}
}

// A partition that begins anew goes by the name of the group, whatever the checkpoint of the topic that was there before says.
func TestBeginsAnew(t *testing.T) {
	e := testEnv(t)
	e.Identity = "first"
	old, err := state.Checkpoint{TopicID: [4]byte{9}, Offset: 50, Identity: "other"}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []kafka.Fetched{{Offset: -1}, {Offset: 50, Metadata: old}} {
		c, err := e.checkpointOf(&Partition{TP: testTP, ID: testID, Log: e.Log}, Found{ID: testID, Fetched: f, Bounds: kafka.Bounds{Start: 10, Stable: 60, High: 60}})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "identity", c.Identity, "first")
		equal(t, "epoch", c.Epoch, state.NoEpoch)
	}
	if got := (&Env{Group: "g", Identity: "first"}).identity(); got != "first" {
		t.Errorf("the group is known as %s", got)
	}
}

// Up to where a log is the one of a checkpoint is at most where it ends, whatever is said of an epoch.
func TestUntil(t *testing.T) {
	for ended, want := range map[int64]int64{40: 40, 60: 60, 99: 60} {
		if got := (&Found{Bounds: kafka.Bounds{High: 60}, Ended: &ended}).until(); got != want {
			t.Errorf("the epoch ends at %d: %d, want %d", ended, got, want)
		}
	}
}

// A store that bears the checkpoint of before its log was cut says nothing of offsets that brokers have lost: a person has decided to go on from there.
func TestStoreOfBeforeTheCut(t *testing.T) {
	e, _ := stored(t, state.Position{Resume: 30, Offset: 50, LowWater: 20, Parsers: "0:p1"})
	var told bytes.Buffer
	e.AcceptLoss, e.Log = true, slog.New(slog.NewTextHandler(&told, nil))
	metadata, err := state.Checkpoint{TopicID: testID.Short(), Offset: 50, LowWater: 20, Parsers: []state.ParserEpoch{{Spec: "p1"}}}.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := e.Make(testTP, Found{ID: testID, Fetched: kafka.Fetched{Offset: 50, Epoch: state.NoEpoch, Metadata: metadata}, Bounds: kafka.Bounds{Start: 10, Stable: 40, High: 40}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Open(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"going on although the log has lost records that were accepted": true, "the local store is of no use": true, "has gone back": false} {
		if strings.Contains(told.String(), text) != want {
			t.Errorf("it is told that %s: %v\n%s", text, !want, told.String())
		}
	}
}

// What fills the store in this process goes on with its handle when a restore looks where the store stands: a standby that is about to be taken.
func TestPositionIsAskedWithoutAHandle(t *testing.T) {
	for name, look := range map[string]func(e *Env, p *Partition) error{
		"up to where it reaches": func(e *Env, p *Partition) error {
			upTo, err := e.storeReaches(p, state.Checkpoint{Offset: 50})
			equal(t, "it reaches", upTo, 40)
			return err
		},
		"whether it stands in for a checkpoint": func(e *Env, p *Partition) error {
			c, err := e.fromStore(p, state.Checkpoint{}, Found{Bounds: kafka.Bounds{High: 60}})
			equal(t, "O", c.Offset, 50)
			return err
		},
		"its epoch": func(e *Env, p *Partition) error {
			equal(t, "epoch", e.storeEpoch(p.TP, p.ID), 3)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, p := stored(t, state.Position{})
			part, err := e.Store.Partition(e.Store.ID(p.TP, p.ID))
			if err != nil {
				t.Fatal(err)
			}
			pos := state.Position{Resume: 40, Offset: 50, Epoch: 3, Parsers: state.ParserList([]state.ParserEpoch{{Spec: "p1"}})}
			if err := errors.Join(part.Commit(pos), look(e, p), part.Commit(pos)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A store that has failed, which was not seen before it is asked, is one that does not work.
func TestPositionOfAStoreThatHasFailed(t *testing.T) {
	e := testEnv(t)
	var broken disk.Broken
	e.Store = local.New(state.Options{Dir: "state", FS: broken.FS(vfs.NewMem()), MemoryBudget: 8 << 20, Logger: e.Log}, e.Group, e.Assigned)
	if err := e.Store.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Store.Close)
	part, err := e.Store.Partition(e.Store.ID(testTP, testID))
	if err == nil {
		err = part.Commit(state.Position{Resume: 40, Offset: 50})
	}
	if err != nil {
		t.Fatal(err)
	}
	broken.Fail(syscall.ENOSPC)
	if err := e.Store.Opened().Flush(); err == nil {
		t.Fatal("the disk works")
	}
	_, known, err := e.position(testTP, testID)
	if known || !errors.Is(err, local.ErrNoStore) || e.Store.Works() {
		t.Errorf("it says %v, %v, and the store works: %v", known, err, e.Store.Works())
	}
	if _, _, err := e.position(testTP, testID); !errors.Is(err, local.ErrNoStore) {
		t.Errorf("then it says %v", err)
	}
}
