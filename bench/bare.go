package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/duewheel/duewheel/processor/kafka"
)

// bareFetch is how much of a log a bare reader asks for at a time: as much as a lane does with its defaults.
const bareFetch = 16 << 20

// readBare reads the logs of some partitions of the delay topic, from their beginning to where they end now, with so many clients at the same time that
// do nothing with what they read. It returns how many records a second they get.
func (sc *scene) readBare(ctx context.Context, partitions []int32, clients int) (perSecond float64, err error) {
	topic := sc.delays[0]
	ends, err := sc.r.adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return 0, err
	}
	var n atomic.Int64
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for i := range min(clients, len(partitions)) {
		g.Go(func() error {
			left := map[int32]int64{}
			for at := i; at < len(partitions); at += clients {
				if end, _ := ends.Lookup(topic, partitions[at]); end.Offset > 0 {
					left[partitions[at]] = end.Offset
				}
			}
			return sc.drain(ctx, topic, left, &n)
		})
	}
	if err := g.Wait(); err != nil {
		return 0, fmt.Errorf("read the logs once more: %w", err)
	}
	return float64(n.Load()) / time.Since(began).Seconds(), nil
}

// drain reads partitions of a topic, each until its end, and adds to n how many records there are.
func (sc *scene) drain(ctx context.Context, topic string, ends map[int32]int64, n *atomic.Int64) error {
	cl, closes, err := kafka.NewReader(slices.Clip(sc.r.opts), bareFetch)
	if err != nil {
		return err
	}
	defer closes()
	from := map[int32]kgo.Offset{}
	for p := range ends {
		from[p] = kgo.NewOffset().AtStart()
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	for len(ends) > 0 {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return err
		}
		fs.EachPartition(func(p kgo.FetchTopicPartition) {
			end, is := ends[p.Partition]
			if !is || len(p.Records) == 0 {
				return
			}
			for _, r := range p.Records {
				if r.Offset < end && !r.Attrs.IsControl() {
					n.Add(1)
				}
			}
			if p.Records[len(p.Records)-1].Offset >= end-1 {
				delete(ends, p.Partition)
			}
			for _, r := range p.Records {
				r.Recycle()
			}
		})
	}
	return nil
}
