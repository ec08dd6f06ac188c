package processor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/group"
	"github.com/duewheel/duewheel/processor/setting"
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
type Protocol = group.Protocol

const (
	// ProtocolClassic shares partitions out on the members, cooperative-sticky (KIP-429).
	ProtocolClassic = group.Classic
	// ProtocolConsumer shares them out on the broker (KIP-848). It needs Kafka 4.0, better 4.3; session
	// timeout and heartbeat interval are then the group's or the broker's settings.
	ProtocolConsumer = group.Consumer
)

// Config is everything a Processor needs to know. Only Client, Group and Routes have no default. Fields with a key can be set in
// files too, where they are called so; docs/configuration.md is made of what is said here. All but functions and clients can be written as JSON.
type Config struct {
	// Client holds the options every Kafka client of the processor is made with: brokers, TLS,
	// SASL, client id, dialer.
	Client []kgo.Opt `json:"-"`

	// Group is the consumer group. Its committed offsets are the checkpoints, and it begins every transactional id. Two groups on
	// one delay topic both deliver everything that their routes allow; `run` and `topics check` warn of it.
	Group string `key:"group.id"`

	// Identity is the name by which the group knows what it has written into delay topics for itself: copies of what is pending, retries. Set it only where
	// the group has another name than it had: then it is the name that it had first (docs/operations.md#another-name-for-a-group). A partition
	// whose checkpoint says another one stops.
	Identity string `key:"group.identity" unset:"group.id"`

	// Protocol says who shares partitions out. [ProtocolClassic]: the members do, cooperative-sticky. [ProtocolConsumer]: the
	// broker does (KIP-848, Kafka 4.0, better 4.3); session timeout and heartbeat interval are then the group's or the broker's settings, and an
	// error here.
	Protocol Protocol `key:"group.protocol" default:"classic" words:"classic consumer"`

	// InstanceID makes the group members of this process static ones (KIP-345): a restart within the session timeout keeps the
	// partitions, and no other process gets them meanwhile, not even when the process stops for good. One for each process; a lane's
	// number is added. `duewheel leave` gives them up.
	InstanceID string `key:"group.instance_id"`

	// SessionTimeout is after what silence a replica is taken for dead, if others do not notice it before (docs/operations.md#a-replica-that-is-lost). Lower: faster failover, and a long pause of the process
	// costs its membership. The broker's `group.min.session.timeout.ms` (6 s) bounds it. Not with [Config.Protocol] [ProtocolConsumer].
	SessionTimeout time.Duration `key:"group.session_timeout" default:"10s" min:"100ms" max:"24d"`

	// HeartbeatInterval is how often the group is told that a replica is there, and so how soon it learns of a rebalance. At most a
	// third of [Config.SessionTimeout]. Not with [Config.Protocol] [ProtocolConsumer].
	HeartbeatInterval time.Duration `key:"group.heartbeat_interval" default:"500ms" min:"10ms" max:"24d"`

	// Routes are the delay topics, one each.
	Routes []topics.Route

	// Guarantee is what consumers may rely on. [ExactlyOnce]: records and checkpoint in one transaction. [AtLeastOnce]: lower
	// latency, and after a crash what followed the last checkpoint is delivered again. It may be changed between restarts.
	Guarantee Guarantee `key:"guarantee" default:"exactly_once" words:"exactly_once at_least_once"`

	// Lanes is the number of group members in this process. Each keeps one core busy at most; more lanes than partitions are idle.
	// A second one is of use when one core is not enough: until then it only makes transactions more and smaller.
	Lanes int `key:"lanes" default:"1" min:"1" max:"64"`

	// Standbys is how many other replicas keep a warm copy of each partition's pending records. A takeover then costs the same
	// whatever is pending; each copy costs the disk of what is pending and reads the log once more, and writes nothing to Kafka. The
	// same for all replicas of a group.
	Standbys int `key:"standbys" default:"0" min:"0" max:"9"`

	// AuditTopic is where to write what becomes of each request, a record for each event: docs/requests.md#audit. What cannot be
	// told there is not done, so while that topic is missing, or does not take records, all partitions wait. Each request costs
	// a record more, or two if it waits for a second or longer. The same for all replicas of a group; several groups may share one.
	AuditTopic string `key:"audit.topic"`

	// StateDir is where records due beyond the near window are kept. `duewheel run` uses `<dir>/0`, a second process on the host
	// `<dir>/1` and so on. What is not there is made, with mode 0700: payloads lie in it. It is a cache: it may be deleted while nothing runs, at the cost of a longer restart. A directory that
	// cannot be made is an error of `run` at start, but a disk that is full or fails costs no more than time
	// (docs/operations.md#disks).
	StateDir string `key:"state.dir" default:"duewheel-state"`

	// MemoryBudget is for records in memory, the store's cache and fetch buffers together. Lower: the near window shrinks sooner, so
	// more records take the way through the store.
	MemoryBudget int64 `key:"memory.budget" default:"256MiB" min:"32MiB" max:"4TiB"`

	// TransactionTimeout is when the broker aborts the transaction of a process that is gone. Not above the brokers'
	// `transaction.max.timeout.ms` (15 min where they do not set it): `run` ends with an error then.
	TransactionTimeout time.Duration `key:"transaction_timeout" default:"30s" min:"1s" max:"24d"`

	// NearWindow is how far ahead records are kept in memory only; what is due later goes to the store. Larger: more memory and a
	// longer replay; it shrinks by itself when the budget is used up.
	NearWindow time.Duration `key:"near_window" default:"30s" min:"10ms" max:"24d"`

	// BatchRecords is the bound of one transaction. No more than an eighth of [Config.MemoryBudget] either, at a KiB a record and
	// shared by the lanes: 8,192 records for each of four. Larger: more throughput in a burst, and more latency for what is in it.
	// Transactions get smaller by themselves while their records take longer than half of [Config.TurnTimeout], by a quota or otherwise.
	BatchRecords int `key:"batch.records" default:"20000" min:"1"`

	// BatchBytes is the same in bytes.
	BatchBytes int64 `key:"batch.bytes" default:"16MiB" min:"1"`

	// CommitInterval is how far a checkpoint may lag behind while nothing is due ([ExactlyOnce]), or ever ([AtLeastOnce]).
	CommitInterval time.Duration `key:"commit_interval" unset:"1s; at_least_once: 250ms" min:"10ms" max:"24d"`

	// TurnInterval is the time from the beginning of one transaction of a lane to that of the next, at least: what becomes due
	// meanwhile goes together. Longer: fewer requests and less work for brokers, and records up to that much later. One that could not
	// hold all that was due is followed at once.
	TurnInterval time.Duration `key:"turn_interval" unset:"1.5 times what they take of late, 2 ms to 10 ms; at_least_once: none" min:"1ms" max:"1s"`

	// TurnTimeout is how long a transaction waits for acknowledgements before the targets that did not answer are taken for
	// troubled. A quota may keep it waiting for longer, up to four fifths of [Config.TransactionTimeout]. Below that one.
	TurnTimeout time.Duration `key:"turn_timeout" default:"5s" min:"100ms" max:"24d"`

	// ShutdownTimeout is how long the process may take to end after SIGTERM (Run, after its context has ended), whatever brokers do;
	// with brokers that answer it takes some ms. What is not done by then is left to the next owner: a transaction that it aborts, a
	// checkpoint a little behind, partitions that it gets when the session ends. Keep it below what kills the process (Kubernetes:
	// `terminationGracePeriodSeconds`, 30 s).
	ShutdownTimeout time.Duration `key:"shutdown_timeout" default:"20s" min:"1s" max:"24d"`

	// TrimInterval is how often it is looked whether delay topics can be trimmed (`trim` of a route). Longer: fewer requests, and longer logs.
	TrimInterval time.Duration `key:"trim_interval" default:"1m" min:"1s" max:"24d"`

	// CarryRecords is how many pending records this process carries in a second at most (`carry` of a route). Lower: less beside deliveries, and it may not be
	// done before the topic deletes what waits for it; `/readyz` says so.
	CarryRecords int `key:"carry_records" default:"10000" min:"1"`

	// CarryBytes is the same in bytes. A record that is larger takes its time.
	CarryBytes int64 `key:"carry_bytes" default:"10MB" min:"1"`

	// RetryBackoff is after what time records are tried again whose target was in trouble. Each pause is a quarter longer than the
	// one before (and up to a fifth longer or shorter), so a record is at most that much later than its target is back. Each try
	// writes them to the delay topic once more.
	RetryBackoff time.Duration `key:"retry_backoff" default:"1s" min:"10ms" max:"24d"`

	// RetryBackoffMax is the longest of these pauses, and so the longest that a record waits after its target is well again. Lower:
	// more tries, so more log.
	RetryBackoffMax time.Duration `key:"retry_backoff_max" default:"5m" min:"10ms" max:"24d"`

	// UnknownTargetAfter is for how long brokers must have said that a target does not exist before its records are dead-lettered.
	UnknownTargetAfter time.Duration `key:"unknown_target_after" default:"5s" min:"10ms" max:"24d"`

	// ForbiddenTargetAfter is for how long a target must have been forbidden to duewheel before its records are dead-lettered:
	// rights are given by people.
	ForbiddenTargetAfter time.Duration `key:"forbidden_target_after" default:"10m" min:"10ms" max:"24d"`

	// MaxClockSkew is how far the clock of this machine may be off the brokers'. Further off it does not count
	// (docs/operations.md#clocks): records are delivered by the brokers' time, and `/readyz` says so. Lower: a clock that is a little
	// ahead delivers less early, and answers of brokers that take longer than it are of no use.
	MaxClockSkew time.Duration `key:"max_clock_skew" default:"1s" min:"10ms" max:"24d"`

	// AcceptLoss lets a partition go on although its log starts above its low water, or has lost its end (an unclean leader election),
	// which means that the topic has lost records that were pending. Otherwise the partition stops. `duewheel run --accept-loss` is the same.
	AcceptLoss bool `key:"accept_loss" default:"false"`

	// Instance names this process in checkpoints and dead letters. Never give two processes the same one, not even one after the
	// other. At most 64 letters, digits, dots, underscores and dashes.
	Instance string `key:"instance" unset:"random"`

	// Logger defaults to slog.Default(). Its lines are for people: programs learn from Events, and from Stats.
	Logger *slog.Logger `json:"-"`

	// Events is told what happens to partitions, as it happens. It is called from several goroutines, which wait for it.
	Events func(Event) `json:"-"`

	// Now reads the wall clock. Defaults to time.Now. Tests step it.
	Now func() time.Time `json:"-"`

	// FS is the file system of the store. Defaults to the operating system's.
	FS vfs.FS `json:"-"`
}

