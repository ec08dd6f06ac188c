package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/duewheel/duewheel/processor/wait"
)

// OffsetsTopic is where groups and their offsets are: of a partition without a leader, no broker knows the groups.
const OffsetsTopic = "__consumer_offsets"

// Ending is what the coordinator of a transactional id says of the end of its last transaction (KIP-664).
type Ending struct {
	In         ProducerID
	Decided    bool             // it has ended or is about to, and how is known: not when the id was asked for since
	Commit     bool             // it is committed
	Ongoing    bool             // it is open, and whoever asks for the id aborts it
	Ended      bool             // every partition has its marker, for all that the coordinator knows
	Partitions []TopicPartition // of it that have none yet
}

// AskEndings asks for the ends of the last transactions of ids, and returns what was told within a time. An id that brokers do not know has none.
func AskEndings(ctx context.Context, cl *kgo.Client, within time.Duration, ids ...string) (map[string]Ending, error) {
	told := map[string]Ending{}
	if len(ids) == 0 {
		return told, nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = ids
	var errs []error
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			errs = append(errs, shard.Err)
			continue
		}
		for _, s := range shard.Resp.(*kmsg.DescribeTransactionsResponse).TransactionStates {
			switch err := kerr.ErrorForCode(s.ErrorCode); {
			case err == nil:
				told[s.TransactionalID] = endingOf(s)
			case errors.Is(err, kerr.TransactionalIDNotFound):
				told[s.TransactionalID] = Ending{}
			default:
				errs = append(errs, fmt.Errorf("%s: %w", s.TransactionalID, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return told, fmt.Errorf("describe transactions: %w", err)
	}
	return told, nil
}

func endingOf(s kmsg.DescribeTransactionsResponseTransactionState) Ending {
	e := Ending{In: ProducerID{ID: s.ProducerID, Epoch: s.ProducerEpoch}}
	switch s.State {
	case "PrepareCommit":
		e.Decided, e.Commit = true, true
	case "CompleteCommit":
		e.Decided, e.Commit, e.Ended = true, true, true
	case "PrepareAbort", "PrepareEpochFence":
		e.Decided = true
	case "CompleteAbort":
		e.Decided, e.Ended = true, true
	case "Ongoing":
		e.Ongoing = true
	}
	for _, t := range s.Topics {
		for _, p := range t.Partitions {
			e.Partitions = append(e.Partitions, TopicPartition{Topic: t.Topic, Partition: p})
		}
	}
	return e
}

// WriteMarkers has the coordinator of an id write markers to partitions by a transaction of these alone, without a record: where an earlier one of the id has not
// ended, it ends as this one does, and where none is open nothing happens. Partitions of [OffsetsTopic] stand for those of the
// group. It returns which of them brokers refuse for good. An error says that it is not known to have happened, and that it may be tried
// again, unless it is one of a [Fenced] id; it may have begun then, and whoever asks for the id before [EndAgain] aborts it. The way is that of clients before transaction.version 2, which name what is in a transaction (KIP-98, KIP-890).
func WriteMarkers(ctx context.Context, client []kgo.Opt, group, id string, in ProducerID, commit bool, tps []TopicPartition) (refused map[TopicPartition]error, err error) {
	cl, err := explicit(client)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	c := NewCoordinatorOf(id)
	offsets := slices.ContainsFunc(tps, func(tp TopicPartition) bool { return tp.Topic == OffsetsTopic })
	left := slices.DeleteFunc(slices.Clone(tps), func(tp TopicPartition) bool { return tp.Topic == OffsetsTopic })
	for len(left) > 0 {
		no, err := c.addPartitions(ctx, cl, id, in, left)
		if err != nil {
			return refused, fmt.Errorf("add partitions to transaction %s: %w", id, err)
		}
		if len(no) == 0 {
			break
		}
		if refused == nil {
			refused = map[TopicPartition]error{}
		}
		maps.Copy(refused, no) // then none of them was added
		left = slices.DeleteFunc(left, func(tp TopicPartition) bool { return no[tp] != nil })
	}
	if offsets {
		if err := NewCoordinator(group).AddOffsets(ctx, cl, c, in); err != nil {
			return refused, err
		}
	} else if len(left) == 0 {
		return refused, nil
	}
	return refused, c.endAgain(ctx, cl, id, in, commit, markersMost)
}

// markersMost is how long the end of a transaction of markers waits for what its id has begun before.
const markersMost = time.Second

// EndAgain asks for the end of a transaction, as often as it takes until that is answered: one that [WriteMarkers] has begun, or that of a client which has not
// heard whether it has ended. Where the end of the latter raises the epoch (transaction.version 2, KIP-890) its coordinator tells by that a repetition from the
// end of another transaction. While it is being carried out for longer than patience lasts, the error is ErrBusyID. Any other refusal says that there is nothing to end.
func EndAgain(ctx context.Context, client []kgo.Opt, id string, in ProducerID, commit, bumps bool, patience time.Duration) error {
	open := explicit
	if bumps {
		open = func(client []kgo.Opt) (*kgo.Client, error) { return kgo.NewClient(Options(client)...) }
	}
	cl, err := open(client)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err = NewCoordinatorOf(id).endAgain(ctx, cl, id, in, commit, patience); errors.Is(err, kerr.ConcurrentTransactions) {
		return ErrBusyID
	}
	return err
}

// explicit is a client that names what is in a transaction.
func explicit(client []kgo.Opt) (*kgo.Client, error) {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3)
	v.SetMaxKeyVersion(int16(kmsg.AddOffsetsToTxn), 3)
	v.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	return kgo.NewClient(append(Options(client), kgo.MaxVersions(v))...)
}

// Leader is that of a partition, or none.
type Leader struct {
	Epoch int32 // another one whenever a leader goes or comes
	There bool
}

// AskLeaders asks for the leaders of topics' partitions. A topic that does not exist has none, and one that brokers say nothing of is left out.
func AskLeaders(ctx context.Context, cl *kgo.Client, topics []string) (map[string]map[int32]Leader, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	resp, err := MetadataOf(topics).RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("ask for leaders: %w", err)
	}
	out := map[string]map[int32]Leader{}
	for _, t := range resp.Topics {
		if t.Topic != nil && (t.ErrorCode == 0 || t.ErrorCode == kerr.UnknownTopicOrPartition.Code) {
			out[*t.Topic] = map[int32]Leader{}
			for _, p := range t.Partitions {
				out[*t.Topic][p.Partition] = Leader{Epoch: p.LeaderEpoch, There: p.Leader >= 0}
			}
		}
	}
	return out, nil
}

// gather are partitions by their topic.
func gather(tps []TopicPartition) map[string][]int32 {
	by := map[string][]int32{}
	for _, tp := range tps {
		by[tp.Topic] = append(by[tp.Topic], tp.Partition)
	}
	return by
}

// addPartitions adds partitions to a transaction, or returns which of them cannot be added to any.
func (c *Coordinator) addPartitions(ctx context.Context, cl *kgo.Client, id string, in ProducerID, tps []TopicPartition) (refused map[TopicPartition]error, err error) {
	err = c.Retry(ctx, func() error {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, in.ID, in.Epoch
		for topic, partitions := range gather(tps) {
			t := kmsg.NewAddPartitionsToTxnRequestTopic()
			t.Topic, t.Partitions = topic, partitions
			req.Topics = append(req.Topics, t)
		}
		resp, err := c.send(ctx, cl, req)
		if err != nil {
			return err
		}
		refused, err = nil, nil
		for _, t := range resp.(*kmsg.AddPartitionsToTxnResponse).Topics {
			for _, p := range t.Partitions {
				switch why := kerr.ErrorForCode(p.ErrorCode); {
				case why == nil, errors.Is(why, kerr.OperationNotAttempted):
				case IsAny(why, kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed):
					if refused == nil {
						refused = map[TopicPartition]error{}
					}
					refused[TopicPartition{Topic: t.Topic, Partition: p.Partition}] = why
				default:
					err = why
				}
			}
		}
		return c.answer(err)
	})
	return refused, err
}

// endAgain asks for the end of a transaction until that is answered, and while it is being carried out for as long as patience lasts.
func (c *Coordinator) endAgain(ctx context.Context, cl *kgo.Client, id string, in ProducerID, commit bool, patience time.Duration) error {
	began := time.Now()
	for try := 0; ; try++ {
		err := c.end(ctx, cl, id, in, commit)
		switch {
		case err == nil, VerdictOf(err) != Retry && !errors.Is(err, ErrUnanswered):
			return err
		case errors.Is(err, kerr.ConcurrentTransactions) && time.Since(began) >= patience, !wait.For(ctx, wait.Growing(try, 5*time.Millisecond, 500*time.Millisecond)):
			return err
		}
	}
}

// end asks for the end of a transaction.
func (c *Coordinator) end(ctx context.Context, cl *kgo.Client, id string, in ProducerID, commit bool) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = id, in.ID, in.Epoch, commit
	resp, err := c.send(ctx, cl, req)
	if err == nil {
		err = c.answer(kerr.ErrorForCode(resp.(*kmsg.EndTxnResponse).ErrorCode))
	}
	if err != nil {
		return fmt.Errorf("end transaction %s: %w", id, err)
	}
	return nil
}
