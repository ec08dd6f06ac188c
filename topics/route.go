package topics

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Route is what the configuration says of one delay topic. NewRoutes checks it
// and makes it ready; it does not change from then on, so many goroutines may
// use it.
//
// What has a key is a setting of its own in a configuration file (package processor/setting tells of the tags); what has none follows from other words there.
// Defaults are filled in by what reads the file: here a zero value means what is said beside its field, if that is something else.
type Route struct {
	// Topic is the delay topic. Needed.
	Topic string `key:"topic"`

	// Target is where records go that name no target. Not with a topic as `retry.target`, which says it there.
	Target string `key:"target"`

	// Allow lists the targets that a record may name in `delay-target-topic`: topics, in which `*` is any run of characters. A
	// producer that may write the delay topic can have us write to all of these. Delay topics, dead letter topics and `__*` are never allowed:
	// a pattern does not reach them, and naming one is an error.
	Allow []string `key:"targets.allow" unset:"only the fixed target"`

	// Delay is a fixed delay for every record, counted from its timestamp; a timestamp ahead of the clock counts as the time at which
	// the record was seen. When it is changed or removed, records that wait keep the one that they were written for. Together with
	// `target` such a route needs no headers at all. Not above `max_delay`.
	Delay time.Duration `key:"delay"`

	// MaxDelay is how far ahead records may ask to be due, without the `jitter` of the route. Others are dead-lettered: mostly it is a mistyped unit.
	MaxDelay time.Duration `key:"max_delay" default:"366d"` // zero: no bound

	// DeadLetter is where records go that cannot be delivered. It cannot be a delay topic or a target; several routes may share one.
	DeadLetter string `key:"dead_letter" unset:"the topic's name and .dead"` // "" is no topic

	// Emit says which headers delivered records get. `source`: `delay-due` and `delay-source` (`topic/partition/offset` of the request).
	// `all`: `delay-source-timestamp` and `delay-fired`, too. `none`, for sinks that cannot read plain text headers.
	Emit Emit `key:"headers.emit" default:"source" words:"source all none"`

	// Prefix begins the names of our headers in this topic, those of requests and those that delivered records get: small letters, digits, `-`, `_` and `.`,
	// with one of the last three at its end. Names that begin with it and mean nothing are dead-lettered. `__delay.errors.*` and what duewheel writes into the delay topic for itself keep their names.
	Prefix string `key:"headers.prefix" default:"delay-"` // "" is HeaderPrefix

	// Aliases lists presets of headers of other tools that are understood, which docs/requests.md has: `plain`, `etf1`, `karafka`, `cloudevents`, `spring-retry` say when
	// a record is due, and `connect-dlq`, `spring-dlt`, `streams-dlq`, `share-dlq` where it goes. `none` alone: none. A list takes the place of the usual one.
	Aliases []string `key:"headers.aliases" unset:"plain, etf1, karafka and cloudevents; with retry.target from_headers connect-dlq, spring-dlt, streams-dlq and share-dlq; with delay none" empty:"none"` // nil: the usual ones

	// Partitioner says which partition of its target a delivered record gets that asks for none. `murmur2`: by key, as Java, kafkajs, kafka-python and franz-go choose. `crc32`:
	// by key, as librdkafka does by default, so kcat and confluent-kafka. `source_partition`: the number of the partition in which the request was; what its target does not have is dead-lettered.
	Partitioner Partitioner `key:"partitioner" default:"murmur2" words:"murmur2 crc32 source_partition"`

	// Timestamp says which timestamp delivered records get, where the target's `message.timestamp.type` is CreateTime. `fired`: when it was delivered. `due`: when it was due. `original`: that of the request;
	// a target whose `retention.ms` is shorter than the delay may delete such a record at once.
	Timestamp Timestamp `key:"timestamp" default:"fired" words:"fired due original"`

	// Jitter spreads what is due at one instant: up to so much is added to a due time, a share that follows from the record's partition and
	// offset. A record is delivered that much later than it asked for, also one that asks for no delay (`duewheel deliver-now` goes around that). Handles have the due time that was asked for. Not with `delay` or `retry`, and not above `max_delay`.
	Jitter time.Duration `key:"jitter" unset:"none"`

	// Trim says whether duewheel deletes from the topic what it does not need any more, so that the log stays short. Not where another group reads the topic, nor, unless this is true, where not all groups can be seen (Describe on the cluster and on all groups). It takes the
	// right to Delete the topic.
	Trim *bool `key:"trim" unset:"true where retention.ms and retention.bytes of the topic are -1, as topics create makes it"`

	// Carry says whether what is pending is written again, to the end of its partition, before the topic's retention deletes it, and where it keeps a trimmed log
	// long. What it costs is in docs/sizing.md#carrying. `false`: the topic's `retention.ms` must be longer than any delay. Not with `delay`.
	Carry *bool `key:"carry" unset:"true"`

	// Weight is how much of a turn the route gets when more is due than a turn takes, of other routes, too: one with 3 gets three times as much as one with 1.
	// Its partitions share that equally. What a route does not need is left to the others. 1 to 1000.
	Weight int `key:"weight" default:"1"` // zero: 1

	// ExpireAfter is how long after it was due, however long its delay was, a record is of no use: it is dead-lettered then instead of delivered. `delay-expires` says so
	// of one record.
	ExpireAfter time.Duration `key:"expire_after" unset:"never"`

	// Remember says for how long the id of a delivered record is remembered, from when that was due on: another record with the id that is
	// written until then is dead-lettered, or left out, as if the first one were pending. The delay topic has to keep its records for as much longer. Not with `ids.on_duplicate: replace`.
	Remember time.Duration `key:"ids.remember" unset:"not at all"`

	// CancelsAnswered has a cancel of a handle dead-lettered that comes too late, or names nothing that is pending. Otherwise it is only counted.
	CancelsAnswered bool

	// ReplacesLate has a replacement delivered that comes too late. Otherwise it is dead-lettered.
	ReplacesLate bool

	// Keyed has the key of a record be its id, and one without a value cancel what has that id. Not together with Delay or Retry.
	Keyed bool

	// OnDuplicate is what becomes of a record whose id another one has that is pending. Not together with Delay or Retry.
	OnDuplicate OnDuplicate

	// Retry makes the topic one for records that a consumer has failed to process. It is not together with Delay.
	Retry *Retrying

	parser  Parser
	allowed map[string]bool // literals, and what is denied as false
	globs   []string
}

