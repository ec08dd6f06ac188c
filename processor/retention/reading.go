package retention

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

const (
	// excerptBytes is about how much of a log is read and decompressed at once, and kept where that keeps pace with the budget. A batch that is larger is
	// decompressed all the same.
	excerptBytes = 1 << 20
	// fetchLeastBytes is the least that is asked for at once.
	fetchLeastBytes = 4 << 10
	// excerptReads is for how long it may be read for what is handed over at once.
	excerptReads = time.Second
)

// read reads those records of a partition's log that are wanted, as far as there is room and time for them, and says where the rest begins. Offsets rise.
func (g *carriage) read(ctx context.Context, cl *kgo.Client, wanted []int64, upTo int64, room int) (records []*kgo.Record, next int64, err error) {
	if len(wanted) == 0 {
		return nil, upTo, nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafka.RequestTimeout)
	defer cancel()
	leader, err := kafka.LeaderOf(ctx, cl, g.tp)
	if err != nil {
		return nil, 0, err
	}
	bytes := 0
	for began := time.Now(); len(wanted) > 0 && bytes < room && (len(records) == 0 || time.Since(began) < excerptReads); {
		some, reached, err := g.fetch(ctx, leader, wanted)
		if err != nil && len(records) == 0 {
			return nil, 0, err
		}
		if err != nil {
			break // what was read is carried, and the rest is tried again
		}
		for _, r := range some {
			if _, is := slices.BinarySearch(wanted, r.Offset); is {
				records, bytes = append(records, own(r)), bytes+topics.RecordSize(r.Key, r.Value, r.Headers)
			}
		}
		n, _ := slices.BinarySearch(wanted, reached)
		wanted = wanted[n:]
	}
	if len(wanted) > 0 {
		return records, wanted[0], nil
	}
	return records, upTo, nil
}

// fetch reads from the first of some offsets on, no more than may be needed, and says up to where.
func (g *carriage) fetch(ctx context.Context, leader *kgo.Broker, wanted []int64) (records []*kgo.Record, reached int64, err error) {
	from := wanted[0]
	answer, err := kafka.FetchOnce(ctx, leader, g.tp, g.id, from, g.bytesFor(wanted))
	if errors.Is(err, kerr.OffsetOutOfRange) { // retention has cut the log since it was asked where that begins
		if b, failed := kafka.BoundsOf(ctx, leader, g.tp); failed == nil && b.Start > from {
			return nil, b.Start, nil
		}
	}
	if err != nil {
		return nil, 0, err
	}
	records, reached, err = kafka.DecodeSome(g.tp, from, answer, excerptBytes)
	if err == nil && reached <= from {
		err = errNothingThere
	}
	if err == nil {
		some := max(kafka.Beyond(from, answer)-from, 1) // which passes over a message that is shorter than the header of a batch, as one of Kafka before 0.10 may be
		g.weight = max(int64(len(answer.RecordBatches))/some, 1)
	}
	return records, reached, err
}

// errNothingThere is that a leader sends nothing where something was committed.
var errNothingThere = errors.New("retention: the leader sends nothing")

// bytesFor is how many bytes of a log may have the first of some offsets, and those that lie near: what lies between two is worth as much as a request.
func (g *carriage) bytesFor(wanted []int64) int32 {
	last := 0
	for last+1 < len(wanted) && (wanted[last+1]-wanted[last])*g.weight < fetchLeastBytes {
		last++
	}
	return int32(min(max((wanted[last]-wanted[0]+1)*g.weight*2, fetchLeastBytes), excerptBytes))
}

// own is a record with memory of its own: that of a fetch is shared by all that came with it.
func own(r *kgo.Record) *kgo.Record {
	c := *r
	c.Key, c.Value, c.Headers = slices.Clone(r.Key), slices.Clone(r.Value), slices.Clone(r.Headers)
	for i, h := range c.Headers {
		c.Headers[i].Value = slices.Clone(h.Value)
	}
	return &c
}
