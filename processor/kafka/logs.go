package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrNoPartition means that a topic has not got a partition of this number. It had, if that is assigned: it was deleted and made anew with fewer.
var ErrNoPartition = errors.New("kafka: the topic has fewer partitions")

// kadm makes one error of an answer in which a single topic is forbidden to us. What is asked of several topics is told of each by itself here.

// TopicIDs looks up the ids of topics (KIP-516). The error is about those that it leaves out.
func TopicIDs(ctx context.Context, cl *kgo.Client, tps []TopicPartition) (map[TopicPartition]TopicID, error) {
	if len(tps) == 0 {
		return nil, nil // a request without topics is for all of them
	}
	names := map[string]bool{}
	for _, tp := range tps {
		names[tp.Topic] = true
	}
	resp, err := cl.RequestCachedMetadata(ctx, MetadataOf(slices.Collect(maps.Keys(names))), 0)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	told := map[string]kmsg.MetadataResponseTopic{}
	for _, t := range resp.Topics {
		if t.Topic != nil {
			told[*t.Topic] = t
		}
	}
	ids := map[TopicPartition]TopicID{}
	for _, tp := range tps {
		t, ok := told[tp.Topic]
		if refusal := kerr.ErrorForCode(t.ErrorCode); !ok || refusal != nil {
			err = fmt.Errorf("metadata of %s: %w", tp.Topic, cmp.Or(refusal, error(kerr.UnknownTopicOrPartition)))
			continue
		}
		if TopicID(t.TopicID) == (TopicID{}) {
			err = fmt.Errorf("metadata of %s: %w: a broker that does not tell ids of topics has joined the cluster", tp.Topic, ErrBrokersTooOld)
			continue
		}
		if !slices.ContainsFunc(t.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Partition == tp.Partition }) {
			err = fmt.Errorf("%w: %s has %d of them, and %s is assigned", ErrNoPartition, tp.Topic, len(t.Partitions), tp)
			continue
		}
		ids[tp] = t.TopicID
	}
	return ids, err
}

// MetadataOf asks for topics by their names. Without any it asks for all.
func MetadataOf(topics []string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// FindTopics returns the id of each topic, or the zero id where brokers say that the topic does not exist. Topics about which they do not answer
// are left out.
func FindTopics(ctx context.Context, cl *kgo.Client, topics []string) (map[string]TopicID, error) {
	resp, err := MetadataOf(topics).RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	found := map[string]TopicID{}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); t.Topic != nil && errors.Is(err, kerr.UnknownTopicOrPartition) {
			found[*t.Topic] = TopicID{}
		} else if t.Topic != nil && err == nil && t.TopicID != [16]byte{} {
			found[*t.Topic] = t.TopicID
		}
	}
	return found, nil
}

// Bounds is where the log of one partition begins and ends.
type Bounds struct {
	Start  int64     // the offset of the first record that is kept
	Stable int64     // the last stable offset (KIP-98): no transaction that is open lies below
	High   int64     // the high watermark
	Epoch  int32     // of the leader that said what that is (KIP-320); negative: it does not say
	Asked  time.Time // before the first of them was asked for
	Err    error     // what the leader answered instead, or that it did not
}

// AskBounds asks where the logs of partitions begin and end, all at the same time: each answer was true at some time since Asked, and none
// contradicts another. The error is that no leader has answered.
func AskBounds(ctx context.Context, cl *kgo.Client, tps []TopicPartition) (map[TopicPartition]Bounds, error) {
	out := make(map[TopicPartition]Bounds, len(tps))
	if len(tps) == 0 {
		return out, nil // as above
	}
	of := map[string][]TopicPartition{}
	for _, tp := range tps {
		of[tp.Topic] = append(of[tp.Topic], tp)
	}
	names := slices.Sorted(maps.Keys(of))
	adm := patient(cl)
	asked := time.Now()
	var starts, stables, highs kadm.ListedOffsets
	var errs [3]error
	var all sync.WaitGroup
	ask := func(what string, list func(context.Context, ...string) (kadm.ListedOffsets, error), into *kadm.ListedOffsets, err *error) {
		all.Go(func() {
			if *into, *err = answered(list(ctx, names...)); *err != nil {
				*err = fmt.Errorf("%s of %s: %w", what, strings.Join(names, ", "), *err)
			}
		})
	}
	ask("start of logs", adm.ListStartOffsets, &starts, &errs[0])
	ask("last stable offsets", adm.ListCommittedOffsets, &stables, &errs[1])
	ask("high watermarks", adm.ListEndOffsets, &highs, &errs[2])
	all.Wait()
	if err := cmp.Or(errs[:]...); err != nil {
		if errors.Is(err, kerr.TopicAuthorizationFailed) && len(names) > 1 {
			return boundsApart(ctx, cl, of), nil
		}
		return nil, err
	}
	for _, tp := range tps {
		s, ok1 := starts.Lookup(tp.Topic, tp.Partition)
		c, ok2 := stables.Lookup(tp.Topic, tp.Partition)
		h, ok3 := highs.Lookup(tp.Topic, tp.Partition)
		b := Bounds{Start: s.Offset, Stable: max(s.Offset, c.Offset), Epoch: h.LeaderEpoch, Asked: asked, Err: errors.Join(s.Err, c.Err, h.Err)}
		b.High = max(b.Stable, h.Offset)
		if !ok1 || !ok2 || !ok3 {
			b.Err = kerr.LeaderNotAvailable
		}
		if b.Err != nil {
			b.Err = fmt.Errorf("ends of %s: %w", tp, b.Err)
		}
		out[tp] = b
	}
	return out, nil
}

