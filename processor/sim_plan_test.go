//go:build synctests

package processor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/duewheel/duewheel/topics"
)

// plan is one schedule of the simulation: what is requested, and what goes wrong, when.
type plan struct {
	Seed       uint64
	Guarantee  Guarantee
	Partitions int32
	Brokers    int
	Processes  int
	Lanes      int
	Batch      int
	Near       time.Duration
	Latency    time.Duration
	Fixed      bool
	Classic    bool // brokers of before transaction.version 2
	Standbys   int
	Flush      bool          // before each kill
	Rival      bool          // a second group reads the delay topic
	Again      string        // there is a retry route, whose topic has this message.timestamp.type
	Jitter     time.Duration // of the delay topic
	Expires    time.Duration // expire_after
	Duplicates topics.OnDuplicate
	Keyed      bool          // the key is the id
	Remember   time.Duration // of ids, where they do not replace
	Prefix     string        // of headers, on the delay topic; "": the usual one
	Tools      []string      // headers.aliases there
	Timestamp  topics.Timestamp
	Target     bool          // it has one for what names none
	Trim       time.Duration // how often topics are trimmed; 0: not at all
	Keeps      time.Duration // retention.ms of the delay topic; 0: for ever
	Rate       time.Duration // a request comes this often besides
	Steps      []step
}

// step is one thing that happens, some time after the one before.
type step struct {
	After time.Duration
	Op    op
	Who   int           // which process
	N     int           // what or how many; every op has its own reading
	For   time.Duration // how long
}

type op int

const (
	opSend           op = iota // N requests
	opTransact                 // N requests in a transaction that stays open For; even N commit
	opKill                     // kill -9, back after For
	opPowerLoss                // the same, and what was not synced is gone in part
	opWipe                     // the same, and the disk is gone
	opFlush                    // the store is flushed
	opStop                     // SIGTERM, back after For
	opJoin                     // one process more
	opLeave                    // SIGTERM, for good
	opFreeze                   // nothing passes between process and brokers For
	opAhead                    // the wall clock is ahead For, less than what makes it believed
	opBehind                   // the wall clock is behind For
	opHold                     // a request of kind N is on its way For
	opCutBefore                // a request of kind N is lost
	opCutAfter                 // the answer to a request of kind N is lost
	opKillBefore               // kill -9 as it sends a request of kind N, back after For
	opKillAfter                // kill -9 when a request of kind N has been carried out, back after For
	opFreezeBefore             // freeze as it sends a request of kind N
	opFreezeAfter              // freeze when a request of kind N has been carried out
	opFault                    // the broker answers with error N
	opLeaderless               // a target has no leader For
	opCoordinator              // the coordinators move
	opForget                   // orders forgets the producer of the request after N
	opLeaders                  // the leaders move
	opFull                     // the disk is full For
	opOverlap                  // producers of requests have overlapping transactions For
	opRetain                   // retention cuts the log up to L
	opConfigure                // a topic has setting N For
	opPartitions               // orders has one partition more
	opQuota                    // the process may produce few bytes a second For
	opPoison                   // N requests among others that orders refuses for what they are
	opProduceError             // what is produced for a target is answered with error N For
	opUnwilling                // a target's leaders refuse with N what is produced, and markers, For
	opRefuse                   // a kind of request is refused For, of one partition only where Who is 2 or 3
	opRefuseCommit             // the same, of checkpoints
	opRefuseCarriers           // the same, of what carriers ask
	opBrokerClock              // the clock of a broker is wrong For
	opFarClock                 // the clock of a machine is wrong For, by minutes or hours, and after a restart meanwhile
	opFreezeBroker             // a broker is silent For
	opRemove                   // the state directory is removed
	opUnreachable              // a broker refuses connections of a process For
	opCancel                   // N requests of each partition are cancelled when they have been acknowledged
	opRefuseOne                // the same, and the checkpoints of one partition are refused For, or once
	opSlow                     // answers to a process are slow For
	opBurst                    // some hundred requests of one partition are due at one instant in For, most of them of one target
	opWiden                    // the delay topic has one partition more
	opBehead                   // the log of a partition is cut, N+1 quarters of the way from L to its end
	ops
)

