package check

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says what was promised.
type Config struct {
	// Routes are the delay topics, as the processor is configured.
	Routes []Route
	// Targets are the target topics that exist. A request for any other topic must be dead-lettered.
	Targets []Target
	// AllowDoubles counts what arrives twice without calling it a fault: for at_least_once groups whose process was killed.
	AllowDoubles bool
	// Until is the last due time that is waited for and missed; requests due later may or may not arrive. Zero is no bound.
	Until time.Time
	// Skew is by how much the clock of a processor may be ahead of that of the caller of Delivered. Defaults to none.
	Skew time.Duration
	// Late is how much later a record may be seen than it was due, or than it was requested if it was due already, or than the
	// world is well again. Zero is no bound.
	Late time.Duration
	// Retries is how often one request may be put off. Zero is no bound.
	Retries int
	// Covered is how long after a request or a delivery was seen the checkpoint of its partition may take to cover it, for a test
	// that calls Checkpoint; and what a checkpoint has covered for as long must not arrive again, whatever AllowDoubles says. Zero is no
	// bound.
	Covered time.Duration
	// InTime is how long before a request is delivered a cancel or a replacement of it may have been in its partition, in vain; what comes from another
	// partition is not judged so. It takes a caller that says when requests were seen (Observe), or a Survey, which goes by timestamps. Zero is no bound.
	InTime time.Duration
	// Keep is how many faults of each kind are kept in full. Defaults to 10.
	Keep int
	// Survey makes it a check of what others have requested, in topics that need not be whole. Nil: a test knows all.
	Survey Survey
}

// Route is a delay topic and what may be asked for in it.
type Route struct {
	Topic string
	// TopicID tells the processor's own records from what others wrote in their likeness. A Watch asks the cluster for it; when
	// zero, any topic id is believed.
	TopicID [16]byte
	// Group is the processor's. What another group wrote into the delay topic for itself is passed over, and asks for nothing of
	// this one. Empty: there is only one.
	Group string
	// Target is where requests go that name no target topic. Empty: they must name one.
	Target string
	// Delay makes the due time of every request: its timestamp plus Delay. Zero: requests carry their due time.
	Delay time.Duration
	// Now is what time it is for a Delay: a timestamp that is ahead of it by more than a second counts as now, when the request
	// is read, which must be within a second. Nil: no timestamp is ahead.
	Now func() time.Time
	// Allow are the target topics that requests may name; * stands for any run of characters. Target is always allowed.
	Allow []string
	// MaxDelay is how far ahead a request may be due. Zero is no bound.
	MaxDelay time.Duration
	// DeadLetter defaults to Topic + ".dead".
	DeadLetter string
	// Emit says which emitted headers delivered records carry: "source" (also if empty), "all" or "none". With none they are known
	// by their content alone.
	Emit string
	// Timestamp is which timestamp delivered records get where brokers do not write their own: "fired" (also if empty), when they are delivered,
	// "due", or "original", that of the request. With the last two only delay-fired says when a record was delivered.
	Timestamp string
	// Partitioner is how the partition of a delivered record is chosen that asks for none.
	Partitioner Partitioner
	// Prefix begins the names of the processor's headers. Empty: delay-.
	Prefix string
	// Tools are the tools whose headers may ask for a delay or name a target, as headers.aliases has them. Nil: what is usual on such a route.
	Tools []string
	// Jitter is what is added to due times at most. How much it is follows from the place of a record, and from TopicID.
	Jitter time.Duration
	// ExpireAfter is how long after it was due a record may be delivered; later it must be dead-lettered. Zero is no bound.
	ExpireAfter time.Duration
	// PutOff is for how long a record is put off at most whose target is in trouble. Zero is no bound. It is a Survey that goes by timestamps; a test has Config.Retries.
	PutOff time.Duration
	// Retry makes it a topic for records that consumers have failed to process. Their timestamps are not ahead of the clock.
	Retry *Retry
	// CancelsAnswered says that a cancel in vain is dead-lettered. ReplacesLate, that a replacement in vain is delivered.
	CancelsAnswered, ReplacesLate bool
	// Keyed says that the id of a request is its key, and that one without a value cancels. OnDuplicate, what becomes of one whose id is pending.
	Keyed       bool
	OnDuplicate OnDuplicate
	// Remember is for how long after it was due a delivered request keeps others with its id from being delivered. Zero: it does not.
	Remember time.Duration
	// Unseen says, in a Survey, that the topic is not there or may not be looked at: what has arrived of it is not judged.
	Unseen bool
	// Expect says what must become of a request. Defaults to what its headers say.
	Expect func(r *kgo.Record) Expectation
}

// Values of Route.Emit.
const (
	emitAll  = "all"
	emitNone = "none"
)

