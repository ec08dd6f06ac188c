package turn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// lookupWait is how long a turn waits for the first looks at targets that were not asked for before, for all of
// them together; then their records are carried on.
const lookupWait = 300 * time.Millisecond

// Renderer turns items into records to produce. Its memory is used again by the next turn that
// the same producer runs, so that a delivered record costs no allocation.
type Renderer struct {
	*Env
	rec pending.Record
	req topics.Request // what rec asks for
	recordBlocks
	headers []kgo.RecordHeader
	buf     []byte
	Outputs []Output
	auditor auditor       // what becomes of requests: its outputs follow
	acked   []*kgo.Record // scratch of produce
	now     time.Time     // the timestamp of what is delivered
	parts   []*Part       // that are rendered together
	named   bool          // the targets of all its records have been named
	lookups lookups

	resolves bool // the last item has a resolve record

	delivered topics.Delivered // of the last record: neighbours mostly share most of it

	// What the last record's target was found to be: neighbours mostly share it.
	target  *targets.Target
	state   *targets.State
	allowed *topics.Route // by this route

	trials []*targets.Target // that this turn has on trial

	touched byte // keeps what Touch reads from being left out
}

// Reset takes back all that it has handed out, for the next turn.
func (r *Renderer) Reset() {
	r.back(0)
	r.auditor.reset()
	r.headers, r.buf, r.Outputs = r.headers[:0], r.buf[:0], r.Outputs[:0]
	r.target, r.state, r.allowed, r.trials = nil, nil, nil, nil
	r.parts, r.named, r.lookups = nil, false, lookups{}
}

// Forget gives up memory that a client may still be looking at.
func (r *Renderer) Forget() { *r = Renderer{Env: r.Env} }

func (r *Renderer) newRecord() *kgo.Record {
	rec := r.next()
	rec.Partition, rec.Timestamp = producer.AnyPartition, r.now
	return rec
}

// nameTargets names the targets of all records of the turn, so that those of which nothing is
// known, as all after a restart, are looked up together and not one after the other.
func (r *Renderer) nameTargets() {
	if r.named {
		return
	}
	r.named = true
	var rec pending.Record
	var req topics.Request
	for _, pt := range r.parts {
		for i := range pt.Items {
			it := &pt.Items[i]
			if it.Refusal != nil || it.Effect != pending.EffectNone || rec.Decode(it.Run) != nil {
				continue
			}
			if pt.RequestOf(&req, it, &rec) == nil && pt.Route.Allowed(req.Target) {
				r.Targets.Of(req.Target)
			}
		}
	}
}

// lookups are the first looks at the targets of a turn.
type lookups struct{ waited time.Duration }

// await waits until it is known whether a target can take records, for as long as the turn may wait yet: targets are looked up together, so
// brokers that do not answer for one mostly do not for the next one either.
func (l *lookups) await(ctx context.Context, ts *targets.Table, t *targets.Target) *targets.State {
	if s := t.State.Load(); s.Status != targets.Unknown {
		return s
	}
	began := time.Now()
	s := ts.Await(ctx, t, lookupWait-l.waited)
	l.waited += time.Since(began)
	return s
}

// StuckError means that a part cannot be tried now, because a record in it can go nowhere.
type StuckError struct{ Why string }

func (e StuckError) Error() string { return e.Why }

// ErrAsking means that a part waits for what brokers answer next of a target: no trouble, and nothing
// to speak of.
var ErrAsking = errors.New("a target is looked up again")

// ErrBehind means that a part comes after one of its partition that is held up, and is tried when that is.
var ErrBehind = errors.New("what comes before it is held up")

