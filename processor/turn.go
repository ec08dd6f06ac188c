package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/targets"
)

// A turn is what a lane has decided to do at one moment: the records that are due, where they
// go, and the checkpoint that says so. In exactly_once it is one Kafka transaction (KIP-98 with
// the group metadata of KIP-447), and either all of it happens or nothing. It runs on a goroutine
// of its own, because the lane goes on reading meanwhile; the lane begins no other until this one
// is decided.
type turn struct {
	*kit
	parts    []*part
	producer *producer.Producer
	render   *renderer
	plain    bool // no records: an offset commit outside a transaction
	full     bool // more is due than fits
	narrows  bool // it is part of a search (suspect.go)
	member   kafka.Member
	began    time.Time
	patience int // turns in a row before this one that ran out of time
	cancel   context.CancelFunc
	begin    chan bool // not nil: rendered ahead, and told here whether to go on
	joining  []*part   // of parts, since it was told to go on. A partition may be among both: then the later part happens after the other one

	// What became of it; set before it is handed back to the lane.
	outcome     outcome
	err         error
	held        []heldPart        // not tried: as if the turn had not begun for them
	tried       []*part           // what the outcome is about
	ownEnds     map[*part]int64   // records of ours that were appended lie below
	blamed      map[string]error  // targets that did not take their records
	refused     map[*part]error   // checkpoints that were refused each for itself
	rejected    *refusal          // of records, for what one of them is
	copyRefused error             // of copies, for what one of them is
	settled     bool              // all of its records were acknowledged, or refused for what one of them is
	acked       float64           // the share of its records that was acknowledged before it was given up
	leftBusy    *producer.BusyID  // the id that it had, if its end cannot be written to all of them
	trials      []*targets.Target // targets that it has on trial
	sending     time.Duration     // from when its records were handed over until all were acknowledged and no quota kept us waiting; 0: they were not
	answered    time.Time
}

type heldPart struct {
	part   *part
	before int // how many of its records come before the one that can go nowhere
	why    error
}

type outcome int

const (
	// outcomeDone: it happened.
	outcomeDone outcome = iota
	// outcomeAborted: it is known not to have happened; it is as if it had begun later.
	outcomeAborted
	// outcomeUnknown: it may have happened. What was remembered of its partitions is worth nothing.
	outcomeUnknown
	// outcomeNotBegun: it was rendered ahead, and then not wanted.
	outcomeNotBegun
)

func (o outcome) String() string {
	return [...]string{"committed", "aborted", "unknown", "not begun"}[o]
}

// start has a goroutine carry the turn out, which hands it back when it is decided. What has begun is finished
// even when the processor is told to stop.
func (t *turn) start(decided chan<- *turn) {
	ctx, cancel := context.WithCancel(t.until)
	t.cancel = cancel
	t.wg.Go(func() {
		t.run(ctx)
		cancel() // whether it has begun or not
		decided <- t
	})
}

// run carries the turn out and returns when it is decided, or when ctx ends, which makes it
// unknown.
func (t *turn) run(ctx context.Context) {
	defer func() { t.answered = t.clock.Time() }()
	if t.plain {
		t.tried = t.parts
		t.commitPlain(ctx)
		return
	}
	t.renderParts(ctx, t.parts)
	if t.begin != nil {
		if !<-t.begin {
			t.outcome = outcomeNotBegun
			return
		}
		t.parts = append(t.parts, t.joining...)
		t.renderParts(ctx, t.joining)
	}
	t.render.outputs = append(t.render.outputs, t.render.auditor.outputs...)
	t.ownEnds = map[*part]int64{}
	for i := range t.render.outputs {
		if o := &t.render.outputs[i]; o.kind.appends() {
			o.part.To.Appended = true
		}
	}
	switch {
	case len(t.tried) == 0:
	case t.cfg.Guarantee == AtLeastOnce:
		t.runPlainly(ctx)
	case len(t.render.outputs) == 0:
		// Everything with records in it is held up, or nothing has to be written for them. A transaction without a
		// record is one that kgo would not end (design rule 8).
		t.plain = true
		t.commitPlain(ctx)
	default:
		t.runTransaction(ctx)
	}
}

