package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// askFor adds to an error which right is missing for topics.
func askFor(right string, err error, topics ...string) error {
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return err
	}
	return fmt.Errorf("%w: ask for the right to %s %s (kafka-acls.sh --add --operation %[2]s --topic %s)", err, right, strings.Join(topics, ", "), strings.Join(topics, " --topic "))
}

// askToWrite adds to an error of a produce which right is missing. To a producer that may write no topic at all brokers refuse the cluster, since
// they give it no id.
func askToWrite(err error, topic string) error {
	if errors.Is(err, kerr.ClusterAuthorizationFailed) {
		return fmt.Errorf("%w: ask for the right to Write %s (kafka-acls.sh --add --operation Write --topic %[2]s), before Kafka 2.8 for IdempotentWrite on the cluster, too", err, topic)
	}
	return askFor("Write", err, topic)
}

// askForGroup adds to an error that the right to look at a group is missing.
func askForGroup(err error, group string) error {
	if !errors.Is(err, kerr.GroupAuthorizationFailed) {
		return err
	}
	return fmt.Errorf("%w: what is pending follows from what the group %s has committed: ask for the right to Describe that group (kafka-acls.sh --add --operation Describe --group %[2]s)", err, group)
}

// listTopics describes topics, each with an error of its own: where we lack a right to one of them, kadm answers for none.
func listTopics(ctx context.Context, adm *kadm.Client, names ...string) (kadm.TopicDetails, error) {
	all, err := adm.ListTopics(ctx, names...)
	var denied *kadm.AuthError
	if !errors.As(err, &denied) {
		return all, err
	}
	all = kadm.TopicDetails{}
	for _, name := range names {
		one, err := adm.ListTopics(ctx, name)
		switch {
		case errors.As(err, &denied):
			all[name] = kadm.TopicDetail{Topic: name, Err: denied.Err}
		case err != nil:
			return nil, err
		default:
			all[name] = one[name]
		}
	}
	return all, nil
}
