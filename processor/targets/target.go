package targets

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/processor/histogram"
	"github.com/duewheel/duewheel/processor/kafka"
)

// Target is one topic that records are produced to.
type Target struct {
	Name   string
	State  atomic.Pointer[State]
	Hurry  atomic.Bool  // look at it now
	Trying atomic.Bool  // a turn has it on trial
	used   atomic.Bool  // asked for since the last full look
	idle   int          // full looks since it was; owned by run
	kept   bool         // named by the configuration: never forgotten; set once
	Blamed atomic.Int32 // records in a row that it has refused, each by itself
	only   bool         // what is written to it can go nowhere else: a delay topic, a dead letter or parking topic, that of the audit; set once
	Counts Counts
}

// State is what is known of a target. It is never changed, only replaced.
type State struct {
	Status     Status
	Why        string
	since      time.Time // of status
	Asked      time.Time // when the brokers last answered
	lookAt     time.Time // when to ask them again
	Partitions int32
	Takes      Limits

	// Denied is the answer that dead-letters its records once brokers have given it for some time
	// without a break: Missing or Forbidden. Zero: another one.
	Denied      Status
	deniedSince time.Time
	Verdict     time.Time // when that will be

	// Failures counts the turns that it has made fail. However well it looks, after each it is
	// tried with one record, and not before tryAt.
	Failures int
	unled    bool // all of them because a partition had no leader
	tryAt    time.Time
	told     telling
	well     bool   // metadata has nothing against it
	Sound    []bool // nor against these partitions, by number
	keeps    keeper // an id that waits for it to take the end of a transaction
}

// keeper is something that a target keeps busy for as long as it does not take the end of a transaction.
type keeper interface{ Still() bool }

// Limits is what a topic's configuration says of the records that it takes.
type Limits struct {
	MaxBytes  int32 // max.message.bytes
	minISR    int   // min.insync.replicas
	Compacted bool  // records without a key are refused
	Inflates  bool  // compression.type is uncompressed: a batch counts as large as it is without
	Guessed   bool  // brokers have not told: it may take what is larger
}

// RecordBytes is the size of the largest record (topics.RecordSize) that the topic takes as it is.
func (l Limits) RecordBytes() int {
	return min(int(l.MaxBytes), kafka.LargestBatch-kafka.BatchPrefix)
}

// defaultLimits are Kafka's: of a topic that says nothing else, and guessedLimits of one that brokers say nothing of, such as to those who may not ask.
var (
	defaultLimits = Limits{MaxBytes: kafka.DefaultMaxBytes, minISR: 1}
	guessedLimits = Limits{MaxBytes: kafka.DefaultMaxBytes, minISR: 1, Guessed: true}
)

// Status is what becomes of records for a target.
type Status int

const (
	Unknown   Status = iota // not looked up yet
	Ready                   // it takes records
	OnTrial                 // it looks well, and has made a turn fail: one record is tried
	Troubled                // carry its records on
	Missing                 // dead-letter its records
	Forbidden               // dead-letter its records
)

var notLooked = &State{Status: Unknown, Takes: guessedLimits}

func (s Status) String() string {
	return [...]string{"unknown", "ready", "on trial", "troubled", "missing", "forbidden"}[s]
}

const (
	pauseFirst = time.Second
	// pauseMost is the longest pause of a target that has failed, unless brokers take long to answer.
	pauseMost = 30 * time.Second
	// onlyPause is the longest pause of a topic that nothing gets past: who waits for it loses more
	// by waiting on than by a turn that fails.
	onlyPause = 2 * time.Second
	// leastPatience is how long a turn waits for a target on trial when all others have answered.
	leastPatience = 100 * time.Millisecond
	// unledMost is how many turns may have failed because a partition had no leader, of a topic that takes what goes to its others.
	unledMost = 3
	// patientAfter is after how many failures in a row it waits longer: the target may only be slow.
	patientAfter = 7
)

// pauseAfter is how long a target that has failed so often is left alone. In the long run, of all
// time a hundredth at most goes by in turns that wait for it; more where brokers take long to answer,
// because a trial may take several answers of theirs.
func pauseAfter(failures int) time.Duration {
	if patience := PatienceAfter(failures); patience > leastPatience {
		return max(pauseMost, 100*patience)
	}
	return min(pauseFirst<<min(max(failures-1, 0), 10), pauseMost)
}