// boundsApart asks where the logs of each topic begin and end by itself, since one of them is forbidden.
func boundsApart(ctx context.Context, cl *kgo.Client, of map[string][]TopicPartition) map[TopicPartition]Bounds {
	out := map[TopicPartition]Bounds{}
	for _, tps := range of {
		some, err := AskBounds(ctx, cl, tps)
		for _, tp := range tps {
			if out[tp] = some[tp]; err != nil {
				out[tp] = Bounds{Err: err}
			}
		}
	}
	return out
}

// AskEpochs asks of partitions where in their logs a leader epoch ends, and older ones do (KIP-320): what lies below was read from a leader of that epoch
// as it is there now, and an offset above was read from one whose log has been given up since. An end of -1 is that of an epoch of which the leader does not
// know, or does not want to tell; what is absent was not answered, and is worth another try, or was not asked for. The error is about those.
func AskEpochs(ctx context.Context, cl *kgo.Client, of map[TopicPartition]int32) (ends map[TopicPartition]int64, err error) {
	var ask kadm.OffsetForLeaderEpochRequest
	for tp, epoch := range of {
		if epoch >= 0 {
			ask.Add(tp.Topic, tp.Partition, epoch)
		}
	}
	ends = map[TopicPartition]int64{}
	if len(ask) == 0 {
		return ends, nil
	}
	got, err := patient(cl).OffsetForLeaderEpoch(ctx, ask)
	if errors.Is(err, kerr.TopicAuthorizationFailed) && len(ask) > 1 {
		return epochsApart(ctx, cl, of)
	}
	never := refused(err)
	if never {
		err = nil
	}
	for tp, epoch := range of {
		switch e, ok := got[tp.Topic][tp.Partition]; {
		case epoch < 0:
		case ok && (e.Err == nil || refused(e.Err)):
			ends[tp] = max(-1, e.EndOffset)
		case ok:
			err = fmt.Errorf("end of leader epoch %d of %s: %w", epoch, tp, e.Err)
		case never:
			ends[tp] = -1
		case err == nil:
			err = fmt.Errorf("end of leader epoch %d of %s: %w", epoch, tp, kerr.LeaderNotAvailable)
		}
	}
	return ends, err
}

// epochsApart asks where epochs end of each topic by itself, since one of them is forbidden: what it refuses is no answer about the others.
func epochsApart(ctx context.Context, cl *kgo.Client, of map[TopicPartition]int32) (ends map[TopicPartition]int64, err error) {
	apart := map[string]map[TopicPartition]int32{}
	for tp, epoch := range of {
		if apart[tp.Topic] == nil {
			apart[tp.Topic] = map[TopicPartition]int32{}
		}
		apart[tp.Topic][tp] = epoch
	}
	ends = map[TopicPartition]int64{}
	for _, some := range apart {
		of, why := AskEpochs(ctx, cl, some)
		maps.Copy(ends, of)
		err = cmp.Or(err, why)
	}
	return ends, err
}

// refused reports an answer that will be the same the next time.
func refused(err error) bool {
	var of *kerr.Error
	return errors.As(err, &of) && !of.Retriable
}

