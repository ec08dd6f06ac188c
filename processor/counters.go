package processor

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duewheel/duewheel/processor/histogram"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/targets"
	"github.com/duewheel/duewheel/topics"
)

// counters are what the lanes count. Lanes add, every goroutine may read.
type counters struct {
	topics      map[string]*topicCounters // by delay topic; set once
	deadLetters *deadLetters
	refused     labelled // by code
	cancels     labelled // by effect, replacements among them
	turns       labelled // by outcome
	turnTime    histogram.Histogram
	work        [works]histogram.Histogram
	checkpoints labelled // written outside of transactions, by what came of it
	rebalances  atomic.Int64
	retried     atomic.Int64
	audited     [topics.AuditEvents]atomic.Int64 // by event
	fenced      atomic.Int64
	readAgain   atomic.Int64
	warm        atomic.Int64 // partitions taken over from standbys
	joined      atomic.Int64 // turns that something has joined
	chained     atomic.Int64 // of those: with two parts of one partition
}

// newCounters begins at 0 with every label that is known: a rate needs a sample from before the first rise.
func newCounters(names []string, log *slog.Logger) *counters {
	c := &counters{topics: map[string]*topicCounters{}, deadLetters: newDeadLetters(log)}
	for _, t := range names {
		c.topics[t] = &topicCounters{requested: histogram.Of(histogram.Delays)}
		c.deadLetters.bear(t)
	}
	for _, code := range topics.ParseCodes {
		c.refused.add(string(code), 0)
	}
	for _, e := range countedEffects {
		c.cancels.add(e.String(), 0)
	}
	for _, o := range []outcome{outcomeDone, outcomeAborted, outcomeUnknown} {
		c.turns.add(o.String(), 0)
	}
	for _, what := range []string{"written", "refused", "unknown"} {
		c.checkpoints.add(what, 0)
	}
	return c
}

// countedEffects are what a record that names others, or has an id, may have done.
var countedEffects = []pending.Effect{
	pending.EffectCancelled, pending.EffectReplaced, pending.EffectTooLate, pending.EffectUnknown, pending.EffectForward, pending.EffectNotHere, pending.EffectIgnored,
}

// labelled is a counter for each of a few labels.
type labelled struct {
	mu sync.Mutex
	m  map[string]int64
}

func (l *labelled) add(label string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[string]int64{}
	}
	l.m[label] += n
}

func (l *labelled) snapshot() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.m)
}

// turn counts a turn that was decided.
func (c *counters) turn(t *turn) {
	if t.plain {
		c.checkpoint(t)
		return
	}
	if len(t.tried) == 0 {
		return
	}
	c.turns.add(t.outcome.String(), 1)
	if len(t.joining) > 0 {
		c.joined.Add(1)
		if len(t.lasts()) < len(t.tried) {
			c.chained.Add(1)
		}
	}
	c.turnTime.Observe(time.Since(t.began), 1)
}

// checkpoint counts the checkpoints of a commit outside of transactions.
func (c *counters) checkpoint(t *turn) {
	for _, pt := range t.lasts() {
		became := "written"
		switch {
		case t.outcome == outcomeUnknown:
			became = "unknown"
		case t.outcome == outcomeAborted || t.refused[pt] != nil:
			became = "refused"
		}
		c.checkpoints.add(became, 1)
	}
}

// effects counts what was settled of the records that name others.
func (c *counters) effects(p *partition) {
	came := p.TakeEffects()
	for _, e := range countedEffects {
		if n := came[e]; n > 0 {
			c.cancels.add(e.String(), n)
		}
	}
}

// outputs counts what a turn has delivered. Records of one target that could be delivered
// from the same ms on are observed together.
func (c *counters) outputs(t *turn) {
	answered := t.answered.UnixMilli()
	outs := t.render.outputs
	for i := 0; i < len(outs); {
		o := &outs[i]
		n := 1
		switch o.kind {
		case outDeadLetter:
			c.deadLetters.add(o.part.p.tp, o.offset, o.refusal, o.cut, t.answered)
			if o.refusal.Code == topics.CodeTooLate && o.refusal.Header == o.part.p.Route.Header(topics.HeaderReplace) {
				c.cancels.add(pending.EffectTooLate.String(), 1) // it has no effect of its own that could be counted
			}
		case outRetry:
			c.retried.Add(1)
		case outCopy:
			o.part.p.stats.carried.Add(1)
		case outAudit:
			c.audited[o.event].Add(1)
		case outDelivered:
			for i+n < len(outs) && outs[i+n].kind == outDelivered && outs[i+n].target == o.target && outs[i+n].since == o.since && outs[i+n].part == o.part {
				n++
			}
			late := max(time.Duration(answered-o.since)*time.Millisecond, 0)
			o.target.Counts.Lateness.Observe(late, int64(n))
			o.target.Counts.Delivered.Add(int64(n))
			o.target.Succeeded()
			o.part.p.stats.delivered.Add(int64(n))
		}
		i += n
	}
}

// audits are the records for the audit topic so far, by event.
func (c *counters) audits() map[string]int64 {
	m := map[string]int64{}
	for e := range c.audited {
		m[topics.AuditEvent(e).String()] = c.audited[e].Load()
	}
	return m
}