// PatienceAfter is how long a turn waits for a target on trial that has failed so often, when all others have answered.
func PatienceAfter(failures int) time.Duration {
	return leastPatience << min(max(failures-patientAfter, 0), 5)
}

// failed is the state of a target that has made a turn fail, and may keep an id busy since.
func (s *State) failed(why error, keeps keeper, now time.Time) *State {
	n := *s
	n.keeps = keeps
	n.unled = (s.Failures == 0 || s.unled) && kafka.IsAny(why, kafka.ErrUnanswered, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition)
	n.Failures++
	n.Status, n.Why, n.since = Troubled, why.Error(), now
	n.tryAt, n.lookAt = now.Add(pauseAfter(n.Failures)), now
	if !errors.Is(why, kerr.TopicAuthorizationFailed) {
		n.Denied = 0
	} else if n.Denied != Forbidden {
		n.Denied, n.deniedSince = Forbidden, now
	}
	return &n
}

// telling is what was said of a target in trouble, and when.
type telling struct {
	why string
	at  time.Time
}

// tellAgain is after what time it is said once more that a target is in the same trouble still, which each trial has shown.
const tellAgain = time.Minute

// tell reports whether it is to be said what trouble a target is in.
func (s *State) tell(now time.Time) bool {
	if s.told.why == s.Why && now.Sub(s.told.at) < tellAgain {
		return false
	}
	s.told = telling{s.Why, now}
	return true
}

// toTry reports that a target that made turns fail looks well and has been left alone for long enough.
func (s *State) toTry(now time.Time) bool {
	return s.well && s.Failures > 0 && !s.Writable() && !now.Before(s.tryAt)
}

// Passed notes that a target on trial has taken a record.
func (t *Target) Passed() {
	if old := t.State.Load(); old.Status == OnTrial {
		n := *old
		n.Status, n.Why, n.Denied, n.since = Ready, "", 0, time.Now()
		t.State.CompareAndSwap(old, &n)
	}
}

// Succeeded notes that records were delivered. One that fails again soon is believed less, so its
// failures are forgotten when it has been well for as long as it would have been left alone.
func (t *Target) Succeeded() {
	if t.Blamed.Load() > 0 {
		t.Blamed.Store(0)
	}
	if old := t.State.Load(); old.Failures > 0 && old.Status == Ready && time.Since(old.since) > pauseAfter(old.Failures) {
		n := *old
		n.Failures = 0
		t.State.CompareAndSwap(old, &n)
	}
}

// longGone reports that brokers have said for long that a target does not exist.
func (s *State) longGone(now time.Time) bool {
	return s.Status == Missing && now.Sub(s.deniedSince) >= goneFor
}

// NotReady is why nothing may be produced to it now.
func (s *State) NotReady() string {
	if s.Status == Unknown {
		return "not looked up yet"
	}
	return s.Why
}

// Writable reports whether records may be produced to it: if need be, on trial.
func (s *State) Writable() bool { return s.Status == Ready || s.Status == OnTrial }

// Against is why a record for one of its partitions would be refused, as far as that is known: "" for nothing, also while another one is in trouble.
func (s *State) Against(partition int32) string {
	switch {
	case s.Writable(), s.Status == Unknown:
		return ""
	case !s.well && s.Denied == 0 && int(partition) < len(s.Sound) && s.Sound[partition]:
		return ""
	}
	return s.Why
}

// TakesFor reports whether a topic in trouble takes what goes to one of its partitions all the same: metadata has something against others, and it has made no turn
// fail but a few that went to one without a leader before that was known.
func (s *State) TakesFor(partition int32) bool {
	return s.Status == Troubled && (s.Failures == 0 || s.unled && s.Failures <= unledMost) && s.Against(partition) == ""
}

// takesSome reports whether there is such a partition.
func (s *State) takesSome() bool {
	for partition := range s.Sound {
		if s.TakesFor(int32(partition)) {
			return true
		}
	}
	return false
}

// Counts count what was delivered to a target. Turns add, every goroutine may read.
type Counts struct {
	Delivered atomic.Int64
	Lateness  histogram.Histogram
}
