package verify

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
)

// Verifier reads topics and compares what was requested with what has arrived.
type Verifier struct {
	config   Config
	requests *kgo.Client // reads the delay topics
	arrivals *kgo.Client // reads all others
	adm      *kadm.Client
	checker  *check.Checker // made with the first pass, when the ids of topics are known

	ids      map[string][16]byte // of delay topics
	fixed    map[string]bool     // delay topics with a fixed delay
	letters  map[string]bool     // dead letter topics
	boxes    map[string][]string // by delay topic: where its dead letters may be
	wanted   map[string]bool     // topics to read besides the delay topics
	existing kadm.TopicDetails

	delays     map[place]*part
	topics     map[string]*topic
	arriving   map[place]*part // those of topics
	outOfRange map[place]bool
	trouble    map[place]error

	deliveries deliveries

	until   int64 // ms: what was due by then must be there
	partial bool  // targets have not been read to their ends
}

// New makes a Verifier. Opts reach the cluster: addresses, TLS, SASL. Nothing is asked yet.
func New(config Config, opts ...kgo.Opt) (*Verifier, error) {
	v := &Verifier{
		config: config.withDefaults(),
		ids:    make(map[string][16]byte), fixed: make(map[string]bool), letters: make(map[string]bool), boxes: make(map[string][]string),
		wanted: make(map[string]bool),
		delays: make(map[place]*part), topics: make(map[string]*topic), arriving: make(map[place]*part),
		outOfRange: make(map[place]bool), trouble: make(map[place]error),
	}
	v.config.Routes = slices.Clone(config.Routes)
	for i := range v.config.Routes {
		r := &v.config.Routes[i]
		r.Group = config.Group
		v.deliveries.know(r)
		if r.DeadLetter == "" {
			r.DeadLetter = r.Topic + ".dead"
		}
		boxes := []string{r.DeadLetter}
		if r.Retry != nil && r.Retry.Parking != "" {
			boxes = append(boxes, r.Retry.Parking)
		}
		for _, box := range boxes {
			v.letters[box], v.wanted[box] = true, true
		}
		v.boxes[r.Topic], v.fixed[r.Topic] = boxes, r.Delay > 0
		for _, target := range append([]string{r.Target}, r.Allow...) {
			if target != "" && !strings.Contains(target, "*") {
				v.wanted[target] = true
			}
		}
	}
	if _, err := v.newChecker(); err != nil { // for its judgement
		return nil, err
	}
	var err error
	if v.requests, err = kgo.NewClient(readOpts(opts)...); err != nil {
		return nil, err
	}
	if v.arrivals, err = kgo.NewClient(readOpts(opts)...); err != nil {
		v.requests.Close()
		return nil, err
	}
	v.adm = kadm.NewClient(v.arrivals)
	return v, nil
}

// Close leaves the cluster.
func (v *Verifier) Close() {
	v.requests.Close()
	v.arrivals.Close()
}

func (v *Verifier) newChecker() (*check.Checker, error) {
	routes := slices.Clone(v.config.Routes)
	for i := range routes {
		routes[i].TopicID = v.ids[routes[i].Topic]
	}
	return check.New(check.Config{
		Routes: routes, AllowDoubles: v.config.AtLeastOnce, Skew: v.config.Skew, Late: v.config.Late, Keep: v.config.Keep, Survey: survey{v},
	})
}

// Pass reads all that is there now, from where the last pass has ended on, and judges all that was read.
func (v *Verifier) Pass(ctx context.Context) (*Report, error) {
	if err := v.lookAround(ctx); err != nil {
		return nil, err
	}
	if v.checker == nil {
		var err error
		if v.checker, err = v.newChecker(); err != nil {
			return nil, err
		}
	}
	v.findTargets()
	began := v.config.Now()
	starts, err := v.listStarts(ctx) // before the checkpoints, whose low water rises
	if err != nil {
		return nil, err
	}
	checkpoints, err := v.fetchCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	if err := v.openDelays(ctx); err != nil {
		return nil, err
	}
	for at, p := range v.delays {
		p.checkpoint, p.start = checkpoints[at], starts[at]
	}
	v.until = began.Add(-v.config.Grace).UnixMilli()
	v.checker.Until(v.until)
	if err := v.readAll(ctx); err != nil {
		return nil, err
	}
	if err := v.findEnds(ctx); err != nil {
		return nil, err
	}
	v.checker.Forget()
	return v.report(began), nil
}

// Held is how much is held of requests, in bytes, roughly.
func (v *Verifier) Held() int64 {
	if v.checker == nil {
		return 0
	}
	return v.checker.Held()
}

// partitions is how many a target has, where the key of a record says in which one it is; else 0.
func (v *Verifier) partitions(n int) int {
	if v.config.AnyPartition {
		return 0
	}
	return n
}

// findTargets makes known what may be a target.
func (v *Verifier) findTargets() {
	for name, detail := range v.existing {
		if v.topics[name] == nil && !detail.IsInternal && detail.Err == nil && !v.letters[name] && v.ids[name] == [16]byte{} {
			v.checker.AddTarget(check.Target{Topic: name, Partitions: v.partitions(len(detail.Partitions))})
			v.wanted[name] = v.wanted[name] || v.config.AllTargets && v.checker.Allowed(name)
		}
	}
}

