package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// remoteMaxWait is how long a broker may take to read what lies in tiered storage (KIP-405). Before Kafka 3.8 (KIP-1018) that is bounded by what a fetch
// itself waits for, so one that waits for nothing never gets it.
const remoteMaxWait = time.Second

// FetchOnce reads once from an offset of a partition, up to about so many bytes; a larger batch comes all the same. It answers what is
// committed, as the broker sends it, for Decode. While a quota leaves nothing of it (KIP-219) it is asked again as soon as the client may.
func FetchOnce(ctx context.Context, leader *kgo.Broker, tp TopicPartition, id TopicID, from int64, atMost int32) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.IsolationLevel, req.SessionEpoch = -1, atMost, 1, -1
	req.MinBytes, req.MaxWaitMillis = 0, int32(remoteMaxWait.Milliseconds()) // it waits for nothing else
	t, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = tp.Partition, from, atMost
	t.Topic, t.TopicID, t.Partitions = tp.Topic, id, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	var resp *kmsg.FetchResponse
	for resp == nil || len(resp.Topics) == 0 && resp.ErrorCode == 0 && resp.ThrottleMillis > 0 {
		kresp, err := Ask(ctx, leader, req)
		if err != nil {
			return nil, err
		}
		resp = kresp.(*kmsg.FetchResponse)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, kerr.UnknownTopicOrPartition
	}
	got := &resp.Topics[0].Partitions[0]
	return got, kerr.ErrorForCode(got.ErrorCode)
}

// Decode returns the records of an answer from an offset on, markers of transactions included, and the offset up to which there is nothing
// else that is committed. Records of pools are to be recycled.
func Decode(tp TopicPartition, from int64, answer *kmsg.FetchResponseTopicPartition, pools ...kgo.Pool) (records []*kgo.Record, next int64, err error) {
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: from, IsolationLevel: kgo.ReadCommitted(), Topic: tp.Topic, Partition: tp.Partition, Pools: pools,
	}, answer, kgo.DefaultDecompressor(), nil)
	return got.Records, next, got.Err
}

// DecodeSome is Decode, but for batches that follow when so many bytes were decompressed: a batch may inflate to a thousand times what it takes in the
// log. One at least is decoded.
func DecodeSome(tp TopicPartition, from int64, answer *kmsg.FetchResponseTopicPartition, atMost int) (records []*kgo.Record, next int64, err error) {
	d := &bounded{Decompressor: kgo.DefaultDecompressor(), left: atMost}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: from, IsolationLevel: kgo.ReadCommitted(), Topic: tp.Topic, Partition: tp.Partition,
	}, answer, d, nil)
	if d.left <= 0 && next > from && errors.Is(got.Err, errEnough) {
		got.Err = nil // the client takes it for one that was cut off, unless all before was aborted
	}
	return got.Records, next, got.Err
}

// errEnough ends decoding.
var errEnough = errors.New("kafka: enough was decompressed")

// bounded decompresses until it has made so many bytes.
type bounded struct {
	kgo.Decompressor
	left int
}

// Decompress implements kgo.Decompressor.
func (b *bounded) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if b.left <= 0 {
		return nil, errEnough
	}
	out, err := b.Decompressor.Decompress(src, codec)
	b.left -= len(out)
	return out, err
}

// Beyond is the offset behind the whole batches of an answer, without a look into them; from where there are none.
func Beyond(from int64, answer *kmsg.FetchResponseTopicPartition) int64 {
	for in := range batches(answer) {
		last := int64(binary.BigEndian.Uint64(in))
		if in[16] == 2 { // else it is a message of Kafka before 0.11
			last += int64(int32(binary.BigEndian.Uint32(in[23:])))
		}
		from = max(from, last+1)
	}
	return from
}

// EpochOf is the leader epoch of the newest whole batch of an answer; -1 where there is none, or the batches are older than epochs are.
func EpochOf(answer *kmsg.FetchResponseTopicPartition) int32 {
	epoch := int32(-1)
	for in := range batches(answer) {
		if in[16] == 2 {
			epoch = max(epoch, int32(binary.BigEndian.Uint32(in[12:])))
		}
	}
	return epoch
}

// batches are the whole batches of an answer; the rest comes with the next one.
func batches(answer *kmsg.FetchResponseTopicPartition) iter.Seq[[]byte] {
	const header = 8 + 4 + 4 + 1 + 4 + 2 + 4 // base offset, length, leader epoch, magic, CRC, attributes, last offset's delta
	return func(yield func([]byte) bool) {
		for in := answer.RecordBatches; len(in) >= header; {
			size := 12 + int64(int32(binary.BigEndian.Uint32(in[8:])))
			if size < header || size > int64(len(in)) || !yield(in[:size]) {
				return
			}
			in = in[size:]
		}
	}
}

// LeaderOf is the broker that leads a partition, as far as the client knows: it may have heard that some time ago (kgo.MetadataMinAge).
func LeaderOf(ctx context.Context, cl *kgo.Client, tp TopicPartition) (*kgo.Broker, error) {
	md, err := kadm.NewClient(cl).Metadata(ctx, tp.Topic)
	if err != nil {
		return nil, fmt.Errorf("leader of %s: %w", tp, err)
	}
	p, ok := md.Topics[tp.Topic].Partitions[tp.Partition]
	if err := errors.Join(md.Topics[tp.Topic].Err, p.Err); err != nil || !ok {
		return nil, fmt.Errorf("leader of %s: %w", tp, cmp.Or[error](err, kerr.UnknownTopicOrPartition))
	}
	return cl.Broker(int(p.Leader)), nil
}