// Part renders every item of a part, or none: a StuckError, or ErrAsking. Then it says, too, how many there
// are before the one that can go nowhere.
func (r *Renderer) Part(ctx context.Context, pt *Part, now int64) (before int, err error) {
	if err := r.openAudit(ctx, pt); err != nil {
		return 0, err
	}
	outputs, audits, used, headers, buf := len(r.Outputs), len(r.auditor.outputs), r.used, len(r.headers), len(r.buf)
	overtakes := false
	for i := range pt.Items {
		r.touched |= pt.Touch(i)
		it := &pt.Items[i]
		if it.Overtakes() && !overtakes && !it.Acked {
			_, _, err = r.delayTopic(ctx, pt)
			overtakes = true
		}
		if r.resolves = false; err == nil && it.Acked {
			renderAgain(r, pt, it)
		} else if err == nil {
			err = r.item(ctx, pt, it, now)
		}
		if err == nil && r.resolves {
			err = mayResolve(r, pt)
		}
		if err != nil {
			r.back(used)
			r.auditor.back(audits)
			r.Outputs, r.headers, r.buf = r.Outputs[:outputs], r.headers[:headers], r.buf[:buf]
			return i, err
		}
		if it.Overtakes() && !it.Dead && !it.Acked { // else a dead letter has brought it
			r.resolve(pt, it, topics.Resolve(pt.Mark, r.rec.Offset, it.Key.Due, it.Key.Seq))
		}
	}
	return 0, nil
}

func (r *Renderer) item(ctx context.Context, pt *Part, it *pending.Item, now int64) error {
	rec := &r.rec
	if r.auditor.noted(pt, it); it.Effect.Pending() || it.Effect == pending.EffectForgotten {
		return nil
	}
	it.Dead = false
	if err := rec.Decode(it.Run); err != nil {
		panic("turn: BUG: " + err.Error()) // written by this process, or checked when it was loaded
	}
	switch {
	case it.Effect == pending.EffectStale:
		r.resolve(pt, it, stale(pt.Mark, it))
		return nil
	case it.By > 0:
		r.takenAway(pt, it)
		return nil
	case it.Refusal != nil:
		return outlasting{r}.refused(ctx, pt, it, now)
	case it.Effect == pending.EffectIgnored:
		r.auditor.duplicate(pt, it)
		r.resolved(pt, it)
		return nil
	case it.Effect != pending.EffectNone:
		return r.cancel(ctx, pt, it)
	}
	req := &r.req
	if err := pt.RequestOf(req, it, rec); err != nil {
		return r.deadLetter(ctx, pt, it, err.(*topics.Refusal))
	}
	if req.Kind != topics.KindRequest { // a copy of what was given up, by the parser of today
		return r.deadLetter(ctx, pt, it, &topics.Refusal{Code: topics.CodeUnsupportedHeader, Stage: topics.StageParse, Message: "it was carried as a request, and by the headers that its route knows now it asks for something else"})
	}
	if why := it.Blame(); why != nil {
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, refusalOf(req.Target, why))
	}
	if req.AtOnce {
		return r.postpone(ctx, pt, it, req, now)
	}
	if expired := pt.Route.Expired(req, req.First(rec.Offset, rec.Timestamp).Due, now); expired != nil {
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, expired)
	}
	if r.target == nil || r.allowed != pt.Route || string(req.Target) != r.target.Name {
		if refusal := pt.Route.RefuseTarget(req); refusal != nil { // what was allowed when it was accepted may not be any more
			return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, refusal)
		}
		r.target, r.allowed = r.Targets.Of(req.Target), pt.Route
		if r.target.State.Load().Status == targets.Unknown {
			r.nameTargets()
		}
		r.state = r.lookups.await(ctx, r.Targets, r.target)
	}
	t, st := r.target, r.state
	if refusal := deniedBy(t, st, req, pt.Route, pt.TP.Partition); refusal != nil {
		// It may have been made, or grown, since the brokers were asked: ask again, and try later.
		if r.outdated(st, pt, it, req.First(rec.Offset, rec.Timestamp), now) {
			r.Targets.Hurry(t)
			if pt.Ordered() {
				return ErrAsking
			}
			return r.carryOn(ctx, pt, it, req, now, "target "+t.Name+" is looked up again")
		}
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, refusal)
	}
	if !r.takes(t, st, pt.Ordered()) {
		return r.carryOn(ctx, pt, it, req, now, fmt.Sprintf("target %s: %s", t.Name, st.NotReady()))
	}
	return r.deliver(ctx, pt, it, req, now)
}

