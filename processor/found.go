package processor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// found is a partition's checkpoint as it stands in the group, and where its log is.
type found struct {
	id      kafka.TopicID
	fetched kafka.Fetched
	bounds  kafka.Bounds
	ended   *int64 // where in the log the checkpoint's epoch ends, and older ones do; nil: not known
}

// until is up to where the log is the one that the checkpoint was committed for: what lies above was written after it had lost something.
func (f *found) until() int64 {
	if f.ended == nil {
		return f.bounds.High
	}
	return min(f.bounds.High, *f.ended)
}

// make forms a partition of what was found, and says whether it has to be claimed. The error is
// one that a person must decide on.
func (r *restore) make(tp kafka.TopicPartition, f found) (p *partition, claim bool, err error) {
	p = &partition{
		tp: tp, id: f.id, mark: topics.NewMark(f.id.Short(), r.cfg.Identity, tp.Partition), route: r.routes[tp.Topic], stats: r.counters.topics[tp.Topic], since: r.began,
		log:      r.log.With("topic", tp.Topic, "partition", tp.Partition),
		phase:    PhaseCatchUp,
		logStart: f.bounds.Start, endAsked: f.bounds.Asked, told: state.NoEpoch,
	}
	c, err := r.checkpointOf(p, f)
	if err != nil {
		return p, false, err
	}
	if p.route.Delay > 0 && c.LowWater == c.Offset { // what was sighted there is not what was written there since
		c.Watermark.Seq = min(c.Watermark.Seq, f.until())
	}
	claim = f.fetched.Offset < 0 || c.Writer != r.writer || c.Offset != f.fetched.Offset
	if f.ended != nil {
		p.told = c.Epoch
	}
	parsers := pending.ParsersOfToday(c, p.route.Spec(), f.bounds.High)
	c.Writer = r.writer
	if !slices.Equal(parsers, c.Parsers) {
		was := c.Parsers
		c.Parsers = parsers
		if _, err := c.Metadata(); errors.Is(err, state.ErrMetadataTooLong) {
			p.log.Error("records are read as before until fewer of the old ones are pending: the checkpoint has no room for one more way of reading them",
				"now", was[len(was)-1].Spec, "wanted", p.route.Spec(), "error", err)
			c.Parsers = was
		} else {
			claim = true
		}
	}
	env := pending.Env{Route: p.route, Mark: p.mark, Skew: r.cfg.MaxClockSkew.Milliseconds(), Audit: r.cfg.AuditTopic != "", Soon: turn.ShortWait.Milliseconds()}
	if p.Partition, err = pending.New(env, c, pending.Sighting{End: f.bounds.High, At: r.clock.Now(), Epoch: f.bounds.Epoch}); err != nil {
		return p, false, p.describe("checkpoint of", err)
	}
	p.Trust(r.clock.Limit())
	p.logEnd = p.endOf(f.bounds)
	p.open.hear(f.bounds, f.bounds.Asked)
	claim = claim || p.Marks().Committed.Watermark != c.Watermark // an owner may not live until its first checkpoint
	return p, claim, nil
}

// checkpointOf sorts what can be wrong with a checkpoint.
func (k *kit) checkpointOf(p *partition, f found) (state.Checkpoint, error) {
	short := f.id.Short()
	fresh := state.Checkpoint{TopicID: short, Identity: k.cfg.identity(), Offset: f.bounds.Start, Epoch: state.NoEpoch, LowWater: f.bounds.Start, GivenUp: f.bounds.Start}
	if f.fetched.Offset < 0 {
		return k.fromStore(p, fresh, f)
	}
	c, err := state.ParseCheckpoint(f.fetched.Offset, f.fetched.Epoch, f.fetched.Metadata)
	switch {
	case errors.Is(err, state.ErrNotOurs):
		return fresh, fmt.Errorf("%w: %s is at offset %d; stop the group, then choose: `duewheel checkpoints reset -t %s -p %d --to-beginning` "+
			"delivers everything that the log holds, with `--to-offset %d` instead it goes on from there", ErrForeignCheckpoint, p.tp, f.fetched.Offset, p.tp.Topic, p.tp.Partition, f.fetched.Offset)
	case err != nil:
		return fresh, p.describe("checkpoint of", err)
	case c.Identity != k.cfg.identity() && c.TopicID == short:
		return fresh, fmt.Errorf("%w: that of %s says %s, and the group goes by %s: set group.identity to the former, or leave it out where that is group.id; what it has carried or tried again is known by that name",
			ErrOtherIdentity, p.tp, cmp.Or(c.Identity, k.cfg.Group), k.cfg.Identity)
	case c.TopicID != short:
		p.log.Warn("the topic was made anew; its old checkpoint is of no use", "old", fmt.Sprintf("%x", c.TopicID), "new", fmt.Sprintf("%x", short))
		return fresh, nil
	case c.Offset > f.until():
		return k.cut(p, c, f)
	case c.LowWater < f.bounds.Start:
		return k.truncated(p, c, f.bounds.Start)
	}
	return c, nil
}

