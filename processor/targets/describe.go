package targets

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// kadm makes one error of an answer in which a single topic is forbidden to us. Targets are asked for
// together, and each has its own answer here.

// describeTopics asks for the partitions of topics, and what we may do with them (KIP-430).
func describeTopics(ctx context.Context, cl *kgo.Client, names []string) (map[string]kadm.TopicDetail, error) {
	req := kafka.MetadataOf(names)
	req.IncludeTopicAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	out := make(map[string]kadm.TopicDetail, len(resp.Topics))
	for _, t := range resp.Topics {
		if t.Topic == nil {
			continue
		}
		d := kadm.TopicDetail{
			Topic: *t.Topic, ID: t.TopicID, Err: kerr.ErrorForCode(t.ErrorCode),
			AuthorizedOperations: kadm.DecodeACLOperations(t.AuthorizedOperations), Partitions: kadm.PartitionDetails{},
		}
		for _, p := range t.Partitions {
			d.Partitions[p.Partition] = kadm.PartitionDetail{
				Topic: *t.Topic, Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Err: kerr.ErrorForCode(p.ErrorCode),
			}
		}
		out[*t.Topic] = d
	}
	return out, nil
}

// describeLimits asks what topics take. Those whose configuration we may not read are left out.
func describeLimits(ctx context.Context, cl *kgo.Client, names []string) map[string]Limits {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, name := range names {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
		r.ConfigNames = []string{"max.message.bytes", "min.insync.replicas", "cleanup.policy", "compression.type"}
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil
	}
	out := make(map[string]Limits, len(resp.Resources))
	for _, r := range resp.Resources {
		if r.ErrorCode != 0 {
			continue
		}
		limits := defaultLimits
		for _, c := range r.Configs {
			if c.Value != nil {
				limits.set(c.Name, *c.Value)
			}
		}
		out[r.ResourceName] = limits
	}
	return out
}

// set takes in one property of a topic.
func (l *Limits) set(name, value string) {
	switch name {
	case "max.message.bytes":
		if n, err := strconv.ParseInt(value, 10, 32); err == nil {
			l.MaxBytes = int32(n)
		}
	case "min.insync.replicas":
		if n, err := strconv.Atoi(value); err == nil {
			l.minISR = n
		}
	case "cleanup.policy":
		l.Compacted = strings.Contains(value, "compact")
	case "compression.type":
		l.Inflates = value == "uncompressed"
	}
}
