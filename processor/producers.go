package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/processor/wait"
)

// producers are those of a lane, with what their turns are rendered into: two transactional ones that take turns, or one
// that is idempotent only. They belong to the lane, and to the goroutine that renews them while that is at work.
type producers struct {
	*kit
	standing  *group.Standing
	list      []*producer.Producer
	spare     *producer.Spare // nil in at_least_once
	renderers [2]*turn.Renderer
	next      int // whose turn it is
	renewing  bool
	renewed   chan error // not nil only for a process that has just started
	forgotAt  time.Time  // when it was last looked for topics that are gone
}

// start makes the producers, and returns when there is one to deliver with, or ctx has ended.
func (ps *producers) start(ctx context.Context) error {
	ids := []string{""}
	if ps.cfg.Guarantee == ExactlyOnce {
		all := producer.IDsOf(ps.writer)
		ids, ps.spare = all[:2], ps.newSpare(ctx, all[2:])
	}
	for _, id := range ids {
		ps.list = append(ps.list, producer.New(ps.config(id)))
	}
	for i := range ps.renderers {
		ps.renderers[i] = &turn.Renderer{}
	}
	ps.begin(ctx, 0, true)
	select {
	case err := <-ps.renewed:
		ps.renewing = false
		return err
	case <-ctx.Done():
		<-ps.renewed
		return nil
	}
}

func (ps *producers) config(id string) producer.Config {
	return producer.Config{
		Client: ps.cfg.Client, ID: id, Spare: ps.spare, Timeout: ps.cfg.TransactionTimeout,
		Bounds: producer.NewBounds(ps.targets.MaxBatchBytes), Markers: ps.markers, Hooks: []kgo.Hook{ps.quota}, Log: ps.cfg.Logger,
	}
}

// newSpare looks after the ids that the producers of a lane do not use, until ctx ends.
func (ps *producers) newSpare(ctx context.Context, ids []string) *producer.Spare {
	return producer.NewSpare(ids, func(id string, free func()) {
		ps.wg.Go(func() { ps.markers.AwaitID(ctx, ps.reader, id, ps.cfg.TransactionTimeout, free) })
	})
}

// take is the producer whose turn it is, and its renderer.
func (ps *producers) take() (*producer.Producer, *turn.Renderer) {
	p, r := ps.list[ps.next%len(ps.list)], ps.renderers[ps.next]
	r.Reset()
	ps.next = 1 - ps.next
	return p, r
}

// renew replaces every producer, after a rest and for as long as it takes. Until that is done no turn begins.
func (ps *producers) renew(ctx context.Context, rest time.Duration) {
	if !ps.renewing {
		ps.begin(ctx, rest, false)
	}
}

// owe reports whether the end of a transaction of theirs is to be written again before they go on.
func (ps *producers) owe() bool {
	return ps.markers != nil && !ps.renewing && slices.ContainsFunc(ps.list, func(p *producer.Producer) bool { return ps.markers.Owes(p.ID()) })
}

// settle has the ends of transactions written again that are owed and can be, when no turn is in flight.
func (ps *producers) settle(ctx context.Context) {
	if ps.owe() {
		ps.renew(ctx, 0)
	}
	if ps.markers != nil {
		ps.spare.Settle(ps.markers.Owes)
	}
}

// forgetEvery is how often it is looked for topics that are gone. New clients have to look all others up again, so not more often.
const forgetEvery = time.Minute

// forgetGone renews the producers if one of them has produced to a topic that has been deleted since. A client never forgets a topic by itself: once it
// has noticed, it asks for all its topics ten times a second (kgo.MetadataMinAge) until this one is there again. To purge the topic would
// not do. If it is there after all, sequence numbers begin anew in it, and brokers may take a batch for one that they have already (KIP-98).
func (ps *producers) forgetGone(ctx context.Context, now time.Time) {
	if ps.renewing || now.Sub(ps.forgotAt) < forgetEvery {
		return
	}
	ps.forgotAt = now
	for _, p := range ps.list {
		if slices.ContainsFunc(p.Bounds().Told(), ps.targets.Gone) {
			ps.log.Debug("a topic was deleted that was produced to; the producers are renewed")
			ps.renew(ctx, 0)
			return
		}
	}
}

func (ps *producers) begin(ctx context.Context, rest time.Duration, starting bool) {
	ps.renewing = true
	ps.wg.Go(func() {
		wait.For(ctx, rest)
		ps.renewed <- ps.untilRenewed(ctx, starting)
	})
}

// untilRenewed tries until all are renewed. What only another configuration mends is tried again as well, but
// not by a process that has only started: that ends, as it does for every other setting that cannot be.
func (ps *producers) untilRenewed(ctx context.Context, starting bool) error {
	said, left := "", slices.Clone(ps.list)
	for try := 0; ; try++ {
		var err error
		left, err = renewAll(ctx, left, kafka.RequestTimeout<<min(try+1, 2)) // brokers may be far away, or slow to answer, and are asked for several connections
		if err == nil || ctx.Err() != nil {
			ps.standing.Await(nil)
			return nil
		}
		if refused, ok := errors.AsType[*kafka.TimeoutRefusal](err); ok && starting {
			return refused
		}
		ps.standing.Await(fmt.Errorf("producers are not ready: %w", err))
		pause := wait.Growing(try, 250*time.Millisecond, wait.MostRest)
		level := slog.LevelWarn
		if why := err.Error(); why != said {
			said = why
		} else {
			level = slog.LevelDebug // once is enough
		}
		ps.log.Log(ctx, level, "producers are not ready; trying again", "error", err, "in", pause.Round(time.Millisecond))
		if !wait.For(ctx, pause) {
			return nil
		}
	}
}

// renewAll renews all at the same time, so that one that is not answered does not cost the others theirs, and returns those that it could not
// renew.
func renewAll(ctx context.Context, all []*producer.Producer, patience time.Duration) (left []*producer.Producer, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() { errs[i] = p.Renew(ctx) })
	}
	wg.Wait()
	for i, p := range all {
		if errs[i] != nil {
			left = append(left, p)
		}
	}
	return left, errors.Join(errs...)
}

// close closes all, when no goroutine is left that may renew them.
func (ps *producers) close() {
	for _, p := range ps.list {
		p.Close()
	}
}
