package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/targets"
)

// A Turn is what a lane has decided to do at one moment: the records that are due, where they
// go, and the checkpoint that says so. In exactly_once it is one Kafka transaction (KIP-98 with
// the group metadata of KIP-447), and either all of it happens or nothing. It runs on a goroutine
// of its own, because the lane goes on reading meanwhile; the lane begins no other until this one
// is decided.
type Turn struct {
	*Env
	Parts    []*Part
	Producer *producer.Producer
	Renderer *Renderer
	Plain    bool // no records: an offset commit outside a transaction
	Full     bool // more is due than fits
	Narrows  bool // it is part of a search for what is to blame for a refusal (rejected.go)
	Member   kafka.Member
	Began    time.Time
	Patience int // turns in a row before this one that ran out of time
	Cancel   context.CancelFunc
	Begin    chan bool // not nil: rendered ahead, and told here whether to go on
	Joining  []*Part   // of parts, since it was told to go on. A partition may be among both: then the later part happens after the other one

	// What became of it; set before it is handed back to the lane.
	Outcome     Outcome
	Err         error
	Untried     []Untried                      // not tried: as if the turn had not begun for them
	Tried       []*Part                        // what the outcome is about
	OwnEnds     map[*Part]int64                // records of ours that were appended lie below
	PassedOn    map[kafka.TopicPartition]int64 // what was passed on to other partitions lies below
	Blamed      map[string]error               // targets that did not take their records
	Refused     map[*Part]error                // checkpoints that were refused each for itself
	Rejected    *Rejection                     // of records, for what one of them is
	CopyRefused error                          // of copies, for what one of them is
	Settled     bool                           // all of its records were acknowledged, or refused for what one of them is
	Acked       float64                        // the share of its records that was acknowledged before it was given up
	LeftBusy    *producer.BusyID               // the id that it had, if its end cannot be written to all of them
	Trials      []*targets.Target              // targets that it has on trial
	Sending     time.Duration                  // from when its records were handed over until all were acknowledged and no quota kept us waiting; 0: they were not
	Answered    time.Time
}

// Untried is a part that was not tried, because a record in it can go nowhere now: Why is a StuckError, ErrAsking or ErrBehind.
type Untried struct {
	Part   *Part
	Before int // how many of its records come before the one that can go nowhere
	Why    error
}

// Outcome is what has become of a turn.
type Outcome int

const (
	// Done: it happened.
	Done Outcome = iota
	// Aborted: it is known not to have happened; it is as if it had begun later.
	Aborted
	// Unknown: it may have happened. What was remembered of its partitions is worth nothing.
	Unknown
	// NotBegun: it was rendered ahead, and then not wanted.
	NotBegun
)

func (o Outcome) String() string {
	return [...]string{"committed", "aborted", "unknown", "not begun"}[o]
}

// Start has a goroutine carry the turn out, which hands it back when it is decided. What has begun is finished
// even when the processor is told to stop; until ends when nothing is waited for any more.
func (t *Turn) Start(until context.Context, wg *sync.WaitGroup, decided chan<- *Turn) {
	ctx, cancel := context.WithCancel(until)
	t.Cancel = cancel
	wg.Go(func() {
		t.Run(ctx)
		cancel() // whether it has begun or not
		decided <- t
	})
}

// Run carries the turn out and returns when it is decided, or when ctx ends, which makes it
// unknown. One that is rendered ahead waits until it is told whether to begin, whatever ctx says.
func (t *Turn) Run(ctx context.Context) {
	defer func() { t.Answered = t.Clock.Time() }()
	if t.Plain {
		t.Tried = t.Parts
		t.CommitPlain(ctx)
		return
	}
	t.RenderParts(ctx, t.Parts)
	if t.Begin != nil {
		if !<-t.Begin {
			t.Outcome = NotBegun
			return
		}
		t.Parts = append(t.Parts, t.Joining...)
		t.RenderParts(ctx, t.Joining)
	}
	t.Renderer.Outputs = append(t.Renderer.Outputs, t.Renderer.Audits()...)
	t.OwnEnds = map[*Part]int64{}
	for i := range t.Renderer.Outputs {
		if o := &t.Renderer.Outputs[i]; o.Kind.appends() {
			o.Part.To.Appended = true
		}
	}
	switch {
	case len(t.Tried) == 0:
	case t.AtLeastOnce:
		t.runPlainly(ctx)
	case len(t.Renderer.Outputs) == 0:
		// Everything with records in it is held up, or nothing has to be written for them. A transaction without a
		// record is one that kgo would not end (design rule 8).
		t.Plain = true
		t.CommitPlain(ctx)
	default:
		t.runTransaction(ctx)
	}
}

