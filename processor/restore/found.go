package restore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
)

// Found is a partition's checkpoint as it stands in the group, and where its log is.
type Found struct {
	ID      kafka.TopicID
	Fetched kafka.Fetched
	Bounds  kafka.Bounds
	Ended   *int64 // where in the log the checkpoint's epoch ends, and older ones do; nil: not known
}

// until is up to where the log is the one that the checkpoint was committed for: what lies above was written after it had lost something.
func (f *Found) until() int64 {
	if f.Ended == nil {
		return f.Bounds.High
	}
	return min(f.Bounds.High, *f.Ended)
}

// ofFormer reports whether the checkpoint is that of a topic of this name that was there before.
func (f Found) ofFormer() bool {
	c, err := state.ParseCheckpoint(f.Fetched.Offset, f.Fetched.Epoch, f.Fetched.Metadata)
	return err == nil && c.TopicID != f.ID.Short()
}

// checkpointOf sorts what can be wrong with a checkpoint.
func (e *Env) checkpointOf(p *Partition, f Found) (state.Checkpoint, error) {
	short := f.ID.Short()
	fresh := state.Checkpoint{TopicID: short, Identity: e.Identity, Offset: f.Bounds.Start, Epoch: state.NoEpoch, LowWater: f.Bounds.Start, GivenUp: f.Bounds.Start}
	if f.Fetched.Offset < 0 {
		return e.fromStore(p, fresh, f)
	}
	c, err := state.ParseCheckpoint(f.Fetched.Offset, f.Fetched.Epoch, f.Fetched.Metadata)
	switch {
	case errors.Is(err, state.ErrNotOurs):
		return fresh, fmt.Errorf("%w: %s is at offset %d; stop the group, then choose: `duewheel checkpoints reset -t %s -p %d --to-beginning` "+
			"delivers everything that the log holds, with `--to-offset %d` instead it goes on from there", ErrForeignCheckpoint, p.TP, f.Fetched.Offset, p.TP.Topic, p.TP.Partition, f.Fetched.Offset)
	case err != nil:
		return fresh, p.describe("checkpoint of", err)
	case c.Identity != e.Identity && c.TopicID == short:
		return fresh, fmt.Errorf("%w: that of %s says %s, and the group goes by %s: set group.identity to the former, or leave it out where that is group.id; what it has carried or tried again is known by that name",
			ErrOtherIdentity, p.TP, cmp.Or(c.Identity, e.Group), e.identity())
	case c.TopicID != short:
		p.Log.Warn("the topic was made anew; its old checkpoint is of no use", "old", fmt.Sprintf("%x", c.TopicID), "new", fmt.Sprintf("%x", short))
		return fresh, nil
	case c.Offset > f.until():
		return e.cut(p, c, f)
	case c.LowWater < f.Bounds.Start:
		return e.truncated(p, c, f.Bounds.Start)
	}
	return c, nil
}

// cut sorts what can be done when O lies above where the log that it was committed for ends, though that may have been written on since. What is
// written there now was never accepted, and is late where its key is at or below W. What lies below is pending or resolved as it was, but for what
// records have said of it that are lost.
func (e *Env) cut(p *Partition, c state.Checkpoint, f Found) (state.Checkpoint, error) {
	until := f.until()
	if !e.AcceptLoss {
		return c, fmt.Errorf("%w: %s is at offset %d and the log has lost what lay from %d on (unclean leader election, power loss, or a restored broker); with `--accept-loss` it goes on from there",
			ErrBeyondLog, p.TP, c.Offset, until)
	}
	p.Log.Error("going on although the log has lost records that were accepted", "offset", c.Offset, "log_until", until)
	p.cut = c.Offset
	c.Offset, c.LowWater, c.Appended = until, min(c.LowWater, until), true
	for i := range c.Parsers { // what held from there on holds for what is written there now
		c.Parsers[i].From = min(c.Parsers[i].From, until)
	}
	for len(c.Parsers) > 1 && c.Parsers[len(c.Parsers)-2].From == until {
		c.Parsers = slices.Delete(c.Parsers, len(c.Parsers)-2, len(c.Parsers)-1)
	}
	if c.LowWater < f.Bounds.Start {
		return e.truncated(p, c, f.Bounds.Start)
	}
	return c, nil
}

