package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Severity is how bad a Problem is.
type Severity int

const (
	// Note: nothing is wrong; this is what a setting comes to.
	Note Severity = iota
	// Warning: a fault of a broker could lose records, or some record could
	// not be delivered.
	Warning
	// Error: records are lost or stuck without any fault.
	Error
)

func (s Severity) String() string { return [...]string{"note", "warning", "error"}[s] }

// MarshalText writes the severity as a word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ByCreate is what mends that a topic is missing which [Create] makes.
const ByCreate = "duewheel topics create"

// Problem is something about a topic that is not as it should be, or is worth a note.
type Problem struct {
	Severity Severity `json:"severity"`
	Topic    string   `json:"topic"` // empty: all of them
	What     string   `json:"what"`  // what is so
	Why      string   `json:"why"`   // what comes of it
	Mend     string   `json:"mend"`  // a command
}

func (p Problem) String() string {
	of := ""
	if p.Topic != "" {
		of = "topic " + p.Topic + ": "
	}
	return fmt.Sprintf("%s: %s%s: %s (%s)", p.Severity, of, p.What, p.Why, p.Mend)
}

// Check looks at the topics of a configuration and says what is wrong, the
// errors first. The error tells that it could not look.
func Check(ctx context.Context, adm Admin, want Expect) ([]Problem, error) {
	delay, dead := want.names()
	targets := want.targets()
	all, brokers, err := look(ctx, adm, slices.Concat(delay, dead, want.audit(), targets))
	if err != nil {
		return nil, err
	}
	if err := lookInto(ctx, adm, slices.Concat(delay, dead, want.audit(), targets), all); err != nil {
		return nil, err
	}
	x := examination{want: want, brokers: brokers, facts: all}
	for _, r := range want.Routes {
		x.delayTopic(r)
	}
	for _, topic := range dead {
		x.deadLetterTopic(topic)
	}
	for _, topic := range want.audit() {
		x.auditTopic(topic)
	}
	for _, topic := range targets {
		x.target(topic)
	}
	slices.SortStableFunc(x.problems, func(a, b Problem) int { return int(b.Severity) - int(a.Severity) })
	return x.problems, nil
}

// targets returns the targets that are named without *.
func (want *Expect) targets() (names []string) {
	for _, r := range want.Routes {
		for name, allowed := range r.allowed {
			if allowed && r.Allowed([]byte(name)) {
				names = append(names, name)
			}
		}
	}
	return unique(names)
}

// examination is one call of Check.
type examination struct {
	want     Expect
	brokers  int
	facts    map[string]facts
	problems []Problem
}

func (x *examination) report(s Severity, topic, mend, what, why string) {
	x.problems = append(x.problems, Problem{Severity: s, Topic: topic, What: what, Why: why, Mend: mend})
}

func (x *examination) bootstrap() string {
	if x.want.Bootstrap == "" {
		return "$BROKERS"
	}
	return x.want.Bootstrap
}

// set is the command that changes a setting.
func (x *examination) set(topic, name, value string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s=%s",
		x.bootstrap(), topic, name, value)
}

func (x *examination) delayTopic(r *Route) {
	f, ok := x.present(r.Topic, Error, ByCreate, "nothing can be delayed", unchecked)
	if !ok {
		return
	}
	if policy, ok := f.settings["cleanup.policy"]; ok && policy != "delete" {
		x.report(Error, r.Topic, x.set(r.Topic, "cleanup.policy", "delete"),
			"cleanup.policy is "+policy, "compaction removes records that are not delivered yet")
	}
	x.retention(r, f)
	x.retentionBySize(r.Topic, f)
	x.durability(r.Topic, f)
	x.rights(r.Topic, Error, f, kadm.OpRead, kadm.OpWrite)
	if r.Trim != nil && *r.Trim || r.Trim == nil && f.keepsAll() {
		x.mayTrim(r.Topic, f)
	}
	if r.Retry != nil {
		x.loop(r, f)
	}
	if r.Partitioner == PartitionerSource {
		x.keptNumbers(r, f)
	}
}

// keptNumbers: where a record keeps the number of its partition, each target has as many.
func (x *examination) keptNumbers(r *Route, f facts) {
	one := Expect{Routes: []*Route{r}}
	for _, target := range one.targets() {
		if has := x.facts[target].partitions; has > 0 && has < f.partitions {
			x.report(Warning, target, fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d", x.bootstrap(), target, f.partitions),
				fmt.Sprintf("it has %s, and the delay topic %s %d", Plural(has, "partition"), r.Topic, f.partitions),
				"partitioner is source_partition: what is requested in a partition that the target does not have is dead-lettered")
		}
	}
}