// Values of Route.Timestamp.
const (
	timestampDue      = "due"
	timestampOriginal = "original"
)

// Target is a topic in which requests arrive.
type Target struct {
	Topic string
	// Partitions is how many there are: a record with a key must be in the partition that Java's producer would choose. Zero:
	// any partition is right, unless one was asked for. A Watch does not fill it in, as partitions may be added.
	Partitions int
	// MaxBytes is its max.message.bytes. Zero: nothing is too large.
	MaxBytes int
	// MayVanish says that it is deleted meanwhile: its records may be delivered or dead-lettered. What a Watch has not read
	// when the topic is deleted is missing to it; settle it before.
	MayVanish bool
	// MayRefuse says that it refuses some records for what they are: its records may be delivered or dead-lettered for that.
	MayRefuse bool
}

// Outcome is what must become of a request.
type Outcome uint8

// Outcomes.
const (
	Ignore     Outcome = iota // it is no request
	Deliver                   // it must be delivered
	DeadLetter                // it must be dead-lettered
	Either                    // one of both
	Cancel                    // it cancels what it names, and nothing is delivered for it
)

// Expectation is what must become of one request.
type Expectation struct {
	Outcome   Outcome
	Due       int64  // epoch ms, rounded up
	OrLater   bool   // Due is the earliest that it may be
	Target    string // topic
	Key       []byte // of the delivered record; nil is null
	Partition int32  // asked for in the target topic; negative is none
	Codes     Codes  // acceptable reasons of a dead letter; zero is any
	Names     Source // what it cancels, or takes the place of; the zero Source is nothing
	NamesDue  int64  // when that is due
	ID        string // its id, or that which a cancel names; empty is none
	NamesID   bool   // it cancels what has that id, or takes the place of it

	unread    bool // the partition that it asks for is none at all, or it expires before it is due
	dueUnread bool // when it is due is not known
	fine      bool // of a Survey: as things are now it can be delivered
}

// Codes is a set of reasons for which a request is dead-lettered.
type Codes uint32

// The reasons, as __delay.errors.code names them.
const (
	NoDue Codes = 1 << iota
	UnparsableDue
	DueOutOfRange
	NoTarget
	TargetNotAllowed
	UnknownTarget
	TooLarge
	TooFarAhead
	UnsupportedHeader
	InvalidTarget
	InvalidPartition
	Rejected
	ForbiddenTarget
	WrongPartition
	TooLate
	UnknownHandle
	InvalidExpiry
	Expired
	InvalidAttempt
	Exhausted
	InvalidID
	DuplicateID
	otherCode
)

var codeNames = []string{
	"no_due", "unparsable_due", "due_out_of_range", "no_target", "target_not_allowed", "unknown_target", "too_large",
	"too_far_ahead", "unsupported_header", "invalid_target", "invalid_partition",
	"rejected", "forbidden_target", "wrong_partition", "too_late", "unknown_handle", "invalid_expiry", "expired",
	"invalid_attempt", "attempts_exhausted", "invalid_id", "duplicate_id", "other",
}

func codeOf(name []byte) Codes {
	for i, n := range codeNames {
		if string(name) == n {
			return 1 << i
		}
	}
	return otherCode
}

func (c Codes) String() string {
	if c == 0 {
		return "any"
	}
	var names []string
	for i, n := range codeNames {
		if c&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, " or ")
}

func (c *Config) fill() {
	if c.Keep == 0 {
		c.Keep = 10
	}
	c.Routes = append([]Route(nil), c.Routes...)
	for i := range c.Routes {
		if c.Routes[i].DeadLetter == "" {
			c.Routes[i].DeadLetter = c.Routes[i].Topic + ".dead"
		}
	}
}

func (c *Config) validate() error {
	var problems []error
	if len(c.Routes) == 0 {
		problems = append(problems, errors.New("no routes"))
	}
	use := make(map[string]string)
	claim := func(topic, as string) {
		if other, ok := use[topic]; ok && other != as {
			problems = append(problems, fmt.Errorf("topic %q is both %s and %s", topic, other, as))
		}
		use[topic] = as
	}
	for _, r := range c.Routes {
		if use[r.Topic] == "delay topic" {
			problems = append(problems, fmt.Errorf("delay topic %q named twice", r.Topic))
		}
		claim(r.Topic, "delay topic")
		claim(r.DeadLetter, "dead-letter topic")
		if r.Retry != nil && r.Retry.Parking != "" {
			claim(r.Retry.Parking, "dead-letter topic")
		}
	}
	for _, t := range c.Targets {
		claim(t.Topic, "target topic")
	}
	if len(problems) > 0 {
		return fmt.Errorf("check: %w", errors.Join(problems...))
	}
	return nil
}