// truncated sorts what can be done when the log begins above L. While the store cannot be asked it
// may be the only one that holds what is missing, so accept_loss does not count yet. Where the store has all that O has passed, but the log has lost more than that,
// nothing is lost but what was never accepted.
func (e *Env) truncated(p *Partition, c state.Checkpoint, logStart int64) (state.Checkpoint, error) {
	reaches, err := e.storeReaches(p, c)
	switch {
	case errors.Is(err, local.ErrNoStore):
		return c, fmt.Errorf("%w: %s is needed from offset %d on and begins at %d; the local store may hold what is missing, so make it work: %w",
			local.ErrLogTruncated, p.TP, c.LowWater, logStart, err)
	case reaches >= logStart:
		p.Log.Warn("the log has lost pending records that the local store still holds; they are delivered from there, by this process alone",
			"low_water", c.LowWater, "log_start", logStart)
		return c, nil
	case reaches >= c.Offset && !e.AcceptLoss:
		before := ""
		if c.LowWater < c.Offset {
			before = ", and what was pending before is delivered from the local store, which alone has it" + mayComeAgain(c)
		}
		return c, fmt.Errorf("%w: %s has lost what lay from offset %d to %d, which no replica has taken in; with `--accept-loss` it goes on from there%s", local.ErrLogTruncated, p.TP, c.Offset, logStart, before)
	case reaches >= c.Offset:
		p.Log.Error("going on although the log has lost records that were not read; the local store holds what was pending before"+mayComeAgain(c), "position", c.Offset, "log_start", logStart)
		c.Offset = logStart
		return c, nil
	case !e.AcceptLoss:
		return c, fmt.Errorf("%w: %s is needed from offset %d on and begins at %d; the store of another replica may still hold what is missing: start the replica that had it last, with its state directory, and stop the others until it has the partition. Give the topic retention.ms=-1, or a longer one. Only when no replica has them, go on without them with `--accept-loss`",
			local.ErrLogTruncated, p.TP, c.LowWater, logStart)
	}
	p.Log.Error("going on although the log has lost pending records", "low_water", c.LowWater, "log_start", logStart)
	c.LowWater, c.GivenUp = logStart, logStart
	c.Offset = max(c.Offset, c.LowWater)
	return c, nil
}

// mayComeAgain says what else is lost where records of ours may have lain above O: that they resolved something below.
func mayComeAgain(c state.Checkpoint) string {
	if !c.Appended {
		return ""
	}
	return "; what of that had overtaken others, or was dead-lettered, a moment before the last checkpoint may come again"
}

// fromStore is the way on without a checkpoint (a new group, or one whose offsets have expired):
// what a store of this topic and group knows, else the log's beginning. A store's position bears a checkpoint
// that was committed, and only a whole one judges as its owner did: with a lower O, copies that O had passed would be judged
// anew, without their records, and what only memory held is read by the parser that held then.
func (e *Env) fromStore(p *Partition, fresh state.Checkpoint, f Found) (state.Checkpoint, error) {
	pos, known, err := e.position(p.TP, p.ID)
	if err != nil || !known || !pos.IsCheckpoint() || min(pos.Offset, pos.Resume) < fresh.LowWater {
		if f.Bounds.High > f.Bounds.Start {
			p.Log.Info("no checkpoint; going on from the beginning of the log", "offset", fresh.Offset, "end", f.Bounds.High)
		}
		return fresh, nil
	}
	c := fresh
	c.Offset, c.Watermark = pos.Offset, pos.Watermark
	c.LowWater = pos.LowWater // which may be below the log's start: the store has what the log has not
	if c.Parsers, err = state.ParseParserList(pos.Parsers); err != nil {
		return fresh, p.describe("position of", err)
	}
	c.GivenUp = 0
	c.Appended = true // checkpoints that were written later are gone, and what went along with them is not
	c.Epoch = pos.Epoch
	if c.Offset > f.until() {
		return e.cut(p, c, f)
	}
	p.Log.Warn("no checkpoint; going on from the local store", "offset", pos.Offset, "resume", pos.Resume)
	return c, nil
}

// storeEpoch is the epoch of what the local store holds of a partition, or state.NoEpoch.
func (e *Env) storeEpoch(tp kafka.TopicPartition, id kafka.TopicID) int32 {
	if pos, known, err := e.position(tp, id); err == nil && known {
		return pos.Epoch
	}
	return state.NoEpoch
}

// position is that of a partition in the local store, false where that has nothing of it. It is asked before a standby of this process is taken, so it opens
// no handle, which would end that of the standby.
func (e *Env) position(tp kafka.TopicPartition, id kafka.TopicID) (pos state.Position, known bool, err error) {
	if err = e.Store.Try(); err != nil {
		return pos, false, fmt.Errorf("%w: %w", local.ErrNoStore, err)
	}
	store := e.Store.Opened()
	if store == nil {
		return pos, false, fmt.Errorf("%w: %s", local.ErrNoStore, e.Store.Why())
	}
	if pos, known, err = store.Position(e.Store.ID(tp, id)); errors.Is(err, state.ErrFailed) {
		e.Store.Failed(err)
		err = fmt.Errorf("%w: %w", local.ErrNoStore, err)
	}
	return pos, known, err
}

// storeReaches is up to where the local store, or the standby that fills it, holds everything that is pending, so that nothing of that has been lost yet; -1: it is of no use.
func (e *Env) storeReaches(p *Partition, c state.Checkpoint) (upTo int64, err error) {
	if err := e.Standbys.Advance(p.TP, p.ID, c); err != nil {
		p.Log.Debug("a standby cannot be brought up to the checkpoint", "error", err)
	}
	pos, known, err := e.position(p.TP, p.ID)
	if err != nil {
		return -1, err
	}
	if !known || !pending.Fits(pos, c) {
		return -1, nil
	}
	return min(pos.Offset, pos.Resume), nil
}
