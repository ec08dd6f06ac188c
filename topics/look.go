package topics

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Admin is what topics are looked at and made with: a *kadm.Client, or what asks for longer than that.
type Admin interface {
	Metadata(ctx context.Context, topics ...string) (kadm.Metadata, error)
	BrokerMetadata(ctx context.Context) (kadm.Metadata, error)
	DescribeTopicConfigs(ctx context.Context, topics ...string) (kadm.ResourceConfigs, error)
	CreateTopic(ctx context.Context, partitions int32, replicationFactor int16, configs map[string]*string, topic string) (kadm.CreateTopicResponse, error)
}

// facts are what the cluster says of a topic.
type facts struct {
	missing     error // it does not exist, or may not be seen
	partitions  int
	replication int                 // of the partition with the fewest replicas
	leaderless  int                 // partitions without a leader
	rights      []kadm.ACLOperation // ours; empty when the broker did not tell
	settings    map[string]string
	unreadable  error // why there are no settings
}

// number returns a numeric setting; false when the cluster did not tell.
func (f facts) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(f.settings[name], 10, 64)
	return n, err == nil
}

// look asks for the topics, without their settings, and for the number of
// brokers.
func look(ctx context.Context, adm Admin, topics []string) (map[string]facts, int, error) {
	all := make(map[string]facts, len(topics))
	err := apart(topics, func(topics ...string) error {
		// Asked so, the client does not answer from its cache.
		meta, err := adm.Metadata(kadm.WithAuthorizedOps(ctx), topics...)
		for _, t := range meta.Topics {
			all[t.Topic] = factsOf(t)
		}
		return err
	}, func(topic string, err error) { all[topic] = facts{missing: err} })
	if err != nil {
		return nil, 0, fmt.Errorf("list topics: %w", err)
	}
	brokers, err := adm.BrokerMetadata(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("list brokers: %w", err)
	}
	return all, len(brokers.Brokers), nil
}

func factsOf(t kadm.TopicDetail) facts {
	f := facts{missing: t.Err, partitions: len(t.Partitions), rights: t.AuthorizedOperations}
	for _, p := range t.Partitions {
		if n := len(p.Replicas); f.replication == 0 || n < f.replication {
			f.replication = n
		}
		if p.Leader < 0 {
			f.leaderless++
		}
	}
	return f
}

// lookInto adds the settings of topics to what is known of them.
func lookInto(ctx context.Context, adm Admin, topics []string, all map[string]facts) error {
	note := func(topic string, settings map[string]string, err error) {
		f := all[topic]
		f.settings, f.unreadable = settings, err
		all[topic] = f
	}
	err := apart(topics, func(topics ...string) error {
		rs, err := adm.DescribeTopicConfigs(ctx, topics...)
		for _, r := range rs {
			note(r.Name, settings(r), r.Err)
		}
		return err
	}, func(topic string, err error) { note(topic, nil, err) })
	if err != nil {
		return fmt.Errorf("read configurations: %w", err)
	}
	return nil
}

// settings are a topic's configuration by name.
func settings(r kadm.ResourceConfig) map[string]string {
	m := make(map[string]string, len(r.Configs))
	for _, c := range r.Configs {
		m[c.Key] = c.MaybeValue()
	}
	return m
}

// apart asks for all topics at once. Where we lack a right to one of them, kadm
// answers for none, so then it asks for each, and reports those refused.
func apart(topics []string, ask func(...string) error, refused func(topic string, err error)) error {
	if len(topics) == 0 {
		return nil // kadm takes none for all
	}
	err := ask(topics...)
	var denied *kadm.AuthError
	if !errors.As(err, &denied) {
		return err
	}
	for _, topic := range topics {
		switch err := ask(topic); {
		case errors.As(err, &denied):
			refused(topic, denied.Err)
		case err != nil:
			return err
		}
	}
	return nil
}