// deliver renders a record for its target, or a dead letter when the target does not take it as it is.
func (r *Renderer) deliver(ctx context.Context, pt *Part, it *pending.Item, req *topics.Request, now int64) error {
	rec, t, st := &r.rec, r.target, r.state
	first := req.First(rec.Offset, rec.Timestamp)
	out := r.newRecord()
	out.Topic, out.Key, out.Value, out.Partition = t.Name, rec.Key, rec.Value, req.Partition
	if req.HasKey {
		out.Key = req.Key
	}
	if req.Partition < 0 {
		out.Partition = pt.Route.Partitioner.Of(out.Key, pt.TP.Partition, st.Partitions)
	}
	if at := pt.Route.Timestamp.Of(first, now); at != now {
		out.Timestamp = time.UnixMilli(at)
	}
	d := &r.delivered
	d.Topic, d.Partition, d.Origin, d.Fired = pt.TP.Topic, pt.TP.Partition, first, now
	d.Attempt, d.Round, d.Emit, d.Strip = req.Attempt, 0, pt.Route.Emit, nil
	d.Preset, d.Prefix = req.Preset, pt.Route.HeaderPrefix()
	d.Asked = pt.ParserOf(rec).Name(topics.HeaderPrefix)
	if pt.Route.Retry != nil {
		d.Round, d.Strip = req.Round+1, pt.Route.Retry.Strip
	}
	headers, buf := topics.AppendDelivered(r.headers, rec.Headers, d, r.buf)
	size := sealed(r, out, headers, buf)
	switch how, ok := r.fits(out, size, st); {
	case !ok:
		r.drop(out)
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, produceRefusal(topics.CodeTooLarge,
			"%s with the headers that are added, and the topic %s takes %d", how, t.Name, st.Takes.MaxBytes))
	case st.Takes.Compacted && out.Key == nil:
		r.drop(out)
		return outlasting{r}.undeliverable(ctx, pt, it, outlasting{r}.triedAs(req), now, produceRefusal(topics.CodeRejected, "the topic %s is compacted and takes no record without a key", t.Name))
	}
	r.Outputs = append(r.Outputs, Output{Record: out, Kind: OutDelivered, Item: it, Part: pt, Target: t, Since: deliverable(first, now), Size: size})
	r.auditor.delivered(pt, it, rec, first, out)
	return nil
}

// Audits are what was rendered for the audit topic.
func (r *Renderer) Audits() []Output { return r.auditor.outputs }

// sealed gives the last new record the headers that were appended for it, with their bytes, to those of the records before it. It returns how large the record is.
func sealed(r *Renderer, out *kgo.Record, headers []kgo.RecordHeader, buf []byte) (size int) {
	out.Headers = headers[len(r.headers):len(headers):len(headers)]
	r.headers, r.buf = headers, buf
	return topics.RecordSize(out.Key, out.Value, out.Headers)
}

// drop takes back the last new record.
func (r *Renderer) drop(rec *kgo.Record) {
	r.headers = r.headers[:len(r.headers)-len(rec.Headers)]
	r.back(r.used - 1)
}

func produceRefusal(code topics.Code, format string, args ...any) *topics.Refusal {
	return &topics.Refusal{Code: code, Stage: topics.StageProduce, Message: fmt.Sprintf(format, args...)}
}

// deadLetter renders an item that cannot be delivered, and with it the resolve record that it
// may need. The dead letter is the request as it was written, whatever was tried since, and names it.
func (r *Renderer) deadLetter(ctx context.Context, pt *Part, it *pending.Item, refusal *topics.Refusal) error {
	rec := &r.rec
	t := r.Targets.Of([]byte(pt.Route.LetterBox(refusal)))
	st := r.lookups.await(ctx, r.Targets, t)
	if !r.takes(t, st, true) {
		return StuckError{fmt.Sprintf("a record has to go to the dead letter topic %s: %s", t.Name, st.NotReady())}
	}
	out := r.newRecord()
	out.Topic, out.Key, out.Value = t.Name, rec.Key, rec.Value
	written, tried, retried := pt.Mark.Written(rec.Headers, rec.Offset)
	if !retried {
		tried.Origin = topics.Origin{Offset: rec.Offset, Timestamp: rec.Timestamp}
	}
	headers, buf := topics.AppendDeadLetter(r.headers, written, topics.DeadLetter{
		Topic: pt.TP.Topic, Partition: pt.TP.Partition, Offset: tried.Origin.Offset, Timestamp: tried.Origin.Timestamp,
		Refusal: refusal, Instance: r.Instance, Attempts: tried.Attempt,
	}, r.buf)
	size, cut := sealed(r, out, headers, buf), false
	if _, ok := r.fits(out, size, st); !ok || it.Cuts() > 0 {
		cut = topics.FitDeadLetter(out, st.Takes.RecordBytes()>>max(it.Cuts()-1, 0))
		size = topics.RecordSize(out.Key, out.Value, out.Headers)
	}
	r.Outputs = append(r.Outputs, Output{Record: out, Kind: OutDeadLetter, Item: it, Part: pt, Refusal: refusal, Offset: tried.Origin.Offset, Cut: cut, Size: size})
	r.auditor.deadLettered(pt, it, rec, tried.Origin, refusal, out)
	r.resolved(pt, it)
	if first := tried.Origin; retried && pt.Remembers(first.Offset) { // it has left its stub when it was carried on
		r.resolve(pt, it, topics.Resolve(pt.Mark, first.Offset, first.Due, first.Offset))
	}
	return nil
}

