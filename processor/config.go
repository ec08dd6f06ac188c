package processor

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// Guarantee is what a consumer of the target topics may rely on.
type Guarantee string

const (
	// ExactlyOnce puts the due records and the checkpoint in one Kafka transaction.
	ExactlyOnce Guarantee = "exactly_once"
	// AtLeastOnce produces without transactions and writes the checkpoint a few times a
	// second: lower latency, and after a crash what followed the last checkpoint comes again. So does,
	// without any crash, what a broker has written and not acknowledged (REQUEST_TIMED_OUT,
	// NOT_ENOUGH_REPLICAS_AFTER_APPEND).
	AtLeastOnce Guarantee = "at_least_once"
)

// Protocol is a consumer group protocol.
type Protocol string

const (
	// ProtocolClassic shares partitions out on the members, cooperative-sticky (KIP-429).
	ProtocolClassic Protocol = "classic"
	// ProtocolConsumer shares them out on the broker (KIP-848). It needs Kafka 4.3; session
	// timeout and heartbeat interval are then the group's or the broker's settings.
	ProtocolConsumer Protocol = "consumer"
)

// Config is everything a Processor needs to know. Only Client, Group and Routes have no default.
type Config struct {
	// Client holds the options every Kafka client of the processor is made with: brokers, TLS,
	// SASL, client id, dialer.
	Client []kgo.Opt

	// Group is the consumer group; its committed offsets are the checkpoints, and it is the
	// prefix of every transactional id.
	Group string

	// Routes are the delay topics, one each.
	Routes []topics.Route

	// Guarantee defaults to ExactlyOnce.
	Guarantee Guarantee

	// Lanes is the number of group members in this process. Defaults to the number of CPUs, at
	// most 4. A lane keeps one core busy; more lanes than partitions are idle.
	Lanes int

	// StateDir is where the store keeps far records. Defaults to "duewheel-state". It is a
	// cache: it may be deleted while the processor is down, at the cost of a longer restore. A disk
	// that is full or fails takes it away for a while; partitions then go on with the log alone.
	StateDir string

	// MemoryBudget bounds near records, the store's cache and the fetch buffers together.
	// Defaults to 256 MiB. Lowering it makes the near window shrink sooner, so more records
	// take the way through the store.
	MemoryBudget int64

	// Protocol is how partitions are shared out. Defaults to ProtocolClassic.
	Protocol Protocol

	// InstanceID makes the group members of this process static ones (KIP-345), each with its
	// lane's number behind it: a restart within the session timeout keeps the partitions, and
	// no other process gets them meanwhile, not even when the process stops for good. Defaults to
	// none. Two processes must not share one.
	InstanceID string

	// Standbys is how many other replicas keep a warm copy of each partition's pending records, so
	// that a takeover costs the same whatever is pending. Defaults to 0. Each costs the disk of
	// what is pending and reads the log once more; nothing is written to Kafka. All replicas of a
	// group should agree on it.
	Standbys int

	// SessionTimeout is how long the group waits for a replica that went silent. Defaults to
	// 10 s. Lowering it shortens failover and makes a long pause of the process cost its
	// membership; the broker's group.min.session.timeout.ms (6 s) bounds it.
	SessionTimeout time.Duration

	// HeartbeatInterval defaults to 500 ms. Rebalances are noticed at a heartbeat.
	HeartbeatInterval time.Duration

	// TransactionTimeout is when the broker aborts a transaction whose replica is gone. Defaults
	// to 30 s. It must stay below the broker's transaction.max.timeout.ms.
	TransactionTimeout time.Duration

	// NearWindow is how far ahead of the clock records are kept in memory; what is due later is
	// kept in the store. Defaults to 30 s. Raising it costs memory and a longer replay after a
	// restart; it shrinks by itself when the memory budget is used up.
	NearWindow time.Duration

	// BatchRecords and BatchBytes bound one transaction. Default to 20,000 records and 16 MiB.
	// Larger batches raise throughput under a burst, and the latency of what is in them.
	BatchRecords int
	BatchBytes   int64

	// CommitInterval is how long a checkpoint may lag behind while nothing is due (exactly_once,
	// defaults to 1 s), or ever (at_least_once, defaults to 250 ms).
	CommitInterval time.Duration

	// TurnTimeout bounds how long a turn waits for its records to be acknowledged before it is
	// given up and the targets that did not answer are taken for troubled. While a quota holds its
	// records back it waits on, up to four fifths of the transaction timeout. Defaults to 5 s.
	TurnTimeout time.Duration

	// ShutdownTimeout is how long Run may take to return after its context has ended, whatever brokers
	// do. Defaults to 20 s; Kubernetes kills after 30 s. With brokers that answer it takes some ms. What
	// is not done by then is left to the next owner: a transaction that it aborts, a checkpoint a
	// little behind, partitions that it gets when the session ends.
	ShutdownTimeout time.Duration

	// RetryBackoff is after what time a record is tried again whose target was in trouble; each
	// pause is a quarter longer than the one before, up to RetryBackoffMax, and up to a fifth
	// longer or shorter. They default to 1 s and 5 min. Each try writes the record to the delay
	// topic once more, so lower values cost log; higher ones are the longest that a record waits
	// after its target is well again.
	RetryBackoff    time.Duration
	RetryBackoffMax time.Duration

	// UnknownTargetAfter is how long brokers must have answered that a target does not exist
	// before its records are dead-lettered. Defaults to 5 s.
	UnknownTargetAfter time.Duration

	// ForbiddenTargetAfter is how long a target must have been forbidden to us before its records
	// are dead-lettered. Defaults to 10 min: rights are given by people.
	ForbiddenTargetAfter time.Duration

	// MaxClockSkew is how far the clock of this machine may be off the brokers'. Defaults to 1 s.
	// Further off it does not count, and records are delivered by the brokers' time. Lowering it
	// bounds how early a clock that is a little ahead delivers; answers of brokers that take longer
	// than it are of no use.
	MaxClockSkew time.Duration

	// AcceptLoss lets a partition go on although its log starts above its low water, which means
	// that the topic has lost pending records. Defaults to false: the partition stops.
	AcceptLoss bool

	// Instance names this process in writer names and dead-letter headers. Defaults to random
	// letters; it must never be used again by another process.
	Instance string

	// Logger defaults to slog.Default().
	Logger *slog.Logger

	// Now reads the wall clock. Defaults to time.Now. Tests step it.
	Now func() time.Time

	// FS is the file system of the store. Defaults to the operating system's.
	FS vfs.FS
}