// cut sorts what can be done when O lies above where the log that it was committed for ends, though that may have been written on since. What is
// written there now was never accepted, and is late where its key is at or below W. What lies below is pending or resolved as it was, but for what
// records have said of it that are lost.
func (k *kit) cut(p *partition, c state.Checkpoint, f found) (state.Checkpoint, error) {
	until := f.until()
	if !k.cfg.AcceptLoss {
		return c, fmt.Errorf("%w: %s is at offset %d and the log has lost what lay from %d on (unclean leader election, power loss, or a restored broker); with `--accept-loss` it goes on from there",
			ErrBeyondLog, p.tp, c.Offset, until)
	}
	p.log.Error("going on although the log has lost records that were accepted", "offset", c.Offset, "log_until", until)
	c.Offset, c.LowWater, c.Appended = until, min(c.LowWater, until), true
	for i := range c.Parsers { // what held from there on holds for what is written there now
		c.Parsers[i].From = min(c.Parsers[i].From, until)
	}
	for len(c.Parsers) > 1 && c.Parsers[len(c.Parsers)-2].From == until {
		c.Parsers = slices.Delete(c.Parsers, len(c.Parsers)-2, len(c.Parsers)-1)
	}
	if c.LowWater < f.bounds.Start {
		return k.truncated(p, c, f.bounds.Start)
	}
	return c, nil
}

// truncated sorts what can be done when the log begins above L. While the store cannot be asked it
// may be the only one that holds what is missing, so accept_loss does not count yet. Where the store has all that O has passed, but the log has lost more than that,
// nothing is lost but what was never accepted.
func (k *kit) truncated(p *partition, c state.Checkpoint, logStart int64) (state.Checkpoint, error) {
	reaches, err := k.storeReaches(p, c)
	switch {
	case errors.Is(err, local.ErrNoStore):
		return c, fmt.Errorf("%w: %s is needed from offset %d on and begins at %d; the local store may hold what is missing, so make it work: %w",
			ErrLogTruncated, p.tp, c.LowWater, logStart, err)
	case reaches >= logStart:
		p.log.Warn("the log has lost pending records that the local store still holds; they are delivered from there, by this process alone",
			"low_water", c.LowWater, "log_start", logStart)
		return c, nil
	case reaches >= c.Offset && !k.cfg.AcceptLoss:
		before := ""
		if c.LowWater < c.Offset {
			before = ", and what was pending before is delivered from the local store, which alone has it" + mayComeAgain(c)
		}
		return c, fmt.Errorf("%w: %s has lost what lay from offset %d to %d, which no replica has taken in; with `--accept-loss` it goes on from there%s", ErrLogTruncated, p.tp, c.Offset, logStart, before)
	case reaches >= c.Offset:
		p.log.Error("going on although the log has lost records that were not read; the local store holds what was pending before"+mayComeAgain(c), "position", c.Offset, "log_start", logStart)
		c.Offset = logStart
		return c, nil
	case !k.cfg.AcceptLoss:
		return c, fmt.Errorf("%w: %s is needed from offset %d on and begins at %d; the store of another replica may still hold what is missing: start the replica that had it last, with its state directory, and stop the others until it has the partition. Give the topic retention.ms=-1, or a longer one. Only when no replica has them, go on without them with `--accept-loss`",
			ErrLogTruncated, p.tp, c.LowWater, logStart)
	}
	p.log.Error("going on although the log has lost pending records", "low_water", c.LowWater, "log_start", logStart)
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
func (k *kit) fromStore(p *partition, fresh state.Checkpoint, f found) (state.Checkpoint, error) {
	var pos state.Position
	part, err := k.store.Partition(k.store.ID(p.tp, p.id))
	known := err == nil
	if known {
		pos, known = part.Position()
	}
	if !known || !pos.IsCheckpoint() || min(pos.Offset, pos.Resume) < fresh.LowWater {
		if f.bounds.High > f.bounds.Start {
			p.log.Info("no checkpoint; going on from the beginning of the log", "offset", fresh.Offset, "end", f.bounds.High)
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
		return k.cut(p, c, f)
	}
	p.log.Warn("no checkpoint; going on from the local store", "offset", pos.Offset, "resume", pos.Resume)
	return c, nil
}

// storeEpoch is the epoch of what the local store holds of a partition, or state.NoEpoch.
func (k *kit) storeEpoch(tp kafka.TopicPartition, id kafka.TopicID) int32 {
	part, err := k.store.Partition(k.store.ID(tp, id))
	if err != nil {
		return state.NoEpoch
	}
	if pos, ok := part.Position(); ok {
		return pos.Epoch
	}
	return state.NoEpoch
}

// storeReaches is up to where the local store, or the standby that fills it, holds everything that is pending, so that nothing of that has been lost yet; -1: it is of no use.
func (k *kit) storeReaches(p *partition, c state.Checkpoint) (upTo int64, err error) {
	if err := k.standbys.Advance(p.tp, p.id, c); err != nil {
		p.log.Debug("a standby cannot be brought up to the checkpoint", "error", err)
	}
	part, err := k.store.Partition(k.store.ID(p.tp, p.id))
	if err != nil {
		return -1, err
	}
	pos, ok := part.Position()
	if !ok || !pending.Fits(pos, c) {
		return -1, nil
	}
	return min(pos.Offset, pos.Resume), nil
}

// lostBelow is where a log begins that has lost what a checkpoint needs: it is read from there on at the lowest. Otherwise it is 0.
func lostBelow(p *partition, c state.Checkpoint) int64 {
	if p.logStart > c.LowWater {
		return p.logStart
	}
	return 0
}

// bearStart has the disk say up to where a partition is whose log has lost what lay before: it has claimed that, and what is above the O of a store could not be read again.
func (k *kit) bearStart(p *partition, c state.Checkpoint) error {
	if lostBelow(p, c) == 0 {
		return nil
	}
	if err := p.Flush(); err != nil {
		return p.describe("bring to the disk the store of", err)
	}
	k.store.Flush()
	return nil
}