// readAll reads requests and arrivals by turns, so that what is settled can be given up.
func (v *Verifier) readAll(ctx context.Context) error {
	v.partial = true
	for room := v.config.Memory / 2; ; {
		allRead := func() bool { return every(v.delays, (*part).done) }
		full := func() bool { return v.checker.Held() > room && every(v.delays, (*part).begunOrDone) }
		if err := v.read(ctx, v.requests, v.delays, func() bool { return allRead() || full() }, v.takeRequest); err != nil {
			return err
		}
		if err := v.openArrivals(ctx); err != nil {
			return err
		}
		last, front := allRead(), v.front()
		far := func(p *part) bool { return p.done() || !last && p.last > front }
		if err := v.read(ctx, v.arrivals, v.arriving, func() bool { return every(v.arriving, far) }, v.takeArrival); err != nil {
			return err
		}
		if v.partial = !last; last {
			return nil
		}
		v.checker.Forget()
		held := v.checker.Held()
		if held > v.config.Memory*3/4 {
			return fmt.Errorf("%w: %d MiB are taken by requests that wait, and --memory is %d MiB; more of it, fewer --route, or a shorter time with --from and --to",
				ErrMemory, held>>20, v.config.Memory>>20)
		}
		room = max(v.config.Memory/2, held+v.config.Memory/4)
	}
}

func every(parts map[place]*part, is func(*part) bool) bool {
	for _, p := range parts {
		if !is(p) {
			return false
		}
	}
	return true
}

// begunOrDone tells whether it is known when the first request was written.
func (p *part) begunOrDone() bool { return p.first != unread || p.done() }

// front is up to when all delay topics have been read, in ms.
func (v *Verifier) front() int64 {
	front := int64(math.MaxInt64 / 2)
	for _, p := range v.delays {
		if !p.done() {
			front = min(front, p.last)
		}
	}
	return front
}

func (v *Verifier) takeRequest(p *part, r *kgo.Record) {
	if target := v.checker.Target(r); target != "" && !v.wanted[target] {
		if _, exists := v.existing[target]; exists && v.ids[target] == [16]byte{} {
			v.wanted[strings.Clone(target)] = true
		}
	}
	v.checker.Requested(r)
	v.checker.Reached(p.topic, p.partition, p.next)
}

func (v *Verifier) takeArrival(p *part, r *kgo.Record) {
	if v.letters[p.topic] {
		v.checker.DeadLettered(r)
		return
	}
	v.checker.Delivered(r, time.Time{})
}

// survey is what a Verifier knows of topics that records do not say.
type survey struct{ *Verifier }

// Resolved implements check.Survey.
func (s survey) Resolved(of check.Source, due, seq int64) bool {
	p := s.delays[place{of.Topic, of.Partition}]
	return p != nil && p.checkpoint.resolves(of.Offset, due, seq, s.fixed[of.Topic])
}

// Reasons for which it cannot be told what became of a request.
const (
	whyUnread     = "their due time has a form that verify does not read"
	whySilent     = "headers.emit is none, so what was delivered does not say of what request"
	whyOpen       = "an open transaction keeps records back"
	whyTargetOld  = "the older part of their target is gone"
	whyTargetGone = "their target does not exist, or may not be looked at"
	whyCompacted  = "their target is compacted"
	whyLettersOld = "the older part of a dead letter topic is gone"
	whyNoLetters  = "a dead letter topic does not exist, or may not be looked at"
)

// slack is how much later than due a request is before it is believed that what was delivered before is gone.
const slack = 2 * time.Minute

// Unseen implements check.Survey.
func (s survey) Unseen(u check.Unseen) check.Verdict {
	p := s.delays[place{u.Topic, u.Source.Partition}]
	resolved := s.Resolved(u.Source, u.Due, u.Seq)
	switch {
	case p == nil, u.Cancel && !resolved:
		return check.Verdict{Fate: check.Waits}
	case u.DueUnread:
		return check.Verdict{Fate: check.Untellable, Why: whyUnread}
	case !resolved && (u.Undated || u.Since > s.until):
		return check.Verdict{Fate: check.Waits}
	case !resolved && p.checkpoint.known:
		return check.Verdict{Fate: check.Lags}
	}
	if why, sure := s.hidden(u, p); why != "" {
		if s.partial && !sure {
			return check.Verdict{Fate: check.Waits}
		}
		return check.Verdict{Fate: check.Untellable, Why: why, Final: why != whyOpen}
	}
	switch {
	case s.partial:
		return check.Verdict{Fate: check.Waits}
	case !resolved: // there is no checkpoint
		return check.Verdict{Fate: check.Lags}
	}
	return check.Verdict{Fate: check.Lost, Final: true}
}

// hidden tells where a request may have arrived without being seen: nowhere is "". Sure: reading on does not change it.
func (s survey) hidden(u check.Unseen, from *part) (why string, sure bool) {
	if u.Silent {
		return whySilent, true
	}
	if from.waits {
		return whyOpen, false
	}
	if u.MayArrive && !u.Cancel {
		t := s.topics[u.Target]
		switch {
		case t == nil || t.gone:
			return whyTargetGone, false
		case t.compacted:
			return whyCompacted, true
		case slices.ContainsFunc(t.parts, func(p *part) bool { return p.waits }):
			return whyOpen, false
		}
		if since := t.whole(u.Partition); since > 0 && u.Since-slack.Milliseconds() <= since {
			return whyTargetOld, since != never
		}
	}
	for _, box := range s.boxes[u.Topic] {
		t := s.topics[box]
		switch {
		case t == nil || t.gone:
			return whyNoLetters, false
		case slices.ContainsFunc(t.parts, func(p *part) bool { return p.waits }):
			return whyOpen, false
		}
		if since := t.whole(-1); since > 0 && u.Since-slack.Milliseconds() <= since {
			return whyLettersOld, since != never
		}
	}
	return "", true
}
