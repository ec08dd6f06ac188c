package processor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicIDs looks up the ids of topics. The error is about those that it leaves out.
func topicIDs(ctx context.Context, cl *kgo.Client, tps []topicPartition) (map[topicPartition]topicID, error) {
	names := map[string]bool{}
	for _, tp := range tps {
		names[tp.topic] = true
	}
	md, err := kadm.NewClient(cl).Metadata(ctx, slices.Collect(maps.Keys(names))...)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	ids := map[topicPartition]topicID{}
	for _, tp := range tps {
		d, ok := md.Topics[tp.topic]
		if !ok || d.Err != nil {
			err = fmt.Errorf("metadata of %s: %w", tp.topic, cmpErr(d.Err, kerr.UnknownTopicOrPartition))
			continue
		}
		if topicID(d.ID) == (topicID{}) {
			err = fmt.Errorf("metadata of %s: %w: a broker that does not tell ids of topics has joined the cluster", tp.topic, ErrBrokersTooOld)
			continue
		}
		ids[tp] = topicID(d.ID)
	}
	return ids, err
}

// logBounds is where a log begins and ends.
type logBounds struct {
	start  int64
	stable int64 // the last stable offset
	high   int64 // the high watermark
	asked  time.Time
	err    error
}

// askBounds asks where the logs of partitions begin and end. A partition whose leader does not
// answer is missing from what it returns.
func askBounds(ctx context.Context, cl *kgo.Client, tps []topicPartition) (map[topicPartition]logBounds, error) {
	out := make(map[topicPartition]logBounds, len(tps))
	if len(tps) == 0 {
		return out, nil
	}
	names := map[string]bool{}
	for _, tp := range tps {
		names[tp.topic] = true
	}
	list := slices.Collect(maps.Keys(names))
	adm := kadm.NewClient(cl)
	asked := time.Now()
	starts, err := answered(adm.ListStartOffsets(ctx, list...))
	if err != nil {
		return nil, fmt.Errorf("start of logs: %w", err)
	}
	stables, err := answered(adm.ListCommittedOffsets(ctx, list...))
	if err != nil {
		return nil, fmt.Errorf("last stable offsets: %w", err)
	}
	highs, err := answered(adm.ListEndOffsets(ctx, list...))
	if err != nil {
		return nil, fmt.Errorf("high watermarks: %w", err)
	}
	for _, tp := range tps {
		s, ok1 := starts.Lookup(tp.topic, tp.partition)
		c, ok2 := stables.Lookup(tp.topic, tp.partition)
		h, ok3 := highs.Lookup(tp.topic, tp.partition)
		if !ok1 || !ok2 || !ok3 {
			continue
		}
		out[tp] = logBounds{start: s.Offset, stable: c.Offset, high: h.Offset, asked: asked, err: errors.Join(s.Err, c.Err, h.Err)}
	}
	return out, nil
}

// answered makes do with the brokers that have answered, if any has.
func answered(listed kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if some, ok := errors.AsType[*kadm.ShardErrors](err); ok && !some.AllFailed {
		return listed, nil
	}
	return listed, err
}