var opNames = [ops]string{"send", "transact", "kill", "power loss", "wipe", "flush", "stop", "join", "leave", "freeze", "clock ahead", "clock behind",
	"hold", "cut before", "cut after", "kill before", "kill after", "freeze before", "freeze after", "fault", "leaderless", "move coordinators", "forget a producer", "move leaders", "fill the disk", "overlap transactions",
	"cut the log", "configure", "add partitions", "quota", "poison", "produce error", "unwilling target", "refuse", "refuse checkpoints", "refuse carriers",
	"clock of a broker", "clock far off", "freeze a broker", "remove the state directory", "unreachable broker", "cancel many", "refuse one partition", "slow answers", "burst", "widen the delay topic", "behead a log"}

// kinds are the requests that are held and cut.
var kinds = []kmsg.Key{kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.OffsetCommit, kmsg.Produce, kmsg.OffsetFetch, kmsg.InitProducerID,
	kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat, kmsg.ListOffsets, kmsg.Fetch, kmsg.Metadata}

// faults are what brokers answer in place of carrying a request out, or after it where Kafka does.
var faults = []struct {
	key   kmsg.Key
	err   *kerr.Error
	topic string
	top   bool
}{
	{kmsg.TxnOffsetCommit, kerr.ConcurrentTransactions, "", false},
	{kmsg.TxnOffsetCommit, kerr.IllegalGeneration, "", false},
	{kmsg.TxnOffsetCommit, kerr.RebalanceInProgress, "", false},
	{kmsg.TxnOffsetCommit, kerr.CoordinatorLoadInProgress, "", false},
	{kmsg.TxnOffsetCommit, kerr.RequestTimedOut, "", false}, // and carried out
	{kmsg.TxnOffsetCommit, kerr.ProducerFenced, "", false},
	{kmsg.TxnOffsetCommit, kerr.NotCoordinator, "", false},
	{kmsg.TxnOffsetCommit, kerr.OffsetMetadataTooLarge, simTopic, false},
	{kmsg.OffsetCommit, kerr.RebalanceInProgress, "", false},
	{kmsg.OffsetCommit, kerr.CoordinatorNotAvailable, "", false},
	{kmsg.OffsetCommit, kerr.NotCoordinator, "", false},
	{kmsg.OffsetCommit, kerr.OffsetMetadataTooLarge, simTopic, false},
	{kmsg.OffsetCommit, kerr.RequestTimedOut, "", false}, // and carried out
	{kmsg.EndTxn, kerr.ConcurrentTransactions, "", true},
	{kmsg.EndTxn, kerr.CoordinatorNotAvailable, "", true},
	{kmsg.EndTxn, kerr.NotCoordinator, "", true},
	{kmsg.EndTxn, kerr.UnknownServerError, "", true},
	{kmsg.InitProducerID, kerr.ConcurrentTransactions, "", true},
	{kmsg.Produce, kerr.NotLeaderForPartition, "orders", false},
	{kmsg.Produce, kerr.RequestTimedOut, "orders", false}, // and carried out
	{kmsg.Produce, kerr.NotEnoughReplicas, "bills", false},
	{kmsg.Produce, kerr.ConcurrentTransactions, "orders", false},
	{kmsg.Produce, kerr.KafkaStorageError, simTopic, false},
	{kmsg.OffsetFetch, kerr.CoordinatorLoadInProgress, "", true},
	{kmsg.ListOffsets, kerr.NotLeaderForPartition, simTopic, false},
	{kmsg.Fetch, kerr.NotLeaderForPartition, simTopic, false},
	{kmsg.Heartbeat, kerr.UnknownMemberID, "", true},
	{kmsg.Heartbeat, kerr.RebalanceInProgress, "", true},
}

// below draws a number below n, all with the same chance: rapid's own integers are small ones
// most of the time. Small is simple: shrinking leads there.
func below(t *rapid.T, label string, n int) int {
	bits := rapid.SliceOfN(rapid.Bool(), 14, 14).Draw(t, label)
	var u int
	for _, b := range bits {
		u <<= 1
		if b {
			u |= 1
		}
	}
	return u * n >> len(bits)
}

func oneOf[T any](t *rapid.T, label string, of ...T) T { return of[below(t, label, len(of))] }