// RenderParts makes the records of every part that can be tried now.
func (t *Turn) RenderParts(ctx context.Context, parts []*Part) {
	now := t.Clock.Time()
	t.Renderer.Env, t.Renderer.parts, t.Renderer.named = t.Env, parts, false
	for _, pt := range parts {
		if len(pt.Items) > 0 && slices.ContainsFunc(t.Untried, func(h Untried) bool { return h.Part.TP == pt.TP }) {
			t.Untried = append(t.Untried, Untried{pt, 0, ErrBehind})
			continue
		}
		// What was taken was due by the lane's clock, or by one of the group before, even if the
		// clock has been set back since.
		t.Renderer.now = now
		if due := time.UnixMilli(pt.Due()); now.Before(due) {
			t.Renderer.now = due
		}
		before, err := 0, error(nil)
		if pt.Copies != nil {
			err = pt.Copies.render(ctx, t.Renderer, pt)
		} else {
			before, err = t.Renderer.Part(ctx, pt, t.Renderer.now.UnixMilli())
		}
		if err != nil {
			t.Untried = append(t.Untried, Untried{pt, before, err})
			continue
		}
		t.Tried = append(t.Tried, pt)
	}
	t.Trials = t.Renderer.trials
}

// CommitPlain writes the checkpoints of partitions for which nothing is due. It is sent once: a
// copy that arrives late would take the checkpoint back.
func (t *Turn) CommitPlain(ctx context.Context) error {
	entries, err := t.entries()
	if err == nil {
		err = t.Coordinator.Commit(ctx, t.Reader, t.Member, entries)
	}
	t.noteRefused(err, func(error) bool { return true })
	switch t.Err = err; {
	case err == nil:
		t.Outcome = Done
	case kafka.VerdictOf(err) == kafka.Unknown:
		t.Outcome = Unknown
	case len(t.Refused) > 0 && len(t.Refused) < len(t.Tried):
		t.Outcome = Done // for the others
	default:
		t.Outcome = Aborted
	}
	return err
}

// noteRefused notes which checkpoints the coordinator has refused, each for a reason that counts.
func (t *Turn) noteRefused(err error, counts func(error) bool) {
	t.Refused = nil
	of := kafka.RefusedOf(err)
	for _, pt := range t.Tried {
		if why := of[pt.TP]; why != nil && counts(why) {
			if t.Refused == nil {
				t.Refused = map[*Part]error{}
			}
			t.Refused[pt] = why
		}
	}
}

