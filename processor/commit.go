package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
)

// commitEntry is the checkpoint of one partition, ready to be sent.
type commitEntry struct {
	tp       topicPartition
	id       topicID
	offset   int64
	metadata string
}

// entry turns a checkpoint into what is sent.
func entry(tp topicPartition, id topicID, c state.Checkpoint) (commitEntry, error) {
	md, err := c.Metadata()
	if err != nil {
		return commitEntry{}, fmt.Errorf("checkpoint of %s: %w", tp, err)
	}
	return commitEntry{tp: tp, id: id, offset: c.Offset, metadata: md}, nil
}

// refusedError is the answer of a coordinator that has refused offsets. It has taken those of the
// same request that are not named, unless they belong to a transaction.
type refusedError struct {
	of []refusedOffset // not empty
}

type refusedOffset struct {
	tp  topicPartition
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

func (e *refusedError) add(tp topicPartition, code int16) {
	if err := kerr.ErrorForCode(code); err != nil {
		e.of = append(e.of, refusedOffset{tp, err})
	}
}

// err is nil when nothing was refused.
func (e *refusedError) err() error {
	if len(e.of) == 0 {
		return nil
	}
	return e
}

// refusedOf says why which partitions were refused; nil: err is no such answer.
func refusedOf(err error) map[topicPartition]error {
	var refused *refusedError
	if !errors.As(err, &refused) {
		return nil
	}
	out := map[topicPartition]error{}
	for _, r := range refused.of {
		out[r.tp] = r.err
	}
	return out
}

// isPartitions reports a refusal that concerns its partition alone, or its topic: the others of the
// request can do without it.
func isPartitions(err error) bool {
	return kafka.IsAny(err, kerr.OffsetMetadataTooLarge, kerr.InvalidCommitOffsetSize, kerr.TopicAuthorizationFailed)
}

// commitBytes is about how much one request may commit. The coordinator writes all of it as one
// batch, and refuses what is above max.message.bytes of __consumer_offsets: 1 MiB by default.
const commitBytes = 512 << 10

// portions cuts entries into what one request may commit.
func (c *coordinator) portions(entries []commitEntry) (out [][]commitEntry) {
	first, size := 0, 0
	for i, e := range entries {
		bytes := len(e.metadata) + len(e.tp.Topic) + len(c.group) + 64 // of key, value and record
		if size+bytes > commitBytes && i > first {
			out = append(out, entries[first:i])
			first, size = i, 0
		}
		size += bytes
	}
	return append(out, entries[first:])
}

// commit is a plain offset commit, sent once. An error other than a refusedError may mean that some of
// it has been carried out.
func (c *coordinator) commit(ctx context.Context, cl *kgo.Client, m member, entries []commitEntry) error {
	if !m.valid() {
		return kerr.UnknownMemberID
	}
	refused := &refusedError{}
	for _, portion := range c.portions(entries) {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.MemberID, req.Generation, req.InstanceID = c.group, m.id, m.generation, m.instance
		for _, of := range byTopic(portion) {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = of[0].tp.Topic, of[0].id
			for i := range of {
				p := kmsg.NewOffsetCommitRequestTopicPartition()
				p.Partition, p.Offset, p.Metadata = of[i].tp.Partition, of[i].offset, &of[i].metadata
				t.Partitions = append(t.Partitions, p)
			}
			req.Topics = append(req.Topics, t)
		}
		kresp, err := c.send(ctx, cl, req)
		if err != nil {
			return fmt.Errorf("commit offsets: %w", err)
		}
		for _, t := range kresp.(*kmsg.OffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				refused.add(topicPartition{Topic: nameOf(t.Topic, t.TopicID, portion), Partition: p.Partition}, p.ErrorCode)
			}
		}
	}
	return c.answer(refused.err())
}

// txnCommit adds the checkpoints to a transaction (KIP-447).
func (c *coordinator) txnCommit(ctx context.Context, cl *kgo.Client, transactionalID string, in identity, m member, entries []commitEntry) error {
	if !m.valid() {
		return kerr.UnknownMemberID
	}
	refused := &refusedError{}
	for _, portion := range c.portions(entries) {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = transactionalID, c.group, in.id, in.epoch
		req.MemberID, req.Generation, req.InstanceID = m.id, m.generation, m.instance
		for _, of := range byTopic(portion) {
			t := kmsg.NewTxnOffsetCommitRequestTopic()
			t.Topic, t.TopicID = of[0].tp.Topic, of[0].id
			for i := range of {
				p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
				p.Partition, p.Offset, p.Metadata = of[i].tp.Partition, of[i].offset, &of[i].metadata
				t.Partitions = append(t.Partitions, p)
			}
			req.Topics = append(req.Topics, t)
		}
		kresp, err := c.send(ctx, cl, req)
		if err != nil {
			return fmt.Errorf("commit offsets of transaction %s: %w", transactionalID, err)
		}
		for _, t := range kresp.(*kmsg.TxnOffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				refused.add(topicPartition{Topic: nameOf(t.Topic, t.TopicID, portion), Partition: p.Partition}, p.ErrorCode)
			}
		}
		if err := refused.err(); err != nil {
			return c.answer(fmt.Errorf("transaction %s: %w", transactionalID, err))
		}
	}
	return nil
}

// nameOf is the name of a topic in an answer, which new versions give by id alone.
func nameOf(name string, id topicID, asked []commitEntry) string {
	for _, e := range asked {
		if name == "" && e.id == id {
			return e.tp.Topic
		}
	}
	return name
}

// byTopic groups entries, keeping their order.
func byTopic(entries []commitEntry) [][]commitEntry {
	var groups [][]commitEntry
	at := map[string]int{}
	for _, e := range entries {
		i, ok := at[e.tp.Topic]
		if !ok {
			i = len(groups)
			at[e.tp.Topic] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], e)
	}
	return groups
}
