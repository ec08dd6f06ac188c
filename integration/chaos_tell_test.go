package integration

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/topics"
)

// tellOf logs what the watch knows of a request, and what its delay topic still says: such a case cannot be played again.
func (c *chaos) tellOf(of check.Source) {
	c.t.Log(c.watch.Known(of))
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	starts, err := c.admin.ListStartOffsets(ctx, of.Topic)
	ends, failed := c.admin.ListEndOffsets(ctx, of.Topic)
	start, ok := starts.Lookup(of.Topic, of.Partition)
	end, there := ends.Lookup(of.Topic, of.Partition)
	if err = cmp.Or(err, failed); err != nil || !ok || !there {
		c.t.Logf("where %s/%d begins and ends is not known: %v", of.Topic, of.Partition, err)
		return
	}
	cl, err := kgo.NewClient(append(c.opts(), kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		of.Topic: {of.Partition: kgo.NewOffset().At(start.Offset)},
	}))...)
	if err != nil {
		c.t.Log(err)
		return
	}
	defer cl.Close()
	ids, place := map[string]bool{}, fmt.Sprintf(":%d:", of.Offset)
	names := func(r *kgo.Record) bool {
		is := r.Offset == of.Offset
		for _, h := range r.Headers {
			is = is || strings.Contains(":"+string(h.Value)+":", place) || ids[string(h.Value)]
		}
		for _, h := range r.Headers {
			if is && h.Key == topics.HeaderID {
				ids[string(h.Value)] = true
			}
		}
		return is
	}
	c.t.Logf("%s/%d begins at %d and ends at %d; of the request its log says:", of.Topic, of.Partition, start.Offset, end.Offset)
	for next := start.Offset; next < end.Offset && ctx.Err() == nil; {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if next = r.Offset + 1; r.Offset < start.Offset+5 || names(r) {
				c.t.Logf("%d, written %d by producer %d: key %q, %d bytes, %s", r.Offset, r.Timestamp.UnixMilli(), r.ProducerID, r.Key, len(r.Value), r.Headers)
			}
		})
	}
}