const milli = time.Millisecond

// drawPlan lets rapid choose.
func drawPlan(t *rapid.T) plan {
	p := plan{
		Seed:       uint64(below(t, "seed", 1<<14)),
		Guarantee:  oneOf(t, "guarantee", ExactlyOnce, ExactlyOnce, ExactlyOnce, AtLeastOnce),
		Partitions: oneOf[int32](t, "partitions", 1, 2, 3, 3, 4, 6),
		Brokers:    1 + below(t, "brokers", 3),
		Processes:  1 + below(t, "processes", 3),
		Lanes:      oneOf(t, "lanes", 1, 1, 2),
		Batch:      oneOf(t, "batch", 20_000, 1, 3, 5, 10, 16, 24, 48),
		Near:       oneOf(t, "near", 5*time.Second, 500*milli, time.Minute),
		Fixed:      below(t, "fixed", 2) == 1,
		Classic:    below(t, "classic", 3) == 2,
		Standbys:   below(t, "standbys", 3),
		Flush:      below(t, "flush", 2) == 1,
		Rival:      below(t, "rival", 4) == 3,
		Again:      oneOf(t, "again", "", "", "LogAppendTime", "CreateTime"),
		Jitter:     oneOf(t, "jitter", 0, 0, 100*milli, 5*time.Second),
		Expires:    oneOf(t, "expires", 0, 0, 0, 2*time.Second),
		Keyed:      below(t, "keyed", 5) == 4,
		Duplicates: oneOf(t, "duplicates", topics.DuplicateRejected, topics.DuplicateReplaces, topics.DuplicateIgnored),
		Remember:   oneOf(t, "remember", 0, 0, 2*time.Second, 25*time.Second),
		Prefix:     oneOf(t, "prefix", "", "", "", "x-wheel-"),
		Tools:      oneOf(t, "tools", nil, nil, []string{"spring-retry", "etf1"}, []string{"plain", "cloudevents", "spring-retry"}, []string{"none"}),
		Timestamp:  oneOf(t, "timestamp", topics.TimestampFired, topics.TimestampFired, topics.TimestampDue, topics.TimestampOriginal),
		Target:     below(t, "target", 2) == 1,
		Trim:       oneOf(t, "trim", 0, time.Second, 3*time.Second),
		Keeps:      oneOf(t, "keeps", 0, 0, 4*time.Second, 20*time.Second),
		Rate:       oneOf(t, "rate", time.Hour, 400*milli, 150*milli, 70*milli),
	}
	latencies := []time.Duration{milli, 10 * milli, 40 * milli, 10 * milli, milli}
	if !p.small() { // fewer do not keep up with what is requested
		latencies = append(latencies, 200*milli, 400*milli)
	}
	p.Latency = oneOf(t, "latency", latencies...)
	p.Steps = rapid.SliceOfN(rapid.Custom(drawStep), 1+below(t, "least", 8), 25).Draw(t, "steps")
	return p
}

// often is how much more often than the others an op is drawn.
var often = map[op]int{opOverlap: 2, opRetain: 3, opSend: 6, opTransact: 2, opKill: 2, opFreeze: 3, opHold: 4, opCutBefore: 2, opCutAfter: 4,
	opKillBefore: 5, opKillAfter: 5, opFreezeBefore: 5, opFreezeAfter: 3, opFault: 5, opFull: 3, opRefuseOne: 6, opBurst: 4, opWiden: 3}

var weighted = func() (w []op) {
	for o := range ops {
		for range max(often[o], 1) {
			w = append(w, o)
		}
	}
	return w
}()