// renderParts makes the records of every part that can be tried now.
func (t *turn) renderParts(ctx context.Context, parts []*part) {
	now := t.clock.Time()
	t.render.parts, t.render.named = parts, false
	for _, pt := range parts {
		if len(pt.Items) > 0 && slices.ContainsFunc(t.held, func(h heldPart) bool { return h.part.p == pt.p }) {
			t.held = append(t.held, heldPart{pt, 0, errBehind})
			continue
		}
		// What was taken was due by the lane's clock, or by one of the group before, even if the
		// clock has been set back since.
		t.render.now = now
		if due := time.UnixMilli(pt.Due()); now.Before(due) {
			t.render.now = due
		}
		before, err := 0, error(nil)
		if pt.copies != nil {
			err = pt.copies.render(ctx, t.render, pt)
		} else {
			before, err = t.render.part(ctx, pt, t.render.now.UnixMilli())
		}
		if err != nil {
			t.held = append(t.held, heldPart{pt, before, err})
			continue
		}
		t.tried = append(t.tried, pt)
	}
	t.trials = t.render.trials
}

// commitPlain writes the checkpoints of partitions for which nothing is due. It is sent once: a
// copy that arrives late would take the checkpoint back.
func (t *turn) commitPlain(ctx context.Context) error {
	entries, err := t.entries()
	if err == nil {
		err = t.coordinator.Commit(ctx, t.reader, t.member, entries)
	}
	t.noteRefused(err, func(error) bool { return true })
	switch t.err = err; {
	case err == nil:
		t.outcome = outcomeDone
	case kafka.VerdictOf(err) == kafka.Unknown:
		t.outcome = outcomeUnknown
	case len(t.refused) > 0 && len(t.refused) < len(t.tried):
		t.outcome = outcomeDone // for the others
	default:
		t.outcome = outcomeAborted
	}
	return err
}

// noteRefused notes which checkpoints the coordinator has refused, each for a reason that counts.
func (t *turn) noteRefused(err error, counts func(error) bool) {
	t.refused = nil
	of := kafka.RefusedOf(err)
	for _, pt := range t.tried {
		if why := of[pt.p.tp]; why != nil && counts(why) {
			if t.refused == nil {
				t.refused = map[*part]error{}
			}
			t.refused[pt] = why
		}
	}
}

