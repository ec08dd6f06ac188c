package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// DeadLetterRoom is how much more than its delay topics a dead letter topic
// must take in one record: the headers that say what was wrong.
const DeadLetterRoom = 64 << 10

// Expect is what the topics of a configuration should be.
type Expect struct {
	// Routes name the delay topics, dead letter topics and targets.
	Routes []*Route

	// Audit is the topic for what becomes of requests; "" is none.
	Audit string

	// Partitions is how many Create gives a delay topic: as many lanes can
	// share it. It cannot be lowered later. Defaults to 12.
	Partitions int32

	// Replication is how many replicas Create gives each partition. Defaults to
	// three, or as many as there are brokers.
	Replication int16

	// MaxMessageBytes is the largest record that Create lets a delay topic
	// take. Zero means the broker's default.
	MaxMessageBytes int

	// CarryRecords is how many records a process carries in a second; 0: that is not said. Check says what it comes to.
	CarryRecords int

	// Bootstrap is what the commands in a Problem name as the broker address.
	// Defaults to $BROKERS.
	Bootstrap string
}

// Created is a topic that Create made, or that was there, as it is: brokers may
// make something else than they were asked for.
type Created struct {
	Topic       string
	Existed     bool  // and was left as it is
	Partitions  int32 // this, and what follows, as asked for where it may not be looked at
	Replication int16
	Configs     map[string]string // what was set
}

// Create makes the delay topics, dead letter topics and the audit topic that are missing, as
// Check wants them, and waits until they can be used. It changes nothing about a
// topic that is there, and makes no targets. What was made is returned with an
// error, too.
func Create(ctx context.Context, adm Admin, want Expect) ([]Created, error) {
	delay, dead := want.names()
	all, brokers, err := look(ctx, adm, slices.Concat(delay, dead, want.audit()))
	if err != nil {
		return nil, err
	}
	c := creation{adm: adm, facts: all, replication: want.Replication}
	if c.replication == 0 {
		c.replication = int16(min(3, brokers))
	}
	limit := map[string]string{}
	if want.MaxMessageBytes > 0 {
		limit["max.message.bytes"] = strconv.Itoa(want.MaxMessageBytes)
	}
	partitions := want.Partitions
	if partitions == 0 {
		partitions = 12
	}
	for _, topic := range delay {
		set := maps.Clone(limit)
		if loop := want.retried(topic); len(loop.Routes) > 0 {
			set[timestampType] = logAppend
			if n := loop.takes(ctx, adm); n > 0 && want.MaxMessageBytes == 0 {
				set["max.message.bytes"] = strconv.FormatInt(n+DeadLetterRoom, 10)
			}
		}
		c.create(ctx, topic, partitions, set)
	}
	if c.err != nil {
		return c.made, c.err // the dead letter topics follow from these
	}
	for _, topic := range dead {
		if c.exists(topic) {
			c.made = append(c.made, c.existing(topic))
			continue
		}
		largest, err := largest(ctx, adm, want.delayTopicsOf(topic))
		if err != nil {
			c.err = errors.Join(c.err, err)
			continue
		}
		// Few records, and none is in a hurry: one partition keeps them in order.
		c.create(ctx, topic, 1, map[string]string{"max.message.bytes": strconv.Itoa(largest + DeadLetterRoom)})
	}
	for _, topic := range want.audit() {
		c.create(ctx, topic, partitions, map[string]string{"retention.ms": auditRetention, "compression.type": "zstd"})
	}
	return c.made, errors.Join(c.err, c.settle(ctx))
}

// names returns the delay topics and the dead letter topics, each once.
func (want *Expect) names() (delay, dead []string) {
	for _, r := range want.Routes {
		delay, dead = append(delay, r.Topic), append(dead, r.LetterBoxes()...)
	}
	return unique(delay), unique(dead)
}

// auditRetention is 30 days: for that long it can be asked what became of a request.
const auditRetention = "2592000000"

// audit is the audit topic, if there is one.
func (want *Expect) audit() []string {
	if want.Audit == "" {
		return nil
	}
	return []string{want.Audit}
}

const (
	timestampType = "message.timestamp.type"
	logAppend     = "LogAppendTime"
)

// retried is about the retry routes of one delay topic alone, or of all.
func (want *Expect) retried(topic string) *Expect {
	return &Expect{Routes: slices.DeleteFunc(slices.Clone(want.Routes), func(r *Route) bool { return r.Retry == nil || topic != "" && r.Topic != topic })}
}

