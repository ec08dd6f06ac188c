package processor

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// targets knows every topic that records are produced to: whether it can take records now, and
// what it takes. It is asked before a record enters a transaction, because a transaction that
// waits for one bad target holds up all others. One goroutine keeps it up to date; lanes and
// turns only read, and say what they have seen.
type targets struct {
	cfg  *Config
	log  *slog.Logger
	wake chan struct{}

	mu sync.RWMutex
	m  map[string]*target
}

// target is one topic.
type target struct {
	name   string
	state  atomic.Pointer[targetState]
	hurry  atomic.Bool  // look at it now
	used   atomic.Bool  // asked for since the last full look
	idle   int          // full looks since it was; owned by run
	kept   bool         // named by the configuration: never forgotten; set once
	blamed atomic.Int32 // records in a row that it has refused, each by itself (suspect.go)
	stats  targetCounters
}

// targetState is what the brokers last said of a target. It is never changed, only replaced.
type targetState struct {
	status     targetStatus
	why        string
	partitions int32
	maxBytes   int32 // max.message.bytes
	compacted  bool  // records without a key are refused
	since      time.Time
	asked      time.Time // when the brokers last answered
	missing    time.Time // since when brokers have answered, without a break, that it does not exist
	failures   int       // turns in a row that this target has made fail
	refused    bool      // troubled: it answered, and refused records for a reason that no look at it shows
	probeAt    time.Time // troubled: when to look again
}

type targetStatus int

const (
	targetUnknown targetStatus = iota // nobody has asked yet
	targetReady
	targetTroubled // carry its records on
	targetMissing  // dead-letter its records
)

// defaultMaxBytes is Kafka's default of max.message.bytes, for when we may not ask.
const defaultMaxBytes = 1048588

var unknownTarget = &targetState{status: targetUnknown, maxBytes: defaultMaxBytes}

func newTargets(cfg *Config) *targets {
	return &targets{cfg: cfg, log: cfg.Logger, wake: make(chan struct{}, 1), m: map[string]*target{}}
}

// of returns the target of a name, which is looked up from now on.
func (ts *targets) of(name []byte) *target {
	ts.mu.RLock()
	t := ts.m[string(name)]
	ts.mu.RUnlock()
	if t != nil {
		if !t.used.Load() {
			t.used.Store(true)
		}
		return t
	}
	ts.mu.Lock()
	if t = ts.m[string(name)]; t == nil {
		t = &target{name: string(name)}
		t.state.Store(unknownTarget)
		t.used.Store(true)
		ts.m[t.name] = t
	}
	ts.mu.Unlock()
	ts.poke()
	return t
}

func (ts *targets) poke() {
	select {
	case ts.wake <- struct{}{}:
	default:
	}
}

// maxBatchBytes is the largest batch that a topic takes, for the producers.
func (ts *targets) maxBatchBytes(topic string) int32 {
	if topic == "" { // asked once, to validate
		return defaultMaxBytes
	}
	return max(min(ts.of([]byte(topic)).state.Load().maxBytes, 1<<30), 512)
}

// batchPrefix is the length that stands before a batch in a produce request. The client counts
// it when it compares a batch with its limit; brokers do not.
const batchPrefix = 4

// fits reports whether a record of this size (topics.RecordSize) can be produced to the target.
func (s *targetState) fits(size int) bool { return size <= s.recordBytes() }

// recordBytes is the size of the largest record that can be produced to the target.
func (s *targetState) recordBytes() int { return int(s.maxBytes) - batchPrefix }

// failed notes that a turn was given up because of this target. Once may be an accident: a
// leader moved while the turn ran. Twice in a row, and its records are carried on until it is
// seen to be well.
func (ts *targets) failed(name string, why error) {
	t := ts.of([]byte(name))
	old := t.state.Load()
	n := *old
	n.failures++
	if n.failures > 1 && n.status == targetReady {
		n.status, n.why, n.since = targetTroubled, why.Error(), time.Now()
		n.refused = isRefusal(why)
		// One that looks well and yet makes turns fail is believed less and less.
		n.probeAt = time.Now().Add(min(ts.cfg.RetryBackoff<<min(n.failures-2, 4), 2*time.Minute))
		ts.log.Warn("target is in trouble; its records are carried on", "topic", name, "error", why)
	}
	t.state.Store(&n)
	t.hurry.Store(true)
	ts.poke()
}

