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

// firstAnswer is how long an answer may take at first, and about twice as long each time it is asked for again, up to kafka.RequestTimeout: healthy brokers
// answer within milliseconds.
const firstAnswer = time.Second

// patient asks brokers of which one may be away, or silent, by its own methods patiently; by those of the client in it once. Offsets that only some brokers
// list are no error: partitions of the others are not in what is returned.
type patient struct{ *kadm.Client }

func newPatient(cl *kgo.Client) *patient { return &patient{kadm.NewClient(cl)} }

// patiently asks until the answer is no error that passes, or patience is over. The last time it takes as long as it takes.
func patiently[T any](ctx context.Context, adm *patient, ask func(context.Context) (T, error)) (T, error) {
	type answer struct {
		T   T
		err error
	}
	began := time.Now()
	for tries := 0; ; tries++ {
		over, asking, cancel := time.Since(began) > askingPatience, ctx, context.CancelFunc(func() {})
		if !over {
			asking, cancel = context.WithTimeout(ctx, wait.Growing(tries, firstAnswer, kafka.RequestTimeout))
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
		adm.forgetDown(ctx)
	}
}

// try is patiently where there is nothing to be told.
func (p *patient) try(ctx context.Context, ask func(context.Context) error) error {
	_, err := patiently(ctx, p, func(ctx context.Context) (any, error) { return nil, ask(ctx) })
	return err
}

// forgetDown makes a client learn which brokers there are. It goes on with a coordinator that it has found once while it knows that broker, and a
// connection that is refused does not change that; brokers leave out one that is down as soon as others have taken its place. That of which rights are asked
// for, too, is what kadm does not answer from memory.
func (p *patient) forgetDown(ctx context.Context) {
	kafka.InTurn(kadm.WithAuthorizedOps(ctx), func(ctx context.Context) error {
		_, err := p.Client.BrokerMetadata(ctx)
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

func (p *patient) Metadata(ctx context.Context, topics ...string) (kadm.Metadata, error) {
	return patiently(ctx, p, func(ctx context.Context) (kadm.Metadata, error) { return p.Client.Metadata(ctx, topics...) })
}

func (p *patient) BrokerMetadata(ctx context.Context) (kadm.Metadata, error) {
	return patiently(ctx, p, p.Client.BrokerMetadata)
}

func (p *patient) ListTopics(ctx context.Context, topics ...string) (kadm.TopicDetails, error) {
	return patiently(ctx, p, func(ctx context.Context) (kadm.TopicDetails, error) { return p.Client.ListTopics(ctx, topics...) })
}

func (p *patient) DescribeTopicConfigs(ctx context.Context, topics ...string) (kadm.ResourceConfigs, error) {
	return patiently(ctx, p, func(ctx context.Context) (kadm.ResourceConfigs, error) {
		return p.Client.DescribeTopicConfigs(ctx, topics...)
	})
}

func (p *patient) ListStartOffsets(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
	return p.list(ctx, func(ctx context.Context) (kadm.ListedOffsets, error) {
		return p.Client.ListStartOffsets(ctx, topics...)
	})
}

func (p *patient) ListEndOffsets(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
	return p.list(ctx, func(ctx context.Context) (kadm.ListedOffsets, error) { return p.Client.ListEndOffsets(ctx, topics...) })
}

func (p *patient) ListCommittedOffsets(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
	return p.list(ctx, func(ctx context.Context) (kadm.ListedOffsets, error) {
		return p.Client.ListCommittedOffsets(ctx, topics...)
	})
}

func (p *patient) ListOffsetsAfterMilli(ctx context.Context, millis int64, topics ...string) (kadm.ListedOffsets, error) {
	return p.list(ctx, func(ctx context.Context) (kadm.ListedOffsets, error) {
		return p.Client.ListOffsetsAfterMilli(ctx, millis, topics...)
	})
}

// list asks once more, too, where only the brokers of some leaders answer, and where one has just been elected, which cannot say at first what all its followers
// have (KIP-207).
func (p *patient) list(ctx context.Context, ask func(context.Context) (kadm.ListedOffsets, error)) (kadm.ListedOffsets, error) {
	all, err := patiently(ctx, p, func(ctx context.Context) (kadm.ListedOffsets, error) {
		all, err := ask(ctx)
		all.Each(func(o kadm.ListedOffset) {
			if errors.Is(o.Err, kerr.OffsetNotAvailable) {
				err = cmp.Or(err, o.Err)
			}
		})
		return all, err
	})
	var some *kadm.ShardErrors
	if errors.As(err, &some) && !some.AllFailed || errors.Is(err, kerr.OffsetNotAvailable) { // partitions tell
		err = nil
	}
	return all, err
}

func (p *patient) FetchOffsets(ctx context.Context, group string) (kadm.OffsetResponses, error) {
	return patiently(ctx, p, func(ctx context.Context) (kadm.OffsetResponses, error) { return p.Client.FetchOffsets(ctx, group) })
}

// describeGroup describes a group of the classic protocol. What its coordinator has against it is an error, too.
func (p *patient) describeGroup(ctx context.Context, group string) (kadm.DescribedGroup, error) {
	return patiently(ctx, p, func(ctx context.Context) (kadm.DescribedGroup, error) {
		all, err := p.DescribeGroups(ctx, group)
		return all[group], cmp.Or(err, all[group].Err)
	})
}

// describeConsumerGroup describes a group of the protocol of KIP-848. Brokers that are too old for it, and those that have no such group, are an error.
func (p *patient) describeConsumerGroup(ctx context.Context, group string) (kadm.DescribedConsumerGroup, error) {
	return patiently(ctx, p, func(ctx context.Context) (kadm.DescribedConsumerGroup, error) {
		all, err := p.DescribeConsumerGroups(ctx, group)
		return all[group], cmp.Or(err, all[group].Err)
	})
}
