package processor

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
)

// target is one topic that records are produced to.
type target struct {
	name   string
	state  atomic.Pointer[targetState]
	hurry  atomic.Bool  // look at it now
	trying atomic.Bool  // a turn has it on trial
	used   atomic.Bool  // asked for since the last full look
	idle   int          // full looks since it was; owned by run
	kept   bool         // named by the configuration: never forgotten; set once
	blamed atomic.Int32 // records in a row that it has refused, each by itself (suspect.go)
	only   bool         // what is written to it can go nowhere else: a delay topic, a dead letter topic; set once
	stats  targetCounters
}

// targetState is what is known of a target. It is never changed, only replaced.
type targetState struct {
	status     targetStatus
	why        string
	since      time.Time // of status
	asked      time.Time // when the brokers last answered
	lookAt     time.Time // when to ask them again
	partitions int32
	takes      topicLimits

	// denied is the answer that dead-letters its records once brokers have given it for some time
	// without a break: targetMissing or targetForbidden. Zero: another one.
	denied      targetStatus
	deniedSince time.Time
	verdict     time.Time // when that will be

	// failures counts the turns that it has made fail. However well it looks, after each it is
	// tried with one record, and not before tryAt.
	failures int
	tryAt    time.Time
	well     bool   // metadata has nothing against it
	keeps    keeper // an id that waits for it to take the end of a transaction
}

// keeper is something that a target keeps busy for as long as it does not take the end of a transaction.
type keeper interface{ Still() bool }

// topicLimits is what a topic's configuration says of the records that it takes.
type topicLimits struct {
	maxBytes  int32 // max.message.bytes
	minISR    int   // min.insync.replicas
	compacted bool  // records without a key are refused
	inflates  bool  // compression.type is uncompressed: a batch counts as large as it is without
}

// defaultLimits are Kafka's, for when we may not ask.
var defaultLimits = topicLimits{maxBytes: kafka.DefaultMaxBytes, minISR: 1}

type targetStatus int

const (
	targetUnknown   targetStatus = iota // not looked up yet
	targetReady                         // it takes records
	targetOnTrial                       // it looks well, and has made a turn fail: one record is tried
	targetTroubled                      // carry its records on
	targetMissing                       // dead-letter its records
	targetForbidden                     // dead-letter its records
)

var unknownTarget = &targetState{status: targetUnknown, takes: defaultLimits}

func (s targetStatus) String() string {
	return [...]string{"unknown", "ready", "on trial", "troubled", "missing", "forbidden"}[s]
}

const (
	tryPauseFirst = time.Second
	tryPauseMost  = 30 * time.Second
	// onlyPause is the longest pause of a topic that nothing gets past: who waits for it loses more
	// by waiting on than by a turn that fails.
	onlyPause = 2 * time.Second
	// tryPatience is how long a turn waits for a target on trial when all others have answered.
	tryPatience = 100 * time.Millisecond
	// patientAfter is after how many failures in a row it waits longer: the target may only be slow.
	patientAfter = 7
)

// tryPause is how long a target that has failed so often is left alone. In the long run, of all
// time a hundredth at most goes by in turns that wait for it; more where brokers take long to answer,
// because a trial may take several answers of theirs.
func tryPause(failures int) time.Duration {
	if patience := tryPatienceAfter(failures); patience > tryPatience {
		return max(tryPauseMost, 100*patience)
	}
	return min(tryPauseFirst<<min(max(failures-1, 0), 10), tryPauseMost)
}

func tryPatienceAfter(failures int) time.Duration {
	return tryPatience << min(max(failures-patientAfter, 0), 5)
}

// failed is the state of a target that has made a turn fail, and may keep an id busy since.
func (s *targetState) failed(why error, keeps keeper, now time.Time) *targetState {
	n := *s
	n.keeps = keeps
	n.failures++
	n.status, n.why, n.since = targetTroubled, why.Error(), now
	n.tryAt, n.lookAt = now.Add(tryPause(n.failures)), now
	if !errors.Is(why, kerr.TopicAuthorizationFailed) {
		n.denied = 0
	} else if n.denied != targetForbidden {
		n.denied, n.deniedSince = targetForbidden, now
	}
	return &n
}

// toTry reports that a target that made turns fail looks well and has been left alone for long enough.
func (s *targetState) toTry(now time.Time) bool {
	return s.well && s.failures > 0 && !s.writable() && !now.Before(s.tryAt)
}

// passed notes that a target on trial has taken a record.
func (t *target) passed() {
	if old := t.state.Load(); old.status == targetOnTrial {
		n := *old
		n.status, n.why, n.denied, n.since = targetReady, "", 0, time.Now()
		t.state.CompareAndSwap(old, &n)
	}
}

// succeeded notes that records were delivered. One that fails again soon is believed less, so its
// failures are forgotten when it has been well for as long as it would have been left alone.
func (t *target) succeeded() {
	if t.blamed.Load() > 0 {
		t.blamed.Store(0)
	}
	if old := t.state.Load(); old.failures > 0 && old.status == targetReady && time.Since(old.since) > tryPause(old.failures) {
		n := *old
		n.failures = 0
		t.state.CompareAndSwap(old, &n)
	}
}

// writable reports whether records may be produced to it: if need be, on trial.
func (s *targetState) writable() bool { return s.status == targetReady || s.status == targetOnTrial }

// targetCounters count what was delivered to a target. Turns add, every goroutine may read.
type targetCounters struct {
	delivered atomic.Int64
	lateness  histogram
}