// suspect asks for a closer look at a target that a turn is waiting for, and returns what is
// known of it.
func (ts *targets) suspect(name string) *targetState {
	t := ts.of([]byte(name))
	t.hurry.Store(true)
	ts.poke()
	return t.state.Load()
}

// succeeded notes that records were delivered.
func (t *target) succeeded() {
	if t.blamed.Load() > 0 {
		t.blamed.Store(0)
	}
	if old := t.state.Load(); old.failures > 0 && old.status == targetReady {
		n := *old
		n.failures = 0
		t.state.CompareAndSwap(old, &n)
	}
}

// await waits until it is known whether t can take records, for at most wait.
func (ts *targets) await(ctx context.Context, t *target, wait time.Duration) *targetState {
	if s := t.state.Load(); s.status != targetUnknown {
		return s
	}
	deadline := time.Now().Add(wait)
	for {
		s := t.state.Load()
		if s.status != targetUnknown || time.Now().After(deadline) || !sleep(ctx, time.Millisecond) {
			return s
		}
	}
}

const (
	targetRefresh      = 10 * time.Second       // how often healthy targets are looked at
	targetRefreshQuick = 500 * time.Millisecond // and those that are not
	targetMissingMost  = 30 * time.Second       // and, at last, those that do not exist
	targetsAtOnce      = 200                    // how many are asked for in one request
	targetRest         = 20 * time.Millisecond  // how long names gather between two requests
	targetIdle         = 6                      // full looks without use after which one is forgotten
)