func (t *turn) entries() ([]kafka.Commit, error) {
	t.chain()
	lasts := t.lasts()
	entries := make([]kafka.Commit, 0, len(lasts))
	for _, pt := range lasts {
		e, err := entry(pt.p.tp, pt.p.id, pt.To)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// runTransaction is the exactly_once turn: offsets first, so that an open transaction always
// shows on its partitions (design rule 9), then the records, then the decision.
func (t *turn) runTransaction(ctx context.Context) {
	entries, err := t.entries()
	if err != nil {
		t.outcome, t.err = outcomeAborted, err
		return
	}
	if err := t.makeRoom(ctx); err != nil {
		t.outcome, t.err = outcomeUnknown, err
		return
	}
	work, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	opened := time.Now()
	tx, err := t.producer.Open(work, t.coordinator, t.member, entries)
	if err == nil {
		err = t.produce(ctx, opened)
	}
	if err == nil {
		end, cancelEnd := context.WithTimeout(ctx, decisionPatience)
		defer cancelEnd()
		err = tx.Decide(end, t.render.records())
	}
	switch {
	case err == nil:
	case errors.Is(err, producer.ErrUndecided):
		t.outcome, t.err = outcomeUnknown, err
	default:
		t.abort(ctx, tx, err)
	}
}

// decisionPatience is how long the decision is asked for again and again: its outcome spares partitions
// a new start, and their producers have to wait for the same coordinator.
const decisionPatience = 10 * time.Second

// timeout is how long the turn may take up to its decision: where brokers are slow to answer, as long as it takes to find and reach the leaders of
// two stages. After turns that have run out of time it gets more, as what it carries may be one record already.
func (t *turn) timeout() time.Duration {
	return min(max(t.cfg.TurnTimeout, 2*coldTrips*t.targets.Trip())<<t.patience, t.cfg.TransactionTimeout*4/5)
}

// extension is how much longer a turn may take that has used up its time: as long as a quota keeps its records waiting, if the
// transaction timeout allows for that, and for the rest of them, which has to wait after those that are on their way. What is sent for
// a transaction that cannot end in time is charged to the quota like any other, so all that is due waits for it once more.
func (t *turn) extension(began time.Time, acked, rest int) time.Duration {
	throttled := t.quota.Left()
	if throttled == 0 {
		return 0
	}
	more := throttled + t.cfg.TurnTimeout/4
	if t.cfg.Guarantee == AtLeastOnce {
		return more // given up, what is on its way would come twice
	}
	left := time.Until(began.Add(t.cfg.TransactionTimeout * 4 / 5))
	if throttled+behind(time.Since(began)+throttled, acked, rest) > left {
		return 0
	}
	return min(more, left)
}

// behind is for how long the quota will keep those of the rest waiting that are not on their way yet, at the pace of those that were
// acknowledged. Brokers carry out a request before they ask to be left alone for it, and as much again as was acknowledged
// may have been sent: that much is left out, so that no turn is given up that can end.
func behind(passed time.Duration, acked, rest int) time.Duration {
	if acked == 0 || rest <= acked {
		return 0
	}
	return time.Duration(float64(passed) * float64(rest-acked) / float64(acked))
}

// abort makes sure that a turn that has not been asked to commit cannot happen any more. If that is not known, the outcome is unknown.
func (t *turn) abort(ctx context.Context, tx *producer.Transaction, why error) {
	t.err, t.outcome = why, outcomeUnknown
	if producer.Lost(why) {
		return
	}
	renew, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	t.noteRefused(why, kafka.IsPartitions)
	t.render.forget() // the old client may still hold its records
	if err := tx.Abort(renew, why); err != nil {
		t.err = err
		return
	}
	t.leftBusy = t.producer.LeftBusy()
	t.outcome = outcomeAborted
}

// runPlainly is the at_least_once turn: the records alone. The checkpoint follows by a plain
// commit, so what is delivered between the two comes again after a crash.
func (t *turn) runPlainly(ctx context.Context) {
	if len(t.render.outputs) == 0 {
		return // all of it was acknowledged before
	}
	if err := t.makeRoom(ctx); err != nil {
		t.outcome, t.err = outcomeUnknown, err
		return
	}
	err := t.produce(ctx, time.Now())
	if err == nil {
		return
	}
	t.outcome, t.err = outcomeAborted, err
	t.render.outputs = slices.DeleteFunc(t.render.outputs, func(o output) bool { return !o.item.Acked || o.missing })
	t.appended()
	t.answered = t.clock.Time()
	t.counters.outputs(t) // they are not tried again
	t.render.forget()
	if t.settled {
		return // the client has nothing left to do, and a search takes many turns
	}
	if err := t.producer.Renew(ctx); err != nil {
		t.outcome, t.err = outcomeUnknown, errors.Join(t.err, err)
	}
}

// produce hands the records to the producer and waits until all are acknowledged. When it
// fails, the targets to blame are noted, and (for at_least_once) what was acknowledged.
func (t *turn) produce(ctx context.Context, began time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.NewTimer(time.Until(began.Add(t.timeout())))
	defer late.Stop()
	outs, sent := t.render.outputs, time.Now()
	w := &acks{left: len(outs), acked: t.render.acked[:0], done: make(chan struct{}), broke: make(chan struct{})}
	promise := w.promise
	later, stages := t.handOver(promise)
	cl, flushed := t.producer.Client(), make(chan struct{})
	go func() {
		defer close(flushed)
		flush(ctx, cl, later, promise)
		sendStages(ctx, cl, stages, w)
	}()
	watch := t.watch(w)
	defer watch.stop()
	for {
		select {
		case <-w.done:
			<-flushed
			if err := t.failure(w); err != nil {
				return err
			}
			t.acknowledged()
			t.render.acked, t.sending = w.acked, time.Since(sent)+t.quota.Left()
			return nil
		case <-late.C:
			acked, rest := w.count()
			if more := t.extension(began, acked, rest); more > 0 {
				late.Reset(more)
				continue
			}
			if err := t.failure(w); err != nil {
				return err
			}
			return fmt.Errorf("records not acknowledged within %v: %w", time.Since(began).Round(time.Millisecond), context.DeadlineExceeded)
		case <-ctx.Done():
			return ctx.Err()
		case <-watch.broke:
			watch.hasten()
		case <-watch.tick.C:
			if why := watch.hopeless(); why != nil {
				if err := t.failure(w); err != nil {
					return err
				}
				return why
			}
		}
	}
}

// appended notes where records of ours have come to lie. All outputs are acknowledged.
func (t *turn) appended() {
	for i := range t.render.outputs {
		if o := &t.render.outputs[i]; o.kind.appends() {
			t.ownEnds[o.part] = max(t.ownEnds[o.part], o.rec.Offset+1)
		}
	}
}

// acknowledged takes in that all outputs are, and so that targets have passed their trial.
func (t *turn) acknowledged() {
	t.appended()
	for _, target := range t.trials {
		// The record that it was to be tried with may have gone elsewhere, or been held up.
		if slices.ContainsFunc(t.render.outputs, func(o output) bool { return o.rec.Topic == target.Name }) {
			target.Passed()
		}
	}
}
