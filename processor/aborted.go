package processor

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
)

// What a transaction has written that was aborted is not seen by readers. The client passes over it
// and tells of nothing, so a partition's position stays below it until something visible follows:
// the end marker, at last. But where another transaction is still open that began before that
// marker, the last stable offset lies in between, and a catch-up that waits for its position to
// reach it would wait for the other one, or for ever where there is always another one.

// stretch is a partition and where it has been read up to.
type stretch struct {
	tp       kafka.TopicPartition
	id       kafka.TopicID
	from, to int64
}

// passAborted finds how far each stretch holds nothing but what was aborted: the position may move
// there. It asks for nothing where the stretch is empty. What cannot be asked is missing from what it
// returns.
func passAborted(ctx context.Context, cl *kgo.Client, of map[*partition]stretch) (passed map[*partition]int64, err error) {
	passed = map[*partition]int64{}
	maps.DeleteFunc(of, func(_ *partition, s stretch) bool { return s.from >= s.to })
	if len(of) == 0 {
		return passed, nil
	}
	topics := map[string]bool{}
	for _, s := range of {
		topics[s.tp.Topic] = true
	}
	md, err := kadm.NewClient(cl).Metadata(ctx, slices.Collect(maps.Keys(topics))...)
	if err != nil {
		return passed, fmt.Errorf("leaders: %w", err)
	}
	for p, s := range of {
		leader := cl.Broker(int(md.Topics[s.tp.Topic].Partitions[s.tp.Partition].Leader))
		next, failed := s.visible(ctx, leader)
		if failed != nil {
			err = fmt.Errorf("look what was aborted in %s: %w", s.tp, failed)
			continue
		}
		passed[p] = next
	}
	return passed, err
}

// visible asks where in a stretch the first record lies that readers see, or how far there is none.
func (s stretch) visible(ctx context.Context, leader *kgo.Broker) (next int64, err error) {
	for next = s.from; next < s.to; {
		got, after, err := s.fetch(ctx, leader, next)
		switch {
		case err != nil:
			return 0, err
		case len(got.Records) > 0:
			return got.Records[0].Offset, nil
		case after <= next:
			return next, nil
		}
		next = after
	}
	return next, nil
}

const abortedFetchBytes = 1 << 20 // of one look; a larger batch comes all the same

// fetch reads once from an offset, as a reader would that keeps markers.
func (s stretch) fetch(ctx context.Context, leader *kgo.Broker, from int64) (kgo.FetchPartition, int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.IsolationLevel, req.SessionEpoch = -1, abortedFetchBytes, 1, -1
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = s.tp.Partition, from, abortedFetchBytes
	t.Topic, t.TopicID, t.Partitions = s.tp.Topic, s.id, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	kresp, err := leader.Request(ctx, req)
	if err != nil {
		return kgo.FetchPartition{}, 0, err
	}
	resp := kresp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return kgo.FetchPartition{}, 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return kgo.FetchPartition{}, 0, kerr.UnknownTopicOrPartition
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: from, IsolationLevel: kgo.ReadCommitted(), Topic: s.tp.Topic, Partition: s.tp.Partition,
	}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	return got, next, got.Err
}