// run keeps the targets up to date until ctx ends.
func (ts *targets) run(ctx context.Context, cl *kgo.Client) {
	adm := kadm.NewClient(cl)
	last := time.Time{}
	for {
		ts.mu.RLock()
		all := slices.Collect(maps.Values(ts.m))
		ts.mu.RUnlock()
		full := time.Since(last) >= targetRefresh
		var ask []*target
		for _, t := range all {
			s := t.state.Load()
			hurry := t.hurry.Swap(false)
			if hurry || s.status == targetUnknown || full && s.status != targetMissing || s.status != targetReady && !time.Now().Before(s.probeAt) {
				ask = append(ask, t)
			}
		}
		for some := range slices.Chunk(ask, targetsAtOnce) {
			ts.refresh(ctx, adm, some)
		}
		if len(ask) > 0 && !sleep(ctx, targetRest) {
			return
		}
		if full {
			last = time.Now()
			ts.forgetIdle(all)
		}
		quick := slices.ContainsFunc(all, func(t *target) bool { return t.state.Load().status != targetReady })
		wait := targetRefresh
		if quick {
			wait = targetRefreshQuick
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ts.wake:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// keep looks a topic of the configuration up before the first record needs it, and never forgets it.
func (ts *targets) keep(name string) {
	t := ts.of([]byte(name))
	ts.mu.Lock()
	t.kept = true
	ts.mu.Unlock()
}

// forgetIdle forgets targets that nobody has asked for in a while and that nothing was ever
// delivered to: names are for producers to invent.
func (ts *targets) forgetIdle(all []*target) {
	for _, t := range all {
		if t.idle++; t.used.Swap(false) || t.kept || t.stats.delivered.Load() > 0 {
			t.idle = 0
		}
		if t.idle >= targetIdle {
			ts.mu.Lock()
			delete(ts.m, t.name)
			ts.mu.Unlock()
		}
	}
}

func (ts *targets) refresh(ctx context.Context, adm *kadm.Client, ask []*target) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	names := make([]string, len(ask))
	for i, t := range ask {
		names[i] = t.name
	}
	md, err := adm.Metadata(ctx, names...)
	if err != nil {
		ts.log.Debug("look up targets", "error", err)
		return
	}
	configs := ts.configs(ctx, adm, names)
	for _, t := range ask {
		old := t.state.Load()
		n := ts.look(ctx, adm, old, md.Topics[t.name])
		if c, ok := configs[t.name]; ok {
			n.maxBytes, n.compacted = c.maxBytes, c.compacted
		} else if n.maxBytes == 0 {
			n.maxBytes = defaultMaxBytes
		}
		if n.status != old.status {
			n.since = time.Now()
			if n.status == targetTroubled && !n.missing.IsZero() || n.status == targetMissing {
				ts.log.Debug("target", "topic", t.name, "status", n.status.String(), "why", n.why)
			} else if n.status != targetReady || old.status != targetUnknown {
				ts.log.Info("target", "topic", t.name, "status", n.status.String(), "why", n.why)
			}
		}
		t.state.CompareAndSwap(old, n)
	}
}

// look makes a new state of what metadata says.
func (ts *targets) look(ctx context.Context, adm *kadm.Client, old *targetState, d kadm.TopicDetail) *targetState {
	n := *old
	n.why = ""
	now := time.Now()
	n.asked = now
	if errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
		if n.missing.IsZero() {
			n.missing = now
		}
		n.status, n.why = targetTroubled, "it does not exist"
		if gone := now.Sub(n.missing); gone >= ts.cfg.UnknownTargetAfter {
			n.status = targetMissing
			n.probeAt = now.Add(min(gone/4, targetMissingMost))
		}
		return &n
	}
	n.missing = time.Time{}
	if d.Err != nil {
		n.status, n.why = targetTroubled, d.Err.Error()
		return &n
	}
	for _, p := range d.Partitions {
		if p.Leader < 0 || p.Err != nil && !errors.Is(p.Err, kerr.ReplicaNotAvailable) {
			n.status, n.why = targetTroubled, "a partition has no leader"
			return &n
		}
	}
	n.partitions = int32(len(d.Partitions))
	if n.refused && old.status == targetTroubled && now.Before(n.probeAt) {
		n.why = old.why
		return &n
	}
	n.refused = false
	if n.failures > 0 && old.status == targetTroubled {
		// Metadata called it well when it made a turn fail: ask the leaders themselves.
		probe, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		offs, err := adm.ListEndOffsets(probe, d.Topic)
		if err == nil {
			err = offs.Error()
		}
		if err != nil {
			n.status, n.why, n.probeAt = targetTroubled, err.Error(), now.Add(targetRefreshQuick)
			return &n
		}
	}
	n.status = targetReady
	return &n
}

type targetConfig struct {
	maxBytes  int32
	compacted bool
}

// configs reads what topics take. Without the right to describe configurations the defaults
// have to do.
func (ts *targets) configs(ctx context.Context, adm *kadm.Client, names []string) map[string]targetConfig {
	out := map[string]targetConfig{}
	rcs, err := adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return out
	}
	for _, rc := range rcs {
		if rc.Err != nil {
			continue
		}
		c := targetConfig{maxBytes: defaultMaxBytes}
		for _, kv := range rc.Configs {
			switch v := kv.MaybeValue(); kv.Key {
			case "max.message.bytes":
				if n, err := strconv.ParseInt(v, 10, 32); err == nil {
					c.maxBytes = int32(n)
				}
			case "cleanup.policy":
				c.compacted = strings.Contains(v, "compact")
			}
		}
		out[rc.Name] = c
	}
	return out
}

func (s targetStatus) String() string {
	switch s {
	case targetReady:
		return "ready"
	case targetTroubled:
		return "troubled"
	case targetMissing:
		return "missing"
	}
	return "unknown"
}

// targetCounters count what was delivered to a target. Turns add, anyone may read.
type targetCounters struct {
	delivered atomic.Int64
	lateness  histogram
}

// histogram counts observations by HistogramBounds.
type histogram struct {
	counts [26]atomic.Int64
	micros atomic.Int64 // sum
}

func (h *histogram) observe(d time.Duration, n int64) {
	s := d.Seconds()
	i := 0
	for i < len(HistogramBounds) && s > HistogramBounds[i] {
		i++
	}
	h.counts[i].Add(n)
	h.micros.Add(d.Microseconds() * n)
}

func (h *histogram) snapshot() Histogram {
	out := Histogram{Counts: make([]int64, len(h.counts)), Sum: float64(h.micros.Load()) / 1e6}
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}
