package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Commit is what is to be committed of one partition: its offset, the leader epoch below it (KIP-320), -1 where that is not known, and metadata of
// 4096 bytes at most.
type Commit struct {
	TP       TopicPartition
	ID       TopicID
	Offset   int64
	Epoch    int32
	Metadata string
}

// refusedError is the answer of a coordinator that has refused offsets. It has taken those of the
// same request that are not named, unless they belong to a transaction.
type refusedError struct {
	of []refusedOffset // not empty
}

type refusedOffset struct {
	tp  TopicPartition
	err error
}

func (e *refusedError) Error() string {
	more := ""
	if n := len(e.of) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("commit offset of %s%s: %v", e.of[0].tp, more, e.of[0].err)
}

func (e *refusedError) Unwrap() (errs []error) {
	for _, r := range e.of {
		if !slices.Contains(errs, r.err) {
			errs = append(errs, r.err)
		}
	}
	return errs
}

// addAll adds those of one topic that an answer refuses.
func addAll[P any](e *refusedError, topic string, ps []P, of func(P) (partition int32, code int16)) {
	for _, p := range ps {
		partition, code := of(p)
		if err := kerr.ErrorForCode(code); err != nil {
			e.of = append(e.of, refusedOffset{TopicPartition{Topic: topic, Partition: partition}, err})
		}
	}
}

// err is nil when nothing was refused.
func (e *refusedError) err() error {
	if len(e.of) == 0 {
		return nil
	}
	return e
}

// RefusedOf says why which partitions were refused by the answer to a commit; nil: err is no such answer.
func RefusedOf(err error) map[TopicPartition]error {
	var refused *refusedError
	if !errors.As(err, &refused) {
		return nil
	}
	out := map[TopicPartition]error{}
	for _, r := range refused.of {
		out[r.tp] = r.err
	}
	return out
}

// IsPartitions reports a refusal that concerns its partition alone, or its topic: the others of the
// request can do without it.
func IsPartitions(err error) bool {
	return IsAny(err, kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize, kerr.TopicAuthorizationFailed)
}

// CommitBytes is about how much one request may commit. The coordinator writes all of it as one
// batch, and refuses what is above max.message.bytes of __consumer_offsets: 1 MiB by default.
const CommitBytes = 512 << 10

// portions cuts entries into what one request may commit.
func (c *Coordinator) portions(entries []Commit) (out [][]Commit) {
	first, size := 0, 0
	for i, e := range entries {
		bytes := len(e.Metadata) + len(e.TP.Topic) + len(c.group) + 64 // of key, value and record
		if size+bytes > CommitBytes && i > first {
			out = append(out, entries[first:i])
			first, size = i, 0
		}
		size += bytes
	}
	return append(out, entries[first:])
}

// Commit is a plain offset commit, sent once: a copy that comes late would take a checkpoint back. Without a valid member nothing is sent.
// An error of which RefusedOf says nothing may mean that some of it has been carried out.
func (c *Coordinator) Commit(ctx context.Context, cl *kgo.Client, m Member, entries []Commit) error {
	if !m.Valid() {
		return kerr.UnknownMemberID
	}
	refused := &refusedError{}
	for _, portion := range c.portions(entries) {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.Generation, req.InstanceID = c.group, m.ID, m.Generation, m.Instance
		req.Topics = ofTopics(portion, func(e *Commit) kmsg.OffsetCommitRequestTopicPartition {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = e.TP.Partition, e.Offset, e.Epoch, &e.Metadata
			return p
		}, func(e *Commit, ps []kmsg.OffsetCommitRequestTopicPartition) kmsg.OffsetCommitRequestTopic {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID, t.Partitions = e.TP.Topic, e.ID, ps
			return t
		})
		kresp, err := c.send(ctx, cl, req)
		if err != nil {
			return fmt.Errorf("commit offsets: %w", err)
		}
		for _, t := range kresp.(*kmsg.OffsetCommitResponse).Topics {
			addAll(refused, nameOf(t.Topic, t.TopicID, portion), t.Partitions, func(p kmsg.OffsetCommitResponseTopicPartition) (int32, int16) { return p.Partition, p.ErrorCode })
		}
	}
	return c.answer(refused.err())
}

// CommitIn commits in a transaction (KIP-447): it counts when that is committed. When one partition is refused, nothing of the request
// counts.
func (c *Coordinator) CommitIn(ctx context.Context, cl *kgo.Client, transactionalID string, in ProducerID, m Member, entries []Commit) error {
	if !m.Valid() {
		return kerr.UnknownMemberID
	}
	refused := &refusedError{}
	for _, portion := range c.portions(entries) {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = transactionalID, c.group, in.ID, in.Epoch
		req.MemberID, req.Generation, req.InstanceID = m.ID, m.Generation, m.Instance
		req.Topics = ofTopics(portion, func(e *Commit) kmsg.TxnOffsetCommitRequestTopicPartition {
			p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = e.TP.Partition, e.Offset, e.Epoch, &e.Metadata
			return p
		}, func(e *Commit, ps []kmsg.TxnOffsetCommitRequestTopicPartition) kmsg.TxnOffsetCommitRequestTopic {
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic, t.TopicID, t.Partitions = e.TP.Topic, e.ID, ps
			return t
		})
		kresp, err := c.send(ctx, cl, req)
		if err != nil {
			return fmt.Errorf("commit offsets of transaction %s: %w", transactionalID, err)
		}
		for _, t := range kresp.(*kmsg.TxnOffsetCommitResponse).Topics {
			addAll(refused, nameOf(t.Topic, t.TopicID, portion), t.Partitions, func(p kmsg.TxnOffsetCommitResponseTopicPartition) (int32, int16) { return p.Partition, p.ErrorCode })
		}
		if err := refused.err(); err != nil {
			return c.answer(fmt.Errorf("transaction %s: %w", transactionalID, err))
		}
	}
	return nil
}

// nameOf is the name of a topic in an answer, which new versions give by id alone.
func nameOf(name string, id TopicID, asked []Commit) string {
	for _, e := range asked {
		if name == "" && e.ID == id {
			return e.TP.Topic
		}
	}
	return name
}

// ofTopics is what a request has of its topics, each made of what it has of its partitions.
func ofTopics[T, P any](entries []Commit, partition func(*Commit) P, topic func(*Commit, []P) T) (all []T) {
	for _, of := range byTopic(entries) {
		ps := make([]P, len(of))
		for i := range of {
			ps[i] = partition(&of[i])
		}
		all = append(all, topic(&of[0], ps))
	}
	return all
}

// byTopic groups entries, keeping their order.
func byTopic(entries []Commit) [][]Commit {
	var groups [][]Commit
	at := map[string]int{}
	for _, e := range entries {
		i, ok := at[e.TP.Topic]
		if !ok {
			i = len(groups)
			at[e.TP.Topic] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], e)
	}
	return groups
}
