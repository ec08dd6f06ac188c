package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor"
)

// What a coordinator answers to an offset commit that bears another member id or epoch than the group of the consumer protocol has
// (KIP-848). The processor takes each of these for a refusal that has changed nothing (TestJudge), and that is what is seen here.
func TestMemberEpochs(t *testing.T) {
	s := newTenant(t, shared(t), setting{seed: newSeed(t)})
	// With one member, its epoch is the one in which it has got its partitions: since Kafka 4.3 a commit may bear any epoch from that on.
	p := s.start(s.replica(func(c *replicaConfig) { c.Protocol, c.Lanes = processor.ProtocolConsumer, 1 }))
	s.awaitLive(p, 4)
	c := s.newCommitter()
	described, err := s.admin.DescribeConsumerGroups(t.Context(), s.name)
	if err != nil {
		t.Fatal(err)
	}
	member := described[s.name].Members[0]
	for _, test := range []struct {
		name       string
		member     string
		epoch      int32
		plain, txn error
	}{
		{"an epoch that is over", member.MemberID, member.MemberEpoch - 1, kerr.StaleMemberEpoch, kerr.IllegalGeneration},
		{"an epoch to come", member.MemberID, member.MemberEpoch + 1, kerr.StaleMemberEpoch, kerr.IllegalGeneration},
		{"a member that is gone", "gone", member.MemberEpoch, kerr.UnknownMemberID, kerr.UnknownMemberID},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := c.commit(test.member, test.epoch); !errors.Is(err, test.plain) {
				t.Errorf("commit: %v, want %v", err, test.plain)
			}
			if err := c.txnCommit(test.member, test.epoch); !errors.Is(err, test.txn) {
				t.Errorf("commit in a transaction: %v, want %v", err, test.txn)
			}
			if after := s.committed(); after["by hand"] > 0 {
				t.Errorf("committed: %v", after)
			}
		})
	}
	p.stop()
}

// committer commits an offset of partition 0 in whatever name.
type committer struct {
	*tenant
	producer *kgo.Client
}

func (s *tenant) newCommitter() *committer {
	producer, err := kgo.NewClient(append(s.opts(), kgo.TransactionalID(s.name+"-by-hand"))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(producer.Close)
	return &committer{s, producer}
}

var byHand = "by hand"

func (c *committer) commit(member string, epoch int32) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = c.name, member, epoch
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = c.route.Topic, c.topicID()
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Metadata = &byHand
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(c.t.Context(), c.client)
	if err != nil {
		c.t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func (c *committer) txnCommit(member string, epoch int32) error {
	if err := c.producer.BeginTransaction(); err != nil {
		c.t.Fatal(err)
	}
	defer c.producer.EndTransaction(context.Background(), kgo.TryAbort)
	id, producerEpoch, err := c.producer.ProducerID(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = c.name+"-by-hand", id, producerEpoch
	req.Group, req.MemberID, req.Generation = c.name, member, epoch
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = c.route.Topic, c.topicID()
	part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	part.Metadata = &byHand
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(c.t.Context(), c.producer)
	if err != nil {
		c.t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func (c *committer) topicID() [16]byte {
	listed, err := c.admin.ListTopics(c.t.Context(), c.route.Topic)
	if err != nil {
		c.t.Fatal(err)
	}
	return listed[c.route.Topic].ID
}