// takes is the largest record that any of the targets takes which are named without * and are there; 0 when that is not known.
func (want *Expect) takes(ctx context.Context, adm Admin) (most int64) {
	all := make(map[string]facts)
	_ = lookInto(ctx, adm, want.targets(), all) // what is not there yet may be made later
	for _, f := range all {
		n, _ := f.number("max.message.bytes")
		most = max(most, n)
	}
	return most
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

func (want *Expect) delayTopicsOf(deadLetter string) (delay []string) {
	for _, r := range want.Routes {
		if slices.Contains(r.LetterBoxes(), deadLetter) {
			delay = append(delay, r.Topic)
		}
	}
	return delay
}

// creation is one call of Create.
type creation struct {
	adm         Admin
	facts       map[string]facts
	replication int16
	made        []Created
	err         error
}

func (c *creation) exists(topic string) bool {
	f, ok := c.facts[topic]
	return ok && f.missing == nil
}

func (c *creation) existing(topic string) Created {
	f := c.facts[topic]
	return Created{Topic: topic, Existed: true, Partitions: int32(f.partitions), Replication: int16(f.replication)}
}

// create makes one topic, with what both kinds need and with more.
func (c *creation) create(ctx context.Context, topic string, partitions int32, more map[string]string) {
	if c.exists(topic) {
		c.made = append(c.made, c.existing(topic))
		return
	}
	set := map[string]string{
		"cleanup.policy":                 "delete",
		"retention.ms":                   "-1",
		"retention.bytes":                "-1",
		"min.insync.replicas":            strconv.Itoa(int(min(2, max(1, c.replication-1)))),
		"unclean.leader.election.enable": "false",
	}
	maps.Copy(set, more)
	configs := make(map[string]*string, len(set))
	for k, v := range set {
		configs[k] = &v
	}
	r, err := c.adm.CreateTopic(ctx, partitions, c.replication, configs, topic)
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists): // made by another process since
		c.made = append(c.made, Created{Topic: topic, Existed: true})
	case err != nil:
		if r.ErrMessage != "" {
			err = fmt.Errorf("%w: %s", err, r.ErrMessage)
		}
		if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
			err = fmt.Errorf("%w: ask for the right to Create it, or to Describe it where it is there already", err)
		}
		c.err = errors.Join(c.err, fmt.Errorf("create topic %s: %w", topic, err))
	default:
		c.made = append(c.made, Created{Topic: topic, Partitions: partitions, Replication: c.replication, Configs: set})
	}
}

// settle waits until what was made is known and has leaders, since the broker
// that answers a create is not the one that answers next, and notes what it is.
func (c *creation) settle(ctx context.Context) error {
	var topics []string
	for _, t := range c.made {
		if !c.exists(t.Topic) {
			topics = append(topics, t.Topic)
		}
	}
	var all map[string]facts
	err := untilKnown(ctx, func() (err error) {
		all, _, err = look(ctx, c.adm, topics)
		if err != nil {
			return err
		}
		for _, topic := range topics {
			if f := all[topic]; f.missing != nil || f.partitions == 0 || f.leaderless > 0 {
				return fmt.Errorf("topic %s was made and cannot be used yet: %w", topic, cmp.Or(f.missing, error(kerr.LeaderNotAvailable)))
			}
		}
		return nil
	})
	if err == nil {
		err = untilKnown(ctx, func() error { return lookInto(ctx, c.adm, topics, all) })
	}
	for i := range c.made {
		if f, ok := all[c.made[i].Topic]; ok && f.missing == nil {
			c.made[i].becomes(f)
		}
	}
	return err
}

// becomes notes what the cluster says of a topic that was not there before.
func (t *Created) becomes(f facts) {
	t.Partitions, t.Replication = int32(f.partitions), int16(f.replication)
	for name := range t.Configs {
		if is, ok := f.settings[name]; ok {
			t.Configs[name] = is
		}
	}
}

// untilKnown tries again for some seconds while brokers have not heard of a topic.
func untilKnown(ctx context.Context, try func() error) error {
	for attempt := 0; ; attempt++ {
		err := try()
		if err == nil || attempt == 100 || !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.LeaderNotAvailable) {
			return err
		}
		again := time.NewTimer(50 * time.Millisecond)
		select {
		case <-ctx.Done():
			again.Stop()
			return errors.Join(err, ctx.Err())
		case <-again.C:
		}
	}
}

// largest returns the largest record that any of the topics takes.
func largest(ctx context.Context, adm Admin, topics []string) (n int, err error) {
	err = untilKnown(ctx, func() error {
		n, err = askLargest(ctx, adm, topics)
		return err
	})
	return n, err
}

func askLargest(ctx context.Context, adm Admin, topics []string) (int, error) {
	all := make(map[string]facts)
	if err := lookInto(ctx, adm, topics, all); err != nil {
		return 0, err
	}
	most := 0
	for _, topic := range topics { // so that of several the first is named
		f := all[topic]
		switch {
		case errors.Is(f.unreadable, kerr.UnknownTopicOrPartition):
			return 0, fmt.Errorf("topic %s was made and cannot be used yet; try again: %w", topic, f.unreadable)
		case f.unreadable != nil:
			return 0, fmt.Errorf("read configuration of %s, for which the right to DescribeConfigs may be missing: %w", topic, f.unreadable)
		}
		n, ok := f.number("max.message.bytes")
		if !ok {
			return 0, fmt.Errorf("topic %s: the broker does not tell max.message.bytes", topic)
		}
		most = max(most, int(n))
	}
	return most, nil
}
