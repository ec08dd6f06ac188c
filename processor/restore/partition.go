package restore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/local"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// Partition is what a restore makes of what it has found of one.
type Partition struct {
	*pending.Partition // nil: it is stopped
	TP                 kafka.TopicPartition
	ID                 kafka.TopicID
	Since              time.Time    // when its restore began
	Bounds             kafka.Bounds // where its log begins and ends, asked for after its checkpoint
	Told               int32        // the epoch of its checkpoint, if its leader has told where that ends; else state.NoEpoch
	cut                int64        // the O that was committed, where its log was cut below it and it goes on; else 0
	Stopped            error        // why it is, until a person decides; nil: it may catch up
	Log                *slog.Logger // with its name
}

// stop has it wait for a person.
func (p *Partition) stop(why error) { p.Partition, p.Stopped = nil, why }

// describe renders an error with the partition's coordinates.
func (p *Partition) describe(what string, err error) error {
	return fmt.Errorf("%s %s: %w", what, p.TP, err)
}

// Make forms a partition of what was found, and says whether it has to be claimed. The error is
// one that a person must decide on.
func (e *Env) Make(tp kafka.TopicPartition, f Found) (p *Partition, claim bool, err error) {
	p = &Partition{TP: tp, ID: f.ID, Bounds: f.Bounds, Told: state.NoEpoch, Log: e.Log.With("topic", tp.Topic, "partition", tp.Partition)}
	c, err := e.checkpointOf(p, f)
	if err != nil {
		return p, false, err
	}
	env := e.Pending
	env.Route, env.Mark = e.Routes[tp.Topic], topics.NewMark(f.ID.Short(), e.identity(), tp.Partition)
	if env.Route.Delay > 0 && c.LowWater == c.Offset { // what was sighted there is not what was written there since
		c.Watermark.Seq = min(c.Watermark.Seq, f.until())
	}
	claim = c.Writer != e.Writer || c.Offset != f.Fetched.Offset // as it is where nothing was committed
	if f.Ended != nil {
		p.Told = c.Epoch
	}
	parsers := pending.ParsersOfToday(c, env.Route.Spec(), f.Bounds.High)
	c.Writer = e.Writer
	if !slices.Equal(parsers, c.Parsers) {
		was := c.Parsers
		c.Parsers = parsers
		if _, err := c.Metadata(); errors.Is(err, state.ErrMetadataTooLong) {
			p.Log.Error("records are read as before until fewer of the old ones are pending: the checkpoint has no room for one more way of reading them",
				"now", was[len(was)-1].Spec, "wanted", env.Route.Spec(), "error", err)
			c.Parsers = was
		} else {
			claim = true
		}
	}
	if p.Partition, err = pending.New(env, c, pending.Sighting{End: f.Bounds.High, At: e.Clock.Now(), Epoch: f.Bounds.Epoch}); err != nil {
		return p, false, p.describe("checkpoint of", err)
	}
	p.Trust(e.Clock.Limit())
	claim = claim || p.Marks().Committed.Watermark != c.Watermark // an owner may not live until its first checkpoint
	return p, claim, nil
}

// Open looks what the local store can spare a partition. Without a store everything is read again, and
// kept as memory allows.
func (e *Env) Open(ctx context.Context, p *Partition) error {
	if p.Ordered() {
		return nil
	}
	err := e.openStore(ctx, p)
	if errors.Is(err, local.ErrNoStore) || errors.Is(err, state.ErrFailed) {
		e.Store.Failed(err)
		return nil
	}
	return err
}

// openStore gives a partition its part of the store, and what that spares it.
func (e *Env) openStore(ctx context.Context, p *Partition) error {
	warm := e.Standbys.Take(p.TP, p.ID)
	store, err := e.Store.Partition(e.Store.ID(p.TP, p.ID))
	if err != nil {
		return p.describe("open the store of", err)
	}
	now, m := e.Clock.Now(), p.Marks()
	if warm != nil {
		got, ok, err := warm.HandOver(store, m.Committed)
		if err != nil {
			return p.describe("take over the standby of", err)
		}
		if ok {
			e.Warm.Add(1)
			got.Start = max(got.Start, p.lostBelow())
			p.Use(store, got, now, e.Window)
			return e.bearStart(p)
		}
	}
	logEnd := m.End(p.Bounds.Stable)
	heir := local.Heir{TP: p.TP, Route: p.Route, Store: store, Reader: e.Reader, Epochs: e.Epochs, Cut: p.cut, Log: p.Log}
	if err := heir.ForgetLost(ctx, m.Committed, p.Told, logEnd); err != nil {
		return p.describe("open the store of", err)
	}
	got, err := heir.Inherit(ctx, m.Committed, p.Bounds.Start, logEnd)
	if err != nil {
		return p.describe("open the store of", err)
	}
	p.Use(store, got, now, e.Window)
	return e.bearStart(p)
}

// lostBelow is where a log begins that has lost what its checkpoint needs: it is read from there on at the lowest. Otherwise it is 0.
func (p *Partition) lostBelow() int64 {
	if start := p.Bounds.Start; start > p.Marks().Committed.LowWater {
		return start
	}
	return 0
}

// bearStart has the disk say up to where a partition is whose log has lost what lay before: it has claimed that, and what is above the O of a store could not be read again.
func (e *Env) bearStart(p *Partition) error {
	if p.lostBelow() == 0 {
		return nil
	}
	if err := p.Flush(); err != nil {
		return p.describe("bring to the disk the store of", err)
	}
	e.Store.Flush()
	return nil
}