func drawStep(t *rapid.T) step {
	s := step{Op: oneOf(t, "op", weighted...), After: oneOf(t, "after", 0, milli, 20*milli, 100*milli, 300*milli, 700*milli, 1500*milli, 3000*milli)}
	switch s.Op {
	case opSend:
		s.N = 1 + below(t, "n", 40)
		return s
	case opBurst:
		s.N, s.Who, s.For = 100+below(t, "n", 300), below(t, "who", 4), oneOf(t, "for", 20*milli, 300*milli, 1100*milli, 3*time.Second)
		return s
	case opCancel:
		s.N = 1 + below(t, "n", 30)
		return s
	case opTransact:
		s.N, s.For = 1+below(t, "n", 20), oneOf(t, "for", 0, 50*milli, time.Second, 3*time.Second, 9*time.Second, 18*time.Second)
		return s
	case opHold, opCutBefore, opCutAfter, opKillBefore, opKillAfter, opFreezeBefore, opFreezeAfter:
		s.N = oneOf(t, "kind", 0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	case opFault:
		s.N = below(t, "fault", len(faults))
	case opLeaderless:
		s.N = below(t, "topic", len(leaderless))
	case opForget:
		s.N = below(t, "after", 3)
	default:
		s.N = below(t, "n", max(len(choices[s.Op]), 4))
	}
	s.Who = below(t, "who", 4)
	switch s.Op {
	case opRefuseOne:
		s.For = oneOf(t, "for", 0, 0, 0, 0, time.Second, 3*time.Second)
	case opAhead:
		s.For = oneOf(t, "for", 50*milli, time.Second, 4*time.Second)
	case opKill, opPowerLoss, opWipe, opStop, opFreeze, opBehind, opHold, opLeaderless, opKillBefore, opKillAfter, opFreezeBefore, opFreezeAfter, opFull, opOverlap,
		opConfigure, opQuota, opPoison, opProduceError, opUnwilling, opRefuse, opRefuseCommit, opRefuseCarriers, opBrokerClock, opFarClock, opUnreachable, opFreezeBroker, opSlow:
		// Shorter and longer than a session, a turn, and a request may take.
		s.For = oneOf(t, "for", 10*milli, 200*milli, time.Second, 2200*milli, 3*time.Second, 4500*milli, 7*time.Second, 12*time.Second)
	}
	return s
}

// MarshalText writes an op by its name.
func (o op) MarshalText() ([]byte, error) { return []byte(opNames[o]), nil }

// UnmarshalText reads what MarshalText writes.
func (o *op) UnmarshalText(text []byte) error {
	i := slices.Index(opNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("no op is called %q", text)
	}
	*o = op(i)
	return nil
}

// small reports whether turns take that few records that a fast cluster is needed to keep up.
func (p plan) small() bool { return p.Batch <= 48 }

// remember is for how long ids are remembered.
func (p plan) remember() time.Duration {
	if p.Duplicates == topics.DuplicateReplaces {
		return 0
	}
	return p.Remember
}

// line is a plan as TestSimPlan reads it.
func (p plan) line() string {
	line, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(line)
}

func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s, %d partitions, %d brokers, %d processes of %d lanes, batches of %d, near %v, latency %v, fixed-delay route %v, old transactions %v, %d standbys, flushed %v, a second group %v, retry route %q, jitter %v, expire_after %v, on_duplicate %v, keyed %v, remembered for %v, prefix %q, headers of %q, timestamp %v, a target of its own %v, trimmed every %v, kept for %v, a request every %v\n",
		p.Seed, p.Guarantee, p.Partitions, p.Brokers, p.Processes, p.Lanes, p.Batch, p.Near, p.Latency, p.Fixed, p.Classic, p.Standbys, p.Flush, p.Rival, p.Again, p.Jitter, p.Expires, p.Duplicates, p.Keyed, p.remember(), p.Prefix, p.Tools, p.Timestamp, p.Target, p.Trim, p.Keeps, p.Rate)
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  +%v %s\n", s.After, s)
	}
	return b.String()
}

func (s step) String() string {
	what := fmt.Sprint(s.N)
	switch s.Op {
	case opHold, opCutBefore, opCutAfter, opKillBefore, opKillAfter, opFreezeBefore, opFreezeAfter:
		what = kinds[s.N].Name()
	case opFault:
		what = faults[s.N].key.Name() + " " + faults[s.N].err.Message
	case opLeaderless:
		what = leaderless[s.N]
	default:
		if c := choices[s.Op]; len(c) > 0 {
			what = c[s.N%len(c)]
		}
	}
	return fmt.Sprintf("%s %s, process %d, for %v", opNames[s.Op], what, s.Who, s.For)
}

// leaderless are the topics that may lose their leader.
var leaderless = []string{"orders", "bills", simTopic, simTopic + ".dead", simCopies}