// carryOn renders a record whose target is in trouble as a new request for later. On a
// fixed-delay route it waits where it is, and so do those behind it.
func (r *Renderer) carryOn(ctx context.Context, pt *Part, it *pending.Item, req *topics.Request, now int64, why string) error {
	rec := &r.rec
	if pt.Ordered() {
		return StuckError{why}
	}
	appended, err := r.append(ctx, pt, it, OutRetry, topics.Retry{
		Due:     retryDue(now + r.pause(rec.Offset, req.Attempt).Milliseconds()),
		Attempt: req.Attempt + 1,
		Origin:  req.First(rec.Offset, rec.Timestamp),
	})
	switch {
	case err != nil:
		return StuckError{why + "; and " + err.Error()}
	case !appended:
		return StuckError{fmt.Sprintf("%s; record %d is too large to be appended again", why, rec.Offset)}
	}
	return nil
}

// postpone renders a record of a retry route that came at a time that is not known as one that is due after its backoff.
func (r *Renderer) postpone(ctx context.Context, pt *Part, it *pending.Item, req *topics.Request, now int64) error {
	due := now + req.Pause
	appended, err := r.append(ctx, pt, it, OutPostponed, topics.Retry{Due: due, Origin: topics.Origin{Offset: r.rec.Offset, Timestamp: r.rec.Timestamp, Due: due}})
	switch {
	case err != nil:
		return StuckError{err.Error()}
	case !appended:
		return r.deadLetter(ctx, pt, it, produceRefusal(topics.CodeTooLarge,
			"the topic %s does not take it once more, with a header that says when it is due: with message.timestamp.type LogAppendTime it need not", pt.TP.Topic))
	}
	return nil
}

// append renders a record that is written to its delay topic again. It reports whether that takes it.
func (r *Renderer) append(ctx context.Context, pt *Part, it *pending.Item, kind Kind, as topics.Retry) (bool, error) {
	rec := &r.rec
	t, st, err := r.delayTopic(ctx, pt)
	if err != nil {
		return false, err
	}
	out := r.newRecord()
	out.Topic, out.Partition, out.Key, out.Value = t.Name, pt.TP.Partition, rec.Key, rec.Value
	written, _, _ := pt.Mark.Written(rec.Headers, rec.Offset)
	as.Names = topics.NamesOf(pt.ParserOf(rec))
	headers, buf := topics.AppendRetry(r.headers, written, pt.Mark, as, r.buf)
	size := sealed(r, out, headers, buf)
	if _, ok := r.fits(out, size, st); !ok || it.Stays {
		r.drop(out)
		return false, nil
	}
	r.Outputs = append(r.Outputs, Output{Record: out, Kind: kind, Item: it, Part: pt, Size: size})
	r.auditor.retried(pt, it, rec, as)
	return true, nil
}

// delayTopic is the delay topic of a partition as a target, if that partition can be written to, whatever others of it are in.
func (r *Renderer) delayTopic(ctx context.Context, pt *Part) (*targets.Target, *targets.State, error) {
	t := r.Targets.Of([]byte(pt.TP.Topic))
	st := r.lookups.await(ctx, r.Targets, t)
	if !st.TakesFor(pt.TP.Partition) && !r.takes(t, st, true) {
		return nil, nil, StuckError{fmt.Sprintf("delay topic %s: %s", t.Name, st.NotReady())}
	}
	return t, st, nil
}