// withDefaults returns c with every unset field filled in.
func (c Config) withDefaults() Config {
	c.Guarantee = cmp.Or(c.Guarantee, ExactlyOnce)
	c.Protocol = cmp.Or(c.Protocol, ProtocolClassic)
	c.Lanes = cmp.Or(c.Lanes, min(runtime.GOMAXPROCS(0), 4))
	c.StateDir = cmp.Or(c.StateDir, "duewheel-state")
	c.MemoryBudget = cmp.Or(c.MemoryBudget, 256<<20)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 10*time.Second)
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, 500*time.Millisecond)
	c.TransactionTimeout = cmp.Or(c.TransactionTimeout, 30*time.Second)
	c.NearWindow = cmp.Or(c.NearWindow, 30*time.Second)
	c.BatchRecords = cmp.Or(c.BatchRecords, 20_000)
	c.BatchBytes = cmp.Or(c.BatchBytes, 16<<20)
	c.TurnTimeout = cmp.Or(c.TurnTimeout, 5*time.Second)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, 20*time.Second)
	c.RetryBackoff = cmp.Or(c.RetryBackoff, time.Second)
	c.RetryBackoffMax = cmp.Or(c.RetryBackoffMax, max(5*time.Minute, c.RetryBackoff))
	c.UnknownTargetAfter = cmp.Or(c.UnknownTargetAfter, 5*time.Second)
	c.ForbiddenTargetAfter = cmp.Or(c.ForbiddenTargetAfter, 10*time.Minute)
	c.MaxClockSkew = cmp.Or(c.MaxClockSkew, time.Second)
	if c.CommitInterval == 0 {
		c.CommitInterval = time.Second
		if c.Guarantee == AtLeastOnce {
			c.CommitInterval = 250 * time.Millisecond
		}
	}
	if c.Instance == "" {
		c.Instance = randomName()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	return c
}

// minMemory is what a processor needs at least: the store's smallest cache and memtables, one
// fetch, and room for a batch.
const minMemory = 32 << 20

// maxTimeout is what Kafka's requests hold of a time: 31 bits of ms.
const maxTimeout = 24 * 24 * time.Hour

// maxMemory is beyond every machine, and small enough to be reckoned with.
const maxMemory = 1 << 50

var (
	validGroup = regexp.MustCompile(`^[^\s\x00-\x1f]+$`)
	validName  = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
)

// problems are those of a configuration. Settings are called as the file of `duewheel run` calls them.
type problems []error