// withDefaults returns c with every unset field filled in: what its tags say, and what is no constant.
func (c Config) withDefaults() Config {
	longest := c.RetryBackoffMax
	setting.Fill(&c)
	if longest == 0 {
		c.RetryBackoffMax = max(c.RetryBackoffMax, c.RetryBackoff)
	}
	if c.CommitInterval == 0 {
		c.CommitInterval = time.Second
		if c.Guarantee == AtLeastOnce {
			c.CommitInterval = 250 * time.Millisecond
		}
	}
	if c.Identity == "" {
		c.Identity = c.Group
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

// identity is what checkpoints say of the group's identity.
func (c *Config) identity() string {
	if c.Identity == c.Group {
		return ""
	}
	return c.Identity
}

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
	if c.validateBounds(&p) {
		c.validateTimes(&p)
	}
	return errors.Join(p...)
}

func (c Config) validateNames(p *problems) {
	switch {
	case c.Group == "":
		p.report("group.id is empty")
	case !validGroup.MatchString(c.Group) || len(c.Group) > 200:
		p.report("group.id is %q: at most 200 characters, no white space", c.Group)
	case !validGroup.MatchString(c.Identity) || len(c.Identity) > 200:
		p.report("group.identity is %q: at most 200 characters, no white space", c.Identity)
	}
	for _, n := range []struct {
		key, is string
		max     int // a lane's number is added to both; every checkpoint bears the instance
	}{{"group.instance_id", c.InstanceID, 200}, {"instance", c.Instance, 64}} {
		if !validName.MatchString(n.is) || len(n.is) > n.max {
			p.report("%s is %q: at most %d letters, digits, dots, underscores and dashes", n.key, n.is, n.max)
		}
	}
}

// validateBounds tells whether all values are within their bounds.
func (c Config) validateBounds(p *problems) bool {
	outside := setting.Check(&c)
	for _, o := range outside {
		switch is := o.Value.(type) {
		case time.Duration:
			p.report("%s is %s: %s", o.Key, topics.FormatDelay(is), o.May)
		case int64:
			p.report("%s is %d bytes: %s", o.Key, is, o.May)
		case int:
			p.report("%s is %d: %s", o.Key, is, o.May)
		default:
			p.report("%s is %q: %s", o.Key, is, o.May)
		}
	}
	return len(outside) == 0
}

// validateTimes compares times that are within their bounds.
func (c Config) validateTimes(p *problems) {
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

// randomName is what no other process calls itself.
func randomName() string { return strings.ToLower(rand.Text()[:10]) }

// emptyTimeout is the transaction timeout of an id that will have no record in what it begins. It is one
// that every broker grants, so that this works where transaction_timeout is of no other use.
func (c *Config) emptyTimeout() time.Duration { return min(c.TransactionTimeout, 30*time.Second) }

// The memory budget is shared out: half for near records, a quarter for the store, the rest for
// fetches that have not been taken in and for turns.
func (c *Config) nearBudget() int64 { return c.MemoryBudget / 2 }

func (c *Config) storeBudget() int64 { return c.MemoryBudget / 4 }

func (c *Config) fetchBytes() int32 {
	return int32(min(max(c.MemoryBudget/int64(16*c.Lanes), 1<<20), 16<<20))
}