// loop: what a record needs to go from a consumer that fails to the retry topic and back, again and again.
func (x *examination) loop(r *Route, f facts) {
	if kind, ok := f.settings[timestampType]; ok && kind != logAppend {
		x.report(Warning, r.Topic, x.set(r.Topic, timestampType, logAppend), timestampType+" is "+kind,
			"what writes a failed record keeps its old timestamp, so when it came is not known, and each retry is written once more")
	}
	if f.partitions == 1 {
		x.report(Warning, r.Topic, fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions 12", x.bootstrap(), r.Topic),
			"it has 1 partition", "one replica alone can work on it; Kafka Connect makes its dead letter queue so")
	}
	takes, ok := f.number("max.message.bytes")
	for _, target := range x.want.retried(r.Topic).targets() {
		if n, known := x.facts[target].number("max.message.bytes"); ok && known && takes < n+DeadLetterRoom {
			x.report(Warning, r.Topic, x.set(r.Topic, "max.message.bytes", strconv.FormatInt(n+DeadLetterRoom, 10)),
				fmt.Sprintf("max.message.bytes is %d, and %d of the target %s", takes, n, target),
				"a large record that fails does not fit with the headers that say why, and leaves the loop: Kafka Connect drops it with an error in its log only")
		}
	}
}

func (x *examination) deadLetterTopic(topic string) {
	f, ok := x.present(topic, Error, ByCreate, "a record that cannot be delivered holds up its partition", unchecked)
	if !ok {
		return
	}
	if policy, ok := f.settings["cleanup.policy"]; ok && strings.Contains(policy, "compact") {
		x.report(Error, topic, x.set(topic, "cleanup.policy", "delete"),
			"cleanup.policy is "+policy, "it refuses records without a key, and keeps only the last one of each key")
	}
	var need int64
	for _, d := range x.want.delayTopicsOf(topic) {
		n, _ := x.facts[d].number("max.message.bytes")
		need = max(need, n+DeadLetterRoom)
	}
	if n, ok := f.number("max.message.bytes"); ok && n < need {
		x.report(Error, topic, x.set(topic, "max.message.bytes", strconv.FormatInt(need, 10)),
			fmt.Sprintf("max.message.bytes is %d", n),
			fmt.Sprintf("a large dead letter is cut down; it takes %d, 64 KiB more than its delay topics", need))
	}
	x.durability(topic, f)
	x.rights(topic, Error, f, kadm.OpWrite)
}

const (
	// auditMost is more than the largest record of an audit topic takes: 512 bytes of a message and 256 of an id, each maybe escaped by six, and names.
	auditMost = 8 << 10
	// auditBatch is so small a batch that what a turn tells goes in many, one after the other.
	auditBatch = 128 << 10
	// auditShortest is a time so short that an outcome may be gone before it is asked for.
	auditShortest = 24 * time.Hour
)

// auditTopic: it may be compacted, which keeps the outcome of each request.
func (x *examination) auditTopic(topic string) {
	f, ok := x.present(topic, Error, ByCreate, "nothing is delivered until it can be told there", unchecked)
	if !ok {
		return
	}
	if f.settings["cleanup.policy"] == "compact" {
		x.report(Warning, topic, x.set(topic, "cleanup.policy", "[compact,delete]"),
			"cleanup.policy is compact", "the outcome of each request is kept for ever, and the topic grows with all requests that ever were")
	}
	if n, ok := f.number("retention.ms"); ok && n >= 0 && n < auditShortest.Milliseconds() && f.settings["cleanup.policy"] != "compact" {
		x.report(Warning, topic, x.set(topic, "retention.ms", auditRetention), fmt.Sprintf("retention.ms is %d", n),
			"what became of a request is known for "+FormatDelay(time.Duration(n)*time.Millisecond)+" only")
	}
	if n, ok := f.number("retention.bytes"); ok && n >= 0 && f.settings["cleanup.policy"] != "compact" {
		x.report(Warning, topic, x.set(topic, "retention.bytes", "-1"),
			fmt.Sprintf("retention.bytes is %d", n), "for how long it is known what became of a request depends on how many there are")
	}
	switch n, ok := f.number("max.message.bytes"); {
	case ok && n < auditMost:
		x.report(Error, topic, x.set(topic, "max.message.bytes", strconv.Itoa(1<<20)),
			fmt.Sprintf("max.message.bytes is %d", n), fmt.Sprintf("a record may take %d, and nothing is delivered until it can be told there", auditMost))
	case ok && n < auditBatch:
		x.report(Warning, topic, x.set(topic, "max.message.bytes", strconv.Itoa(1<<20)),
			fmt.Sprintf("max.message.bytes is %d", n), "what a transaction tells goes in many batches, one after the other")
	}
	if f.settings["compression.type"] == "uncompressed" {
		x.report(Warning, topic, x.set(topic, "compression.type", "zstd"),
			"compression.type is uncompressed", "its records are much alike, and take several times the room on disk")
	}
	x.auditPartitions(topic, f)
	x.durability(topic, f)
	x.rights(topic, Error, f, kadm.OpWrite)
}