func (p *problems) report(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// validate reports everything that is wrong with a configuration whose defaults are filled in.
func (c Config) validate() error {
	var p problems
	if len(c.Client) == 0 {
		p.report("no client options: brokers are missing")
	}
	if len(c.Routes) == 0 {
		p.report("no routes: name at least one delay topic")
	}
	c.validateNames(&p)
	c.validateBounds(&p)
	c.validateTimes(&p)
	return errors.Join(p...)
}

func (c Config) validateNames(p *problems) {
	switch {
	case c.Group == "":
		p.report("group.id is empty")
	case !validGroup.MatchString(c.Group) || len(c.Group) > 200:
		p.report("group.id is %q: at most 200 characters, no white space", c.Group)
	}
	for _, n := range []struct {
		key, is string
		max     int // a lane's number is added to both; every checkpoint bears the instance
	}{{"group.instance_id", c.InstanceID, 200}, {"instance", c.Instance, 64}} {
		if !validName.MatchString(n.is) || len(n.is) > n.max {
			p.report("%s is %q: at most %d letters, digits, dots, underscores and dashes", n.key, n.is, n.max)
		}
	}
	if c.Guarantee != ExactlyOnce && c.Guarantee != AtLeastOnce {
		p.report("guarantee is %q: %s or %s", c.Guarantee, ExactlyOnce, AtLeastOnce)
	}
	if c.Protocol != ProtocolClassic && c.Protocol != ProtocolConsumer {
		p.report("group.protocol is %q: %s or %s", c.Protocol, ProtocolClassic, ProtocolConsumer)
	}
}

func (c Config) validateBounds(p *problems) {
	if c.Lanes < 1 || c.Lanes > 64 {
		p.report("lanes is %d: 1 to 64", c.Lanes)
	}
	if c.Standbys < 0 || c.Standbys > 9 {
		p.report("standbys is %d: 0 to 9", c.Standbys)
	}
	if c.MemoryBudget < minMemory || c.MemoryBudget > maxMemory {
		p.report("memory.budget is %d bytes: 32MiB to 1024TiB", c.MemoryBudget)
	}
	if c.BatchRecords < 1 {
		p.report("batch.records is %d: at least 1", c.BatchRecords)
	}
	if c.BatchBytes < 1 {
		p.report("batch.bytes is %d: at least 1", c.BatchBytes)
	}
}

func (c Config) validateTimes(p *problems) {
	sound := true
	for _, d := range []struct {
		key     string
		is, min time.Duration
	}{
		{"group.session_timeout", c.SessionTimeout, 100 * time.Millisecond},
		{"group.heartbeat_interval", c.HeartbeatInterval, 10 * time.Millisecond},
		{"transaction_timeout", c.TransactionTimeout, time.Second},
		{"near_window", c.NearWindow, 10 * time.Millisecond},
		{"commit_interval", c.CommitInterval, 10 * time.Millisecond},
		{"turn_timeout", c.TurnTimeout, 100 * time.Millisecond},
		{"shutdown_timeout", c.ShutdownTimeout, time.Second},
		{"retry_backoff", c.RetryBackoff, 10 * time.Millisecond},
		{"retry_backoff_max", c.RetryBackoffMax, 10 * time.Millisecond},
		{"unknown_target_after", c.UnknownTargetAfter, 10 * time.Millisecond},
		{"forbidden_target_after", c.ForbiddenTargetAfter, 10 * time.Millisecond},
		{"max_clock_skew", c.MaxClockSkew, 10 * time.Millisecond},
	} {
		if d.is < d.min || d.is > maxTimeout {
			p.report("%s is %s: %s to %s", d.key, topics.FormatDelay(d.is), topics.FormatDelay(d.min), topics.FormatDelay(maxTimeout))
			sound = false
		}
	}
	if !sound {
		return // what follows compares them
	}
	// With the other protocol the brokers say how often.
	if c.HeartbeatInterval*3 > c.SessionTimeout && c.Protocol == ProtocolClassic {
		p.report("group.heartbeat_interval is %s: at most a third of group.session_timeout, %s",
			topics.FormatDelay(c.HeartbeatInterval), topics.FormatDelay(c.SessionTimeout))
	}
	if c.RetryBackoff > c.RetryBackoffMax {
		p.report("retry_backoff is %s: at most retry_backoff_max, %s", topics.FormatDelay(c.RetryBackoff), topics.FormatDelay(c.RetryBackoffMax))
	}
	if c.TurnTimeout >= c.TransactionTimeout {
		p.report("turn_timeout is %s: below transaction_timeout, %s", topics.FormatDelay(c.TurnTimeout), topics.FormatDelay(c.TransactionTimeout))
	}
}
