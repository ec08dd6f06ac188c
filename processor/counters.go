package processor

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/duewheel/duewheel/processor/histogram"
	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/processor/telling"
	"github.com/duewheel/duewheel/processor/turn"
	"github.com/duewheel/duewheel/topics"
)

// counters are what the lanes count. Lanes add, every goroutine may read.
type counters struct {
	topics      map[string]*topicCounters // by delay topic; set once
	deadLetters *telling.DeadLetters
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
	c := &counters{topics: map[string]*topicCounters{}, deadLetters: telling.NewDeadLetters(log)}
	for _, t := range names {
		c.topics[t] = &topicCounters{requested: histogram.Of(histogram.Delays)}
		c.deadLetters.Bear(t)
	}
	for _, code := range topics.ParseCodes {
		c.refused.add(string(code), 0)
	}
	for _, e := range countedEffects {
		c.cancels.add(e.String(), 0)
	}
	for _, o := range []turn.Outcome{turn.Done, turn.Aborted, turn.Unknown} {
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
func (c *counters) turn(t *turn.Turn) {
	if t.Plain {
		c.checkpoint(t)
		return
	}
	if len(t.Tried) == 0 {
		return
	}
	c.turns.add(t.Outcome.String(), 1)
	if len(t.Joining) > 0 {
		c.joined.Add(1)
		if len(t.Lasts()) < len(t.Tried) {
			c.chained.Add(1)
		}
	}
	c.turnTime.Observe(time.Since(t.Began), 1)
}

// checkpoint counts the checkpoints of a commit outside of transactions.
func (c *counters) checkpoint(t *turn.Turn) {
	for _, pt := range t.Lasts() {
		became := "written"
		switch {
		case t.Outcome == turn.Unknown:
			became = "unknown"
		case t.Outcome == turn.Aborted || t.Refused[pt] != nil:
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
func (c *counters) outputs(t *turn.Turn) {
	answered := t.Answered.UnixMilli()
	outs := t.Renderer.Outputs
	for i := 0; i < len(outs); {
		o := &outs[i]
		n := 1
		switch o.Kind {
		case turn.OutDeadLetter:
			c.deadLetters.Add(o.Part.TP, o.Offset, o.Record.Topic, o.Refusal, o.Cut, t.Answered)
			if o.Refusal.Code == topics.CodeTooLate && o.Refusal.Header == partitionOf(o.Part).Route.Header(topics.HeaderReplace) {
				c.cancels.add(pending.EffectTooLate.String(), 1) // it has no effect of its own that could be counted
			}
		case turn.OutRetry:
			c.retried.Add(1)
		case turn.OutCopy:
			partitionOf(o.Part).stats.carried.Add(1)
		case turn.OutAudit:
			c.audited[o.Event].Add(1)
		case turn.OutDelivered:
			for i+n < len(outs) && outs[i+n].Kind == turn.OutDelivered && outs[i+n].Target == o.Target && outs[i+n].Since == o.Since && outs[i+n].Part == o.Part {
				n++
			}
			late := max(time.Duration(answered-o.Since)*time.Millisecond, 0)
			o.Target.Counts.Lateness.Observe(late, int64(n))
			o.Target.Counts.Delivered.Add(int64(n))
			o.Target.Succeeded()
			partitionOf(o.Part).stats.delivered.Add(int64(n))
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
