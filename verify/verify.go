package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	requests *reader // of the delay topics
	arrivals *reader // of all others
	adm      *kadm.Client
	end      func()         // ends what both readers wait for
	checker  *check.Checker // made with the first pass, when the ids of topics are known
	seen     *survey

	delays   []string            // the delay topics that are there
	ids      map[string][16]byte // of delay topics
	wanted   map[string]bool     // topics to read besides the delay topics
	existing kadm.TopicDetails
	absent   map[string]bool // targets that requests name, and that were not there; at most mostAbsent
	denied   []string        // topics that should be read, and may not be looked at
	again    map[string]bool // topics that might not be read in the last pass, and have not been tried in this one

	deliveries deliveries
}

// New makes a Verifier. Opts reach the cluster: addresses, TLS, SASL. Nothing is asked yet.
func New(config Config, opts ...kgo.Opt) (*Verifier, error) {
	v := &Verifier{config: config.withDefaults(), ids: make(map[string][16]byte), wanted: make(map[string]bool), absent: make(map[string]bool)}
	v.config.Routes = slices.Clone(config.Routes)
	for i := range v.config.Routes {
		r := &v.config.Routes[i]
		r.Group = cmp.Or(config.Identity, config.Group)
		v.deliveries.know(r)
		if r.DeadLetter == "" {
			r.DeadLetter = r.Topic + ".dead"
		}
		for _, box := range boxes(*r) {
			v.wanted[box] = true
		}
		for _, target := range append([]string{r.Target}, r.Allow...) {
			if target != "" && !strings.Contains(target, "*") {
				v.wanted[target] = true
			}
		}
	}
	v.seen = newSurvey(v.config.Routes)
	if _, err := v.newChecker(nil); err != nil { // for its judgement
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	requested, arrived := &answered{}, &answered{}
	fetching, err := kgo.NewClient(append(readOpts(opts), kgo.WithContext(ctx), kgo.WithHooks(requested))...)
	if err != nil {
		end()
		return nil, err
	}
	receiving, err := kgo.NewClient(append(readOpts(opts), kgo.WithContext(ctx), kgo.WithHooks(arrived))...)
	if err != nil {
		fetching.Close()
		end()
		return nil, err
	}
	v.end = end
	v.adm = kadm.NewClient(receiving)
	reads := reader{adm: v.adm, patience: v.config.Patience, deliveries: &v.deliveries, progress: v.tellProgress}
	v.requests = reads.of(fetching, requested, v.seen.delays, v.takeRequest, v.cutRequests)
	v.arrivals = reads.of(receiving, arrived, make(map[place]*part), v.takeArrival, cutArrivals)
	v.arrivals.barred = make(map[string]bool)
	return v, nil
}

// farewell is how long brokers have to answer that they have forgotten what was read from them (a fetch session, KIP-227).
const farewell = 250 * time.Millisecond

// Close leaves the cluster. It does not wait for long for brokers that are silent.
func (v *Verifier) Close() {
	defer v.end()
	defer time.AfterFunc(farewell, v.end).Stop()
	v.requests.close()
	v.arrivals.close()
}

// newChecker makes what judges. The group goes by the name that its checkpoints say.
func (v *Verifier) newChecker(checkpoints map[place]checkpoint) (*check.Checker, error) {
	routes := slices.Clone(v.config.Routes)
	for i := range routes {
		routes[i].TopicID, routes[i].Unseen = v.ids[routes[i].Topic], v.seen.away[routes[i].Topic] != nil
		for at, c := range checkpoints {
			if at.topic == routes[i].Topic && c.known {
				routes[i].Group = cmp.Or(c.identity, v.config.Group)
			}
		}
	}
	return check.New(check.Config{
		Routes: routes, AllowDoubles: v.config.AtLeastOnce, Skew: v.config.Skew, Late: v.config.Late, InTime: v.config.InTime, Keep: v.config.Keep, Survey: v.seen,
	})
}

// Pass reads all that is there now, from where the last pass has ended on, and judges all that was read.
func (v *Verifier) Pass(ctx context.Context) (*Report, error) {
	if err := v.lookAround(ctx); err != nil {
		return nil, err
	}
	began := v.config.Now()
	starts, err := v.listStarts(ctx) // before the checkpoints, whose low water rises
	if err != nil {
		return nil, err
	}
	checkpoints, err := v.fetchCheckpoints(ctx)
	if err != nil {
		return nil, err
	}
	if v.checker == nil {
		if v.checker, err = v.newChecker(checkpoints); err != nil {
			return nil, err
		}
	}
	v.findTargets()
	v.again = maps.Clone(v.arrivals.barred) // the right may have been given
	clear(v.arrivals.barred)
	if err := v.openDelays(ctx); err != nil {
		return nil, err
	}
	v.seen.findCompacted(ctx, v.adm, v.delays)
	for at, p := range v.seen.delays {
		p.checkpoint, p.start, p.began = checkpoints[at], starts[at], starts[at]
	}
	v.seen.until = began.Add(-v.config.Grace).UnixMilli()
	v.checker.Until(v.seen.until, began.UnixMilli())
	if err := v.readAll(ctx); err != nil {
		return nil, err
	}
	if err := v.findEnds(ctx); err != nil {
		return nil, err
	}
	if err := v.findDenied(ctx); err != nil {
		return nil, err
	}
	v.checker.Forget()
	r := v.report(began)
	if r.mayBeOfBefore() {
		r.Notes = append(r.Notes, noteOfBefore)
	}
	if r.has(check.Stray) {
		r.Notes = append(r.Notes, noteOfAnew)
	}
	if r.Counts.Doubled > 0 {
		r.Notes = append(r.Notes, v.otherGroups(ctx)...)
	}
	return r, nil
}

// Held is how much is held of requests, in bytes, roughly.
func (v *Verifier) Held() int64 {
	if v.checker == nil {
		return 0
	}
	return v.checker.Held()
}

// findTargets makes known what may be a target.
func (v *Verifier) findTargets() {
	maps.DeleteFunc(v.absent, func(name string, _ bool) bool {
		_, exists := v.existing[name]
		if exists {
			v.wanted[name] = true // it was made since
		}
		return exists
	})
	for name, detail := range v.existing {
		if v.seen.topics[name] == nil && !detail.IsInternal && detail.Err == nil && !v.seen.letters[name] && v.ids[name] == [16]byte{} {
			t := check.Target{Topic: name, Partitions: len(detail.Partitions)}
			if read := v.seen.topics[name]; read != nil {
				t.MaxBytes = read.maxBytes
			}
			v.checker.AddTarget(t)
			v.wanted[name] = v.wanted[name] || v.config.AllTargets && v.checker.Allowed(name)
		}
	}
}

// readAll reads requests and arrivals by turns, so that what is settled can be given up.
func (v *Verifier) readAll(ctx context.Context) error {
	v.seen.partial = true
	for room := v.config.Memory / 2; ; {
		full := func() bool { return v.checker.Held() > room && v.requests.every((*part).begunOrDone) }
		if err := v.requests.read(ctx, func() bool { return v.requests.allDone() || full() }); err != nil {
			return err
		}
		for at, p := range v.seen.delays { // what is read last is mostly no record, but the marker of a transaction
			v.checker.Reached(at.topic, at.partition, p.next)
		}
		if err := v.openArrivals(ctx); err != nil {
			return err
		}
		if v.requests.allDone() {
			v.seen.partial = false
			return readArrivals(ctx, v, v.arrivals.allDone)
		}
		if err := v.settle(ctx); err != nil {
			return err
		}
		room = max(v.config.Memory/2, v.checker.Held()+v.config.Memory/4)
	}
}

// settle reads arrivals as far as requests have been read, at least, and gives up what is settled. How far arrivals have got is chance, as long as that
// is enough: a fetch has many of them or few. So where too much would wait they are read further, as long as that may help: what has an id takes many times
// as much when only its request is known as when only its arrival is.
func (v *Verifier) settle(ctx context.Context) error {
	for until, step := v.seen.front(), int64(0); ; step = max(2*step, time.Minute.Milliseconds()) {
		most := int64(never)
		if step > 0 {
			most = max(v.config.Memory, v.checker.Held()+v.config.Memory/4)
		}
		far := func(p *part) bool { return p.done() || p.last > until+step }
		full := func() bool { return v.checker.Held() > most }
		if err := readArrivals(ctx, v, func() bool { return v.arrivals.every(far) || full() }); err != nil {
			return err
		}
		atMost := full()
		v.checker.Forget()
		held := v.checker.Held()
		if held <= v.config.Memory*3/4 {
			return nil
		}
		if atMost || v.arrivals.allDone() {
			return fmt.Errorf("%w: %d MiB are taken by requests that wait, and --memory is %d MiB; more of it, fewer --route, or a shorter time with --from and --to",
				ErrMemory, held>>20, v.config.Memory>>20)
		}
	}
}

func readArrivals(ctx context.Context, v *Verifier, enough func() bool) error {
	err := v.arrivals.read(ctx, enough)
	for name := range v.arrivals.barred {
		v.seen.topics[name].gone = true
	}
	return err
}

func (v *Verifier) takeRequest(_ *part, r *kgo.Record) {
	if target := v.checker.Target(r); target != "" && !v.wanted[target] {
		switch _, exists := v.existing[target]; {
		case exists && v.ids[target] == [16]byte{}:
			v.wanted[strings.Clone(target)] = true
		case !exists && !v.absent[target] && len(v.absent) < mostAbsent && len(target) <= longestName && v.checker.Allowed(target):
			v.absent[strings.Clone(target)] = true
		}
	}
	v.checker.Requested(r)
}

func (v *Verifier) takeArrival(p *part, r *kgo.Record) {
	if v.seen.letters[p.topic] {
		v.checker.Died(r, v.config.Now())
		return
	}
	v.checker.Delivered(r, v.config.Now())
}

// cutRequests goes on where a delay topic begins now: what lay below was removed before it was read.
func (v *Verifier) cutRequests(p *part, start int64) {
	p.start, p.next, p.from, p.seenFrom = start, start, start, start
	v.checker.Window(p.topic, p.partition, start, max(start, p.to))
	v.begins(p)
}

// begins says where a delay topic begins now, and what is judged of what has left it.
func (v *Verifier) begins(p *part) {
	v.checker.Begins(p.topic, p.partition, p.start, v.config.From.UnixMilli(), v.config.before())
}

// cutArrivals goes on where a target or dead letter topic begins now.
func cutArrivals(p *part, start int64) {
	p.start = start
	p.shrink(start)
}

// tellProgress counts what has been read of this pass.
func (v *Verifier) tellProgress() {
	var done, of int64
	for _, r := range []*reader{v.requests, v.arrivals} {
		for _, p := range r.parts {
			if p.goal > p.begun {
				done += min(p.next, p.goal) - p.begun
				of += p.goal - p.begun
			}
		}
	}
	v.config.Progress(done, of)
}