// auditPartitions: a record at least is told of each request.
func (x *examination) auditPartitions(topic string, f facts) {
	most := 0
	for _, r := range x.want.Routes {
		most = max(most, x.facts[r.Topic].partitions)
	}
	if f.partitions == 1 && most > 1 {
		x.report(Warning, topic, fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --alter --topic %s --partitions %d", x.bootstrap(), topic, most),
			"it has 1 partition, and a delay topic "+strconv.Itoa(most), "one broker takes what is told of all requests")
	}
}

func (x *examination) target(topic string) {
	create := fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --create --topic %s", x.bootstrap(), topic)
	if f, ok := x.present(topic, Warning, create, "records for it cannot be delivered", "what it takes is found out by trial: each record that is too large for it costs some transactions"); ok {
		x.rights(topic, Warning, f, kadm.OpWrite)
	}
}

// unchecked is what follows where the settings of a topic cannot be read that is ours.
const unchecked = "retention and durability are not checked"

// present reports a topic that cannot be used at all, and one of which it is not known how it is set, and what follows from that.
func (x *examination) present(topic string, s Severity, create, why, unseen string) (facts, bool) {
	f, listed := x.facts[topic]
	switch {
	case !listed || errors.Is(f.missing, kerr.UnknownTopicOrPartition):
		x.report(s, topic, create, "it does not exist", why)
		return f, false
	case errors.Is(f.missing, kerr.TopicAuthorizationFailed):
		x.report(s, topic, x.allow(topic, "Describe"), "duewheel may not describe it", why)
		return f, false
	case f.missing != nil:
		x.report(s, topic, fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --describe --topic %s", x.bootstrap(), topic), f.missing.Error(), why)
		return f, false
	}
	if f.leaderless > 0 {
		x.report(Error, topic, fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --describe --unavailable-partitions --topic %s", x.bootstrap(), topic),
			fmt.Sprintf("%d of %d partitions have no leader", f.leaderless, f.partitions), "they can be neither read nor written")
	}
	if f.unreadable != nil {
		mend := "duewheel topics check" // again: a broker that has not heard of the topic yet will
		if errors.Is(f.unreadable, kerr.TopicAuthorizationFailed) {
			mend = x.allow(topic, "DescribeConfigs")
		}
		x.report(Warning, topic, mend, "its configuration cannot be read: "+f.unreadable.Error(), unseen)
	}
	return f, true
}

// rights reports what we may not do. Records of ours are written to the delay
// topic, too.
func (x *examination) rights(topic string, s Severity, f facts, need ...kadm.ACLOperation) {
	for _, op := range need {
		if len(f.rights) > 0 && !slices.Contains(f.rights, op) {
			word := "read"
			if op == kadm.OpWrite {
				word = "write"
			}
			x.report(s, topic, x.allow(topic, strings.ToUpper(word[:1])+word[1:]), "duewheel may not "+word+" it", "its records are stuck")
		}
	}
}

// mayTrim: what is delivered is deleted by us, or by nothing.
func (x *examination) mayTrim(topic string, f facts) {
	if len(f.rights) > 0 && !slices.Contains(f.rights, kadm.OpDelete) {
		x.report(Warning, topic, x.allow(topic, "Delete"), "duewheel may not delete from it", "it is not trimmed, and grows for as long as its retention lets it")
	}
}

// allow is the command that gives a right.
func (x *examination) allow(topic, operation string) string {
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:<name> --operation %s --topic %s",
		x.bootstrap(), operation, topic)
}

// durability: what an acknowledged write must survive.
func (x *examination) durability(topic string, f facts) {
	if enough := min(3, x.brokers); f.replication < enough {
		x.report(Warning, topic, fmt.Sprintf("kafka-reassign-partitions.sh --bootstrap-server %s --execute --reassignment-json-file <file naming %d replicas for each partition>", x.bootstrap(), enough),
			fmt.Sprintf("it has %s", Plural(f.replication, "replica")), "a broker that is lost takes records along")
	}
	n, ok := f.number("min.insync.replicas")
	switch insync := int(n); {
	case !ok:
	case insync > f.replication:
		x.report(Error, topic, x.set(topic, "min.insync.replicas", strconv.Itoa(max(1, f.replication-1))),
			fmt.Sprintf("min.insync.replicas is %d of %s", insync, Plural(f.replication, "replica")), "nothing can be written")
	case insync < 2 && f.replication >= 3:
		x.report(Warning, topic, x.set(topic, "min.insync.replicas", "2"),
			fmt.Sprintf("min.insync.replicas is %d", insync), "a write may be acknowledged by one broker alone and be lost with it")
	case insync == f.replication && f.replication > 1:
		x.report(Warning, topic, x.set(topic, "min.insync.replicas", strconv.Itoa(f.replication-1)),
			fmt.Sprintf("min.insync.replicas is %d of %d replicas", insync, f.replication), "nothing can be written while any broker is down")
	}
	if f.settings["unclean.leader.election.enable"] == "true" {
		x.report(Warning, topic, x.set(topic, "unclean.leader.election.enable", "false"),
			"unclean.leader.election.enable is true", "an election may drop acknowledged records")
	}
}

// Plural is so many of what a noun names: 1 record, 2 records.
func Plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
