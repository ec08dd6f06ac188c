package main

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
	"github.com/duewheel/duewheel/verify"
)

// askingPatience is how long a cluster that has never had a group takes to make __consumer_offsets, or one that has lost a broker to find another
// coordinator, or another leader.
const askingPatience = 15 * time.Second

// patiently asks brokers of which one may be away, or silent: until its answer is no error that passes, or patience is over. The last time it takes as long as it takes.
func patiently[T any](ctx context.Context, adm *kadm.Client, ask func(context.Context) (T, error)) (T, error) {
	type answer struct {
		T   T
		err error
	}
	for end := time.Now().Add(askingPatience); ; {
		over, asking, cancel := time.Now().After(end), ctx, context.CancelFunc(func() {})
		if !over {
			asking, cancel = context.WithTimeout(ctx, kafka.RequestTimeout)
		}
		answered := make(chan answer, 1)
		go func() { // which heeds no ctx while a broker that is frozen is greeted; it ends with the client
			all, err := ask(asking)
			answered <- answer{all, err}
		}()
		var a answer
		select {
		case a = <-answered:
		case <-asking.Done():
			a.err = context.Cause(asking)
		}
		passes := mayPass(a.err) || asking.Err() != nil
		cancel()
		if a.err == nil || !passes || over || !wait.For(ctx, 250*time.Millisecond) {
			return a.T, a.err
		}
		forgetDown(ctx, adm)
	}
}

// forgetDown makes a client learn which brokers there are. It goes on with a coordinator that it has found once while it knows that broker, and a
// connection that is refused does not change that; brokers leave out one that is down as soon as others have taken its place. That of which rights are asked
// for, too, is what kadm does not answer from memory.
func forgetDown(ctx context.Context, adm *kadm.Client) {
	kafka.InTurn(kadm.WithAuthorizedOps(ctx), func(ctx context.Context) error {
		_, err := adm.BrokerMetadata(ctx)
		return err
	})
}

// mayPass reports whether an error may be over soon: brokers that start or are away, a leader that moves. Topics, rights and settings of TLS or SASL
// that are wrong are mistakes.
func mayPass(err error) bool {
	if code := (*kerr.Error)(nil); errors.As(err, &code) {
		return code.Retriable && !errors.Is(err, kerr.UnknownTopicOrPartition)
	}
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, verify.ErrSilent) || kgo.IsRetryableBrokerErr(err)
}

// fetchOffsets returns what a group has committed.
func fetchOffsets(ctx context.Context, adm *kadm.Client, group string) (kadm.OffsetResponses, error) {
	return patiently(ctx, adm, func(ctx context.Context) (kadm.OffsetResponses, error) { return adm.FetchOffsets(ctx, group) })
}

// describeGroup describes a group of the classic protocol. What its coordinator has against it is an error, too.
func describeGroup(ctx context.Context, adm *kadm.Client, group string) (kadm.DescribedGroup, error) {
	return patiently(ctx, adm, func(ctx context.Context) (kadm.DescribedGroup, error) {
		all, err := adm.DescribeGroups(ctx, group)
		return all[group], cmp.Or(err, all[group].Err)
	})
}

// describeConsumerGroup describes a group of the protocol of KIP-848. Brokers that are too old for it, and those that have no such group, are an error.
func describeConsumerGroup(ctx context.Context, adm *kadm.Client, group string) (kadm.DescribedConsumerGroup, error) {
	return patiently(ctx, adm, func(ctx context.Context) (kadm.DescribedConsumerGroup, error) {
		all, err := adm.DescribeConsumerGroups(ctx, group)
		return all[group], cmp.Or(err, all[group].Err)
	})
}

// listPatiently lists offsets of topics, and asks again where the broker of a leader is away.
func listPatiently(ctx context.Context, adm *kadm.Client, list func(context.Context, ...string) (kadm.ListedOffsets, error), names []string) (kadm.ListedOffsets, error) {
	return listed(patiently(ctx, adm, func(ctx context.Context) (kadm.ListedOffsets, error) { return list(ctx, names...) }))
}

// listed are the offsets that brokers have told, if any has.
func listed(all kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	var some *kadm.ShardErrors
	if errors.As(err, &some) && !some.AllFailed {
		err = nil
	}
	return all, err
}