// TellsEpochs reports whether the leader of a partition tells ends of leader epochs as they are: its own ends where the log does, at or above a high
// watermark that was heard before. There are services that answer 0 whatever is asked.
func TellsEpochs(ctx context.Context, cl *kgo.Client, tp TopicPartition, high int64) (bool, error) {
	md, err := kadm.NewClient(cl).Metadata(ctx, tp.Topic)
	if err != nil {
		return false, fmt.Errorf("leader epoch of %s: %w", tp, err)
	}
	of := md.Topics[tp.Topic].Partitions[tp.Partition]
	if of.LeaderEpoch < 0 {
		return false, nil
	}
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	t, p := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = tp.Partition, of.LeaderEpoch, of.LeaderEpoch // fenced, where there is a newer leader
	t.Topic, t.Partitions = tp.Topic, append(t.Partitions, p)
	req.ReplicaID, req.Topics = -1, append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && (len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1) {
		err = kerr.UnknownTopicOrPartition
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if refused(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("end of leader epoch %d of %s: %w", of.LeaderEpoch, tp, err)
	}
	end := resp.Topics[0].Partitions[0].EndOffset
	if 0 < end && end < high { // no service that says 0: the log has moved, or a leader that is none any more has told of its end
		return false, fmt.Errorf("leader epoch %d of %s ends at %d, and the log at %d: %w", of.LeaderEpoch, tp, end, high, kerr.NotLeaderForPartition)
	}
	return end >= high, nil
}

// BoundsOf asks the leader of one partition where its log begins and ends. AskBounds asks of whole topics.
func BoundsOf(ctx context.Context, leader *kgo.Broker, tp TopicPartition) (b Bounds, err error) {
	const earliest, latest = -2, -1
	b.Asked = time.Now()
	for _, ask := range []struct {
		into      *int64
		timestamp int64
		isolation int8
	}{{&b.Start, earliest, 0}, {&b.Stable, latest, 1}, {&b.High, latest, 0}} {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID, req.IsolationLevel, req.TimeoutMillis = -1, ask.isolation, int32(BrokerPatience.Milliseconds())
		t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = tp.Partition, ask.timestamp, -1
		t.Topic, t.Partitions = tp.Topic, append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := req.RequestWith(ctx, leader)
		if err == nil && (len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1) {
			err = kerr.UnknownTopicOrPartition
		}
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			return b, fmt.Errorf("ends of %s: %w", tp, err)
		}
		*ask.into = resp.Topics[0].Partitions[0].Offset
	}
	return b, nil
}

// OffsetsAfter says of the partitions of a topic which the first record is whose timestamp is not below a time in ms; where there is none, where
// the log ends. The error is that no leader has answered: what is said of a partition may be an error, or lacking, without it.
func OffsetsAfter(ctx context.Context, cl *kgo.Client, topic string, milli int64) (kadm.ListedOffsets, error) {
	return answered(patient(cl).ListOffsetsAfterMilli(ctx, milli, topic))
}

// patient asks with no more time for brokers than they are to have. ListOffsets has a time of its own, for what lies in a remote tier, and until that
// is over all that follows on the connection waits: kadm allows for 15 s.
func patient(cl *kgo.Client) *kadm.Client {
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(int32(BrokerPatience.Milliseconds()))
	return adm
}

// answered makes do with the brokers that have answered, if any has.
func answered(listed kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if some, ok := errors.AsType[*kadm.ShardErrors](err); ok && !some.AllFailed {
		return listed, nil
	}
	return listed, err
}

// Epochs knows whether brokers can be asked where leader epochs end; they cannot, until it is told so. Every goroutine may use it.
type Epochs struct{ told atomic.Bool }

// Tell tells whether they can be asked.
func (e *Epochs) Tell(told bool) { e.told.Store(told) }

// Comparable is a leader epoch, or -1 where brokers cannot be asked where it ends.
func (e *Epochs) Comparable(epoch int32) int32 {
	if e.told.Load() {
		return epoch
	}
	return -1
}

// Lost reports whether a log whose high watermark was heard has lost what lies from until to an offset, and had been read in an epoch.
func (e *Epochs) Lost(ctx context.Context, cl *kgo.Client, tp TopicPartition, epoch int32, offset, high int64) (until int64, lost bool, err error) {
	if e.Comparable(epoch) < 0 {
		return 0, false, nil
	}
	ends, err := AskEpochs(ctx, cl, map[TopicPartition]int32{tp: epoch})
	if err != nil {
		return 0, false, err
	}
	if until = ends[tp]; until < 0 || offset <= until {
		return 0, false, nil
	}
	lost, err = TellsEpochs(ctx, cl, tp, high)
	return until, lost, err
}
