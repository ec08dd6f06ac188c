package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/topics"
)

// askFor adds to an error which right is missing for topics.
func askFor(right string, err error, topics ...string) error {
	if !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return err
	}
	return fmt.Errorf("%w: ask for the right to %s %s (kafka-acls.sh --add --operation %[2]s --topic %[4]s)", err, right, strings.Join(topics, ", "), strings.Join(topics, " --topic "))
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

// askOfGroup adds to an error which right to a group is missing, for whatever it is that was to be done with it.
func askOfGroup(right string, err error, group string) error {
	if !errors.Is(err, kerr.GroupAuthorizationFailed) {
		return err
	}
	return fmt.Errorf("%w: ask for the right to %s the group %s (kafka-acls.sh --add --operation %[2]s --group %[3]s)", err, right, group)
}

// listTopics describes topics, each with an error of its own: where we lack a right to one of them, kadm answers for none.
func listTopics(ctx context.Context, adm *patient, names ...string) (kadm.TopicDetails, error) {
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

// ownRights reports what a replica may not do with its group, and with the transactional ids that begin with it: what brokers say of that to those who write nothing.
func ownRights(ctx context.Context, cl *kgo.Client, s settings) (problems []topics.Problem, err error) {
	report := func(severity topics.Severity, what, why, resource string) {
		problems = append(problems, topics.Problem{Severity: severity, What: what, Why: why,
			Mend: fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:<name> %s", strings.Join(s.Brokers, ","), resource)})
	}
	switch err := newPatient(cl).try(ctx, func(ctx context.Context) error { return mayRead(ctx, cl, s.Group) }); {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		report(topics.Error, "duewheel may not read the group "+s.Group, "no replica can join it, so nothing is delivered", "--operation Read --group "+s.Group)
	case err != nil:
		return nil, fmt.Errorf("ask as a member of group %s: %w", s.Group, err)
	}
	severity, why := topics.Error, "no transaction can begin, so nothing is delivered"
	if s.Guarantee == processor.AtLeastOnce {
		severity, why = topics.Warning, "brokers do not tell what time it is, so a clock of this machine that is wrong makes records early or late"
	}
	id := producer.IDsOf(producer.Writer(s.Group, cmp.Or(s.InstanceID, "check"), 0))[0]
	err = describeTransaction(ctx, cl, id)
	if err == nil || errors.Is(err, kerr.TransactionalIDNotFound) || errors.Is(err, kerr.UnsupportedVersion) { // who may describe them may not write them for that
		err = newPatient(cl).try(ctx, func(ctx context.Context) error { return mayEnd(ctx, cl, id) })
	}
	switch {
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		report(severity, "duewheel may not write transactional ids that begin with "+s.Group+"-", why, "--operation Write --resource-pattern-type prefixed --transactional-id "+s.Group+"-")
	case err != nil:
		return problems, fmt.Errorf("ask as a producer with transactional id %s: %w", id, err)
	}
	return problems, nil
}

// describeTransaction returns what the coordinator of a transactional id answers who asks for it. Who asks first on a new cluster has brokers make the
// topic of transactions, which takes them a moment.
func describeTransaction(ctx context.Context, cl *kgo.Client, id string) error {
	adm := newPatient(cl)
	return adm.try(ctx, func(ctx context.Context) error {
		all, err := adm.DescribeTransactions(ctx, id)
		return cmp.Or(err, all[id].Err)
	})
}

// mayRead reports whether we may join a group, by the heartbeat of a member that no group has: it needs the same right, and changes nothing. Brokers
// that describe a group which does not exist yet, as before the first replica starts, do not say what we may do with it.
func mayRead(ctx context.Context, cl *kgo.Client, group string) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, "duewheel-topics-check", -1
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.GroupIDNotFound):
		return nil
	default:
		return err
	}
}

// mayEnd reports whether we may write a transactional id, by the end of a transaction of a producer that no id has: it needs the same right, and changes nothing.
func mayEnd(ctx context.Context, cl *kgo.Client, id string) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, -1, -1
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); !errors.Is(err, kerr.InvalidProducerIDMapping) {
		return err
	}
	return nil
}