// Retrying is what a retry route does with a record that a consumer has failed to process, and that was written to the topic as it is: it
// waits, counted from its arrival, and is delivered again. The number of the attempt goes along in delay-attempt, and comes back with
// the record if it fails once more.
type Retrying struct {
	Backoff     Backoff
	FromHeaders bool // the target is in a header: targetHeaders

	// MaxAttempts is how often a record is delivered again before it is parked.
	MaxAttempts int `key:"max_attempts" default:"8"`

	// Parking is where it goes then, with headers that say why. It cannot be a delay topic or a target.
	Parking string `key:"parking" unset:"the dead letter topic"` // "" is the dead letter topic

	// Strip lists headers that delivered records lose, besides `delay-*` and `__delay.errors.*`; `*` is any run of characters. So a record does not grow from trip to trip. `none` alone: none.
	Strip []string `key:"strip" unset:"those of Connect, Spring, Streams and share groups" empty:"none"` // nil: none
}

// SourceHeaders are the headers in which other systems say what topic a failed record was in: Kafka Connect, Spring for Apache Kafka (its
// DeadLetterPublishingRecoverer, and @RetryableTopic), Kafka Streams (KIP-1034) and share groups (KIP-1191).
var SourceHeaders = sourcePresets.sourceNames()

// sourcePresets are those that name no more than a target.
const sourcePresets = presetSet(1<<PresetConnectDLQ | 1<<PresetSpringDLT | 1<<PresetStreamsDLQ | 1<<PresetShareDLQ)

// ErrorHeaders match the headers in which they say why, so that a record does not grow from trip to trip, and in which Spring's @RetryableTopic
// counts: it would give up at once what comes back to it with an old count.
var ErrorHeaders = []string{"__connect.errors.*", "kafka_dlt-*", "kafka_original-*", "kafka_exception-*", "kafka_key-exception-*", "retry_topic-*",
	"springDeserializerException*", "__streams.errors.*", "__dlq.errors.*"}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return Plural(n, "time")
}