// Stats takes a picture of the processor.
func (p *Processor) Stats() Stats {
	clock := p.clock.Picture()
	s := Stats{
		Instance: p.cfg.Instance, Lanes: len(p.lanes),
		DeadLetters: p.counters.deadLetters.total(), Refusing: p.counters.deadLetters.recent(), Refused: p.counters.refused.snapshot(), Cancels: p.counters.cancels.snapshot(),
		Transactions: p.counters.turns.snapshot(), Checkpoints: p.counters.checkpoints.snapshot(), TransactionTime: p.counters.turnTime.Snapshot(), Work: snapshots(&p.counters.work),
		Rebalances: p.counters.rebalances.Load(), StoreTrouble: p.store.why(), ReadAgain: p.counters.readAgain.Load(), Takeovers: p.counters.warm.Load(), Retried: p.counters.retried.Load(),
		Now: p.clock.Time(), ClockSkew: clock.Skew, ClockSteps: clock.Steps, ClockTrouble: clock.Trouble, ClockUnknown: clock.Unknown, BrokerClocks: clock.Others, BrokersApart: clock.Apart,
	}
	if p.cfg.AuditTopic != "" {
		s.Audited = p.counters.audits()
	}
	for _, l := range p.lanes {
		s.NearBytes += l.memory.published.Load()
	}
	if store := p.store.opened.Load(); store != nil {
		s.StoreBytes, _ = store.DiskBytes() // 0 while it does not work
	}
	s.Partitions, s.Outside, s.Standbys = p.pictures(), p.outside(), p.standbys.stats()
	for _, name := range slices.Sorted(maps.Keys(p.counters.topics)) {
		c := p.counters.topics[name]
		s.Topics = append(s.Topics, TopicStats{Topic: name, Accepted: c.accepted.Load(), Delivered: c.delivered.Load(), Late: c.late.Load(), LateOnArrival: c.lateOnArrival.Load(), Requested: c.requested.Snapshot(), Trouble: c.why(), Unseen: saidWhy(&c.unseen), Trimmed: c.trimmed.Load(), Untrimmed: cmp.Or(c.whyUntrimmed(), c.heldUp.any()), Uncarried: cmp.Or(c.uncarried.any(), c.uncopied.any()), Carried: c.carried.Load()})
	}
	for _, t := range p.targets.All() {
		st := t.State.Load()
		if st.Status == targets.Missing && t.Counts.Delivered.Load() == 0 {
			continue // a name that a producer has made up
		}
		ts := TargetStats{Target: t.Name, Delivered: t.Counts.Delivered.Load(), Lateness: t.Counts.Lateness.Snapshot()}
		if st.Status != targets.Ready {
			ts.Trouble = st.Status.String() + ": " + notReady(st)
		}
		s.Targets = append(s.Targets, ts)
	}
	slices.SortFunc(s.Targets, func(a, b TargetStats) int { return cmp.Compare(a.Target, b.Target) })
	return s
}

// pictures are those of the partitions that the process has.
func (a *assignedSet) pictures() []PartitionStats {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []PartitionStats
	for key, pt := range a.m {
		of := a.of[key]
		restoring := PartitionStats{Topic: key.tp.Topic, Partition: key.tp.Partition, Lane: key.lane, Phase: PhaseRestoring, Reason: of.why, since: of.since, seen: of.seen}
		if pt == nil {
			out = append(out, restoring)
		} else if pic := pt.picture.Load(); pic != nil {
			out = append(out, *pic)
		} else {
			out = append(out, restoring)
		}
	}
	slices.SortFunc(out, func(a, b PartitionStats) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out
}

// outside says which lanes the group does not take, and why.
func (p *Processor) outside() (why []string) {
	for _, l := range p.lanes {
		if w := l.standing.Why(p.entrance.Why()); w != "" {
			why = append(why, fmt.Sprintf("lane %d: %s", l.n, w))
		}
	}
	return why
}

// sharedOut is for how long a new member may have no partition before it is known that there is none for it: some heartbeats, by which the others learn that
// they are to give some up. With the consumer protocol the broker says how often those are, every 5 s by default.
func (c *Config) sharedOut() time.Duration {
	if c.Protocol == ProtocolConsumer {
		return 10 * time.Second
	}
	return max(3*c.HeartbeatInterval, time.Second)
}

// Ready reports whether every lane works and is in the group, and every assigned partition is live and not held
// up, and lists the partitions that are not. What would be so on every replica
// (PartitionStats.Anywhere) is listed, and keeps none from being ready, unless all partitions are stopped: a rollout would wait for it for ever. A replica
// without partitions is ready when it has been in the group for some time: it gets them at a second rebalance, when others have given them up.
func (p *Processor) Ready() (bool, []PartitionStats) {
	ready := p.Alive()
	all := p.pictures()
	least := time.Duration(0)
	if len(all) == 0 {
		least = p.cfg.sharedOut()
	}
	for _, l := range p.lanes {
		ready = ready && l.standing.Within(least)
	}
	var not []PartitionStats
	stopped := 0
	for _, s := range all {
		if s.Phase == PhaseStopped {
			stopped++
		}
		if s.Phase != PhaseLive || s.Error != "" {
			not = append(not, s)
			ready = ready && s.Anywhere
		}
	}
	return ready && (stopped == 0 || stopped < len(all)), not
}