func (t *Turn) entries() ([]kafka.Commit, error) {
	t.chain()
	lasts := t.Lasts()
	entries := make([]kafka.Commit, 0, len(lasts))
	for _, pt := range lasts {
		e, err := CommitOf(pt.TP, pt.ID, pt.To)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// runTransaction is the exactly_once turn: offsets first, so that an open transaction always
// shows on its partitions (design rule 9), then the records, then the decision.
func (t *Turn) runTransaction(ctx context.Context) {
	entries, err := t.entries()
	if err != nil {
		t.Outcome, t.Err = Aborted, err
		return
	}
	if err := t.makeRoom(ctx); err != nil {
		t.Outcome, t.Err = Unknown, err
		return
	}
	work, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	opened := time.Now()
	tx, err := t.Producer.Open(work, t.Coordinator, t.Member, entries)
	if err == nil {
		tx.WritesTo(topicsOf(t.Renderer.Outputs))
		err = t.produce(ctx, opened, tx.Wrote)
	}
	if err == nil {
		end, cancelEnd := context.WithTimeout(ctx, decisionPatience)
		defer cancelEnd()
		err = tx.Decide(end, t.Renderer.records())
	}
	if errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Producer.Behind()
	}
	switch {
	case err == nil:
	case errors.Is(err, producer.ErrUndecided):
		t.Outcome, t.Err = Unknown, err
	default:
		t.abort(ctx, tx, err)
	}
}

// decisionPatience is how long the decision is asked for again and again: its outcome spares partitions
// a new start, and their producers have to wait for the same coordinator.
const decisionPatience = 10 * time.Second

// timeout is how long the turn may take up to its decision: where brokers are slow to answer, as long as it takes to find and reach the leaders of
// two stages. After turns that have run out of time it gets more, as what it carries may be one record already.
func (t *Turn) timeout() time.Duration {
	return min(max(t.TurnTimeout, 2*coldTrips*t.Targets.Trip())<<t.Patience, t.TransactionTimeout*4/5)
}

// extension is how much longer a turn may take that has used up its time: as long as a quota keeps its records waiting, if the
// transaction timeout allows for that, and for the rest of them, which has to wait after those that are on their way. What is sent for
// a transaction that cannot end in time is charged to the quota like any other, so all that is due waits for it once more.
func (t *Turn) extension(began time.Time, acked, rest int) time.Duration {
	throttled := t.Quota.Left()
	if throttled == 0 {
		return 0
	}
	more := throttled + t.TurnTimeout/4
	if t.AtLeastOnce {
		return more // given up, what is on its way would come twice
	}
	left := time.Until(began.Add(t.TransactionTimeout * 4 / 5))
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
func (t *Turn) abort(ctx context.Context, tx *producer.Transaction, why error) {
	t.Err, t.Outcome = why, Unknown
	if producer.Lost(why) {
		return
	}
	renew, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	t.noteRefused(why, kafka.IsPartitions)
	t.Renderer.Forget() // the old client may still hold its records
	if err := tx.Abort(renew, why); err != nil {
		t.Err = err
		return
	}
	t.LeftBusy = t.Producer.LeftBusy()
	t.Outcome = Aborted
}

// runPlainly is the at_least_once turn: the records alone. The checkpoint follows by a plain
// commit, so what is delivered between the two comes again after a crash.
func (t *Turn) runPlainly(ctx context.Context) {
	if len(t.Renderer.Outputs) == 0 {
		return // all of it was acknowledged before
	}
	if err := t.makeRoom(ctx); err != nil {
		t.Outcome, t.Err = Unknown, err
		return
	}
	err := t.produce(ctx, time.Now(), func([]*kgo.Record) {})
	if err == nil {
		return
	}
	t.Outcome, t.Err = Aborted, err
	t.Renderer.Outputs = slices.DeleteFunc(t.Renderer.Outputs, func(o Output) bool { return !o.Item.Acked || o.missing })
	t.appended()
	t.Answered = t.Clock.Time()
	t.Count(t) // they are not tried again
	t.Renderer.Forget()
	if t.Settled {
		return // the client has nothing left to do, and a search takes many turns
	}
	if err := t.Producer.Renew(ctx); err != nil {
		t.Outcome, t.Err = Unknown, errors.Join(t.Err, err)
	}
}

// produce hands the records to the producer and waits until all are acknowledged. When it
// fails, the targets to blame are noted, and (for at_least_once) what was acknowledged. Wrote is told of the records that were.
func (t *Turn) produce(ctx context.Context, began time.Time, wrote func(acked []*kgo.Record)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.NewTimer(time.Until(began.Add(t.timeout())))
	defer late.Stop()
	outs, sent := t.Renderer.Outputs, time.Now()
	w := &acks{left: len(outs), acked: t.Renderer.acked[:0], done: make(chan struct{}), broke: make(chan struct{})}
	promise := w.promise
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		wrote(w.acked)
	}()
	later, stages := t.handOver(promise)
	cl, flushed := t.Producer.Client(), make(chan struct{})
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
			t.Renderer.acked, t.Sending = w.acked, time.Since(sent)+t.Quota.Left()
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