// Spec names the parser of this route, for the checkpoint.
func (r *Route) Spec() string {
	spec := r.spec()
	aliases, _ := r.presets()
	return spec + aliasSpec(usualAliasesOf(spec), aliases, r.HeaderPrefix())
}

// spec is Spec without what it says of aliases and prefix.
func (r *Route) spec() string {
	if r.Retry != nil {
		return r.Retry.Backoff.whole().spec()
	}
	if r.Delay > 0 {
		return Spec(r.Delay)
	}
	spec := Spec(0)
	if r.Jitter > 0 {
		spec += "~" + strconv.FormatInt(ceilMillis(r.Jitter), 10)
	}
	ids := Parser{keyed: r.Keyed, onDuplicate: r.OnDuplicate, remember: ceilMillis(r.Remember)}
	return spec + ids.idsSpec()
}

// HeaderPrefix is what the names of our headers begin with.
func (r *Route) HeaderPrefix() string { return cmp.Or(r.Prefix, HeaderPrefix) }

// Header is what a header of ours is called on this route: HeaderUntil, say, with the route's prefix.
func (r *Route) Header(name string) string { return withPrefix(name, r.Prefix) }

// targetHeaders are those that may name the target of a record of a route, in the order in which they count.
func targetHeaders(r *Route) []string {
	return append([]string{r.Header(HeaderTargetTopic)}, r.parser.sources...)
}

// Said is what a record calls a header of ours that it asks by: that of a preset, or with the route's prefix.
func (r *Route) Said(q *Request, name string) string {
	for i := range aliases {
		if aliases[i].Preset == q.Preset && aliases[i].For == name {
			return aliases[i].Name
		}
	}
	return r.Header(name)
}

// Parser returns the parser of this route as it is configured now.
func (r *Route) Parser() *Parser { return &r.parser }

// ParserFor returns the parser that a checkpoint names, with the fixed target
// of this route: a target does not decide a record's key, so the one of today
// holds for older records too.
func (r *Route) ParserFor(spec string) (*Parser, error) {
	p, err := ParserFor(spec)
	if err != nil {
		return nil, err
	}
	p.target, p.sources = r.parser.target, r.parser.sources
	return p, nil
}

// Allowed tells whether a record may be delivered to target. It does not
// allocate.
func (r *Route) Allowed(target []byte) bool {
	if isInternal(target) {
		return false
	}
	if allowed, known := r.allowed[string(target)]; known {
		return allowed
	}
	for _, g := range r.globs {
		if match(g, target) {
			return validTopic(target)
		}
	}
	return false
}

// Carries reports whether what is pending in the topic is carried. Records with a fixed delay never are.
func (r *Route) Carries() bool { return r.kind() != fixedDelay && (r.Carry == nil || *r.Carry) }

// AllowedBy is the entry of Allow that lets records go to target; "": there is none.
func (r *Route) AllowedBy(target string) string {
	for _, a := range r.Allow {
		if match(a, target) {
			return a
		}
	}
	return ""
}

// JudgedAt is the time, in ms, by which Refuse judges how far ahead a record asks to be due: when it was written, if its producer's clock is ahead by no more
// than clocks may differ.
func JudgedAt(r *kgo.Record, nowMillis, skewMillis int64) int64 {
	if written := r.Timestamp.UnixMilli(); written <= nowMillis+skewMillis {
		return max(nowMillis, written)
	}
	return nowMillis
}

// Refuse judges a request by the configuration of today: nil when it may be
// held. It is asked when a record is accepted, and never again in a replay.
func (r *Route) Refuse(q *Request, nowMillis int64) *Refusal {
	why := r.refuse(q, nowMillis)
	if why != nil && q.Due > AtOnce {
		why.Due = q.AskedFor()
	}
	return why
}

