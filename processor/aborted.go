package processor

import (
	"context"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kgo"

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

// passage is how far a log holds nothing that readers see, and its newest leader epoch up to there, or -1.
type passage struct {
	to    int64
	epoch int32
}

// passAborted finds how far each stretch holds nothing but what was aborted: the position may move
// there. It asks for nothing where the stretch is empty. What cannot be asked is missing from what it
// returns.
func passAborted(ctx context.Context, cl *kgo.Client, of map[*partition]stretch) (passed map[*partition]passage, err error) {
	passed = map[*partition]passage{}
	maps.DeleteFunc(of, func(_ *partition, s stretch) bool { return s.from >= s.to })
	if len(of) == 0 {
		return passed, nil
	}
	for p, s := range of {
		var next passage
		leader, failed := kafka.LeaderOf(ctx, cl, s.tp) // of each topic by itself: one that is forbidden keeps no other from being looked at
		if failed == nil {
			next, failed = s.visible(ctx, leader)
		}
		if failed != nil {
			err = fmt.Errorf("look what was aborted in %s: %w", s.tp, failed)
			continue
		}
		passed[p] = next
	}
	return passed, err
}

// visible asks where in a stretch the first record lies that readers see, or how far there is none.
func (s stretch) visible(ctx context.Context, leader *kgo.Broker) (passed passage, err error) {
	bytes := int32(abortedFetchLeast)
	for passed = (passage{s.from, -1}); passed.to < s.to; bytes = min(2*bytes, abortedFetchMost) {
		answer, err := kafka.FetchOnce(ctx, leader, s.tp, s.id, passed.to, bytes)
		if err != nil {
			return passed, err
		}
		records, after, err := kafka.Decode(s.tp, passed.to, answer)
		passed.epoch = max(passed.epoch, kafka.EpochOf(answer))
		switch {
		case err != nil:
			return passed, err
		case len(records) > 0:
			return passage{records[0].Offset, passed.epoch}, nil
		case after <= passed.to:
			return passed, nil
		}
		passed.to = after
	}
	return passed, nil
}

// abortedFetchLeast is how many bytes are looked at first: mostly there is a record to be seen at once, and all of it counts in a quota. A stretch where
// none is has larger looks, up to abortedFetchMost. A larger batch comes all the same.
const abortedFetchLeast, abortedFetchMost = 16 << 10, 1 << 20