func (r *Route) refuse(q *Request, nowMillis int64) *Refusal {
	switch {
	case q.Kind != KindRequest:
		return nil
	case len(q.Target) == 0:
		return r.RefuseTarget(q)
	case r.Retry != nil && !q.Retry && q.Round >= r.Retry.MaxAttempts: // whatever its target: what is refused for that may be carried on, and counts as accepted then
		header, said := "", []byte(nil)
		if q.Round > 0 { // a person may want to take it away
			header, said = r.Header(HeaderAttempt), strconv.AppendInt(nil, int64(q.Round), 10)
		}
		return refuse(CodeExhausted, StageStore, header, said, "it was delivered %s and failed each time", times(q.Round+1))
	case !r.Allowed(q.Target):
		return r.RefuseTarget(q)
	case r.MaxDelay > 0 && r.kind() == byHeader && !q.ByBackoff && r.asked(q)-nowMillis > ceilMillis(r.MaxDelay): // by its jitter, or a clock that is some ms ahead, chance would decide
		return refuse(CodeTooFarAhead, StageStore, "", nil,
			"due at %s, which is more than max_delay %s ahead", format(r.asked(q)), FormatDelay(r.MaxDelay))
	}
	return nil
}

// RefuseTarget judges where a request is to go, by the configuration of today: nil when that is allowed. It is asked again when the time of a request has come;
// how far ahead that was, and how often the record had been delivered, was judged when it was accepted.
func (r *Route) RefuseTarget(q *Request) *Refusal {
	switch {
	case len(q.Target) == 0 && r.Retry != nil:
		return refuse(CodeNoTarget, StageParse, "", nil, "the record has none of %s, and the route %s has no target of its own",
			strings.Join(targetHeaders(r), ", "), r.Topic)
	case len(q.Target) == 0:
		return refuse(CodeNoTarget, StageParse, "", nil,
			"%s is not set, and the route %s has no target of its own", strings.Join(targetHeaders(r), ", "), r.Topic)
	case r.Allowed(q.Target):
		return nil
	case !validTopic(q.Target):
		return refuse(CodeInvalidTarget, StageParse, q.TargetBy, q.Target, "a topic name is "+whatAName)
	}
	return refuse(CodeTargetNotAllowed, StageAuthorize, q.TargetBy, q.Target,
		"the route %s does not allow the target %s", r.Topic, q.Target)
}

// asked is the due time that a producer has asked for, at the latest. What is tried again waits for a pause that nobody has asked for, however long; it was due
// before that, unless it was carried on because it could not be dead-lettered.
func (r *Route) asked(q *Request) int64 {
	if q.Retry {
		return q.Origin.Due - ceilMillis(r.Jitter)
	}
	return q.AskedFor()
}

// Expired judges a request whose time has come, first asked for due: nil when it may still be delivered.
func (r *Route) Expired(q *Request, due, nowMillis int64) *Refusal {
	if q.Expires > 0 && nowMillis > q.Expires {
		return refuse(CodeExpired, StageProduce, r.Said(q, HeaderExpires), strconv.AppendInt(nil, q.Expires, 10), "it expired at %s", format(q.Expires))
	}
	if r.ExpireAfter > 0 && nowMillis-due > ceilMillis(r.ExpireAfter) {
		return refuse(CodeExpired, StageProduce, "", nil, "it was due at %s, and expire_after is %s", format(due), FormatDelay(r.ExpireAfter))
	}
	return nil
}

// LetterBox is the topic for a record that was refused so.
func (r *Route) LetterBox(why *Refusal) string {
	if why.Code == CodeExhausted && r.Retry != nil && r.Retry.Parking != "" {
		return r.Retry.Parking
	}
	return r.DeadLetter
}

// LetterBoxes are all topics that LetterBox may name.
func (r *Route) LetterBoxes() []string {
	if r.Retry != nil && r.Retry.Parking != "" {
		return []string{r.DeadLetter, r.Retry.Parking}
	}
	return []string{r.DeadLetter}
}

// match tells whether name matches pattern, in which * is any run of
// characters. It never looks back further than the last *, so its time is at
// most the product of the lengths.
func match[T ~string | ~[]byte](pattern string, name T) bool {
	p, n := 0, 0
	star, from := -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
