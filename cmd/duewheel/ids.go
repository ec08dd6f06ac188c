package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// A sample of a delay topic is its last records, as many of each partition, and what of them comes in time: `topics check` is not to read a
// log of millions, nor to wait for a partition without a leader.
const (
	sampleRecords = 10_000
	sampleTime    = 3 * time.Second
)

// sampleOpts are those of a client that reads samples.
func sampleOpts() []kgo.Opt {
	return []kgo.Opt{
		kgo.KeepControlRecords(), // so that a log that ends in a marker is seen to its end
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(8 << 20),
		kgo.FetchMaxPartitionBytes(4 << 20),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}), // added when it is known from where on
	}
}

// sampled is what is looked for among the last records of a delay topic.
type sampled interface {
	add(*kgo.Record)
	problem() (topics.Problem, bool)
}

// sampleTopics warns of every delay topic in whose last records one id with one key lies in two partitions: an id is known in its partition
// alone, so both wait. And of every retry topic to which a record comes again and again without the number of its attempt. What cannot be read is left out.
func sampleTopics(ctx context.Context, cl *kgo.Client, want topics.Expect) ([]topics.Problem, error) {
	found := map[string]sampled{}
	for _, r := range want.Routes {
		switch {
		case r.Retry != nil:
			found[r.Topic] = &trips{route: r, of: map[[sha256.Size]byte]int{}}
		case r.Delay == 0: // else there are no ids
			found[r.Topic] = &scatter{route: r, at: map[idAndKey]int32{}}
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	var last []span
	for topic := range found {
		spans, err := lastOf(ctx, newPatient(cl), topic)
		if err == nil { // else it was told already that the topic cannot be read
			last = append(last, spans...)
		}
	}
	sample(ctx, cl, last, func(r *kgo.Record) { found[r.Topic].add(r) })
	var problems []topics.Problem
	for _, topic := range sorted(found) {
		if p, is := found[topic].problem(); is {
			problems = append(problems, p)
		}
	}
	return problems, ctx.Err()
}

// lastOf are the parts of a topic that make up its sample.
func lastOf(ctx context.Context, adm *patient, topic string) (all []span, err error) {
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		start, ok := starts.Lookup(end.Topic, end.Partition)
		if !ok || start.Err != nil || end.Err != nil {
			return
		}
		each := max(sampleRecords/int64(len(ends[end.Topic])), 1)
		if s := (span{topic: end.Topic, partition: end.Partition, from: max(start.Offset, end.Offset-each), end: end.Offset}); s.from < s.end {
			all = append(all, s)
		}
	})
	return all, nil
}

// sample calls fn with each record of the spans that comes in time.
func sample(ctx context.Context, cl *kgo.Client, all []span, fn func(*kgo.Record)) {
	type partition struct {
		topic  string
		number int32
	}
	ends, from := map[partition]int64{}, map[string]map[int32]kgo.Offset{}
	for _, s := range all {
		ends[partition{s.topic, s.partition}] = s.end
		if from[s.topic] == nil {
			from[s.topic] = map[int32]kgo.Offset{}
		}
		from[s.topic][s.partition] = kgo.NewOffset().At(s.from)
	}
	cl.AddConsumePartitions(from)
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	for len(ends) > 0 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachPartition(func(p kgo.FetchTopicPartition) {
			at := partition{p.Topic, p.Partition}
			end, wanted := ends[at]
			for _, r := range p.Records {
				if wanted && r.Offset < end && !r.Attrs.IsControl() {
					fn(r)
				}
				if r.Offset+1 >= end {
					delete(ends, at)
				}
			}
			if p.Err != nil {
				delete(ends, at)
			}
		})
	}
}

// idAndKey is what lies in one partition where all producers choose in one way.
type idAndKey struct {
	id, key string
	hasKey  bool
}

// scatter is what of a sample lies in two partitions.
type scatter struct {
	route *topics.Route
	at    map[idAndKey]int32 // where each was seen first

	ids  int // that lie in two partitions
	one  idAndKey
	in   []int32 // the partitions of that one
	seen map[idAndKey]bool
}

func (s *scatter) add(r *kgo.Record) {
	q, err := s.route.Parser().Parse(r.Headers, topics.StampOf(r), r.Offset, topics.NewMark([4]byte{}, "", r.Partition))
	if err != nil || q.Kind != topics.KindRequest || q.ID == nil {
		return
	}
	name := idAndKey{string(q.ID), string(r.Key), r.Key != nil}
	first, known := s.at[name]
	switch {
	case !known:
		s.at[name] = r.Partition
	case first != r.Partition && !s.seen[name]:
		if s.seen == nil {
			s.seen, s.one, s.in = map[idAndKey]bool{}, name, []int32{first, r.Partition}
			slices.Sort(s.in)
		}
		s.seen[name] = true
		s.ids++
	}
}

func (s *scatter) problem() (topics.Problem, bool) {
	if s.ids == 0 {
		return topics.Problem{}, false
	}
	id, key := shownID(s.one.id), shownID(s.one.key)
	which := fmt.Sprintf("id %s (key %s)", id, key)
	why := "an id is looked for in one partition only, so both records wait and both are delivered. Either their producers choose partitions differently, or partitions were added between the two"
	mend := "have all producers choose partitions as Java does; with kcat and other clients of librdkafka: -X partitioner=murmur2_random"
	switch {
	case s.route.Keyed:
		which = fmt.Sprintf("key %s, which is the id,", key)
	case !s.one.hasKey:
		which = fmt.Sprintf("id %s (no key)", id)
		why = "an id is looked for in one partition only, so both records wait and both are delivered. A record without a key may go to any partition"
		mend = "give all records of one id the same key"
	}
	what := fmt.Sprintf("%s is in partitions %d and %d", which, s.in[0], s.in[1])
	if s.ids > 1 {
		what += fmt.Sprintf("; of the %d ids looked at, %d are in more than one partition", len(s.at), s.ids)
	}
	return topics.Problem{Severity: topics.Warning, Topic: s.route.Topic, What: what, Why: why, Mend: mend}, true
}

// shownID is an id or a key as a line shows it: an id may have 256 bytes, and a key as many as a record.
func shownID(s string) string { return strconv.Quote(brief([]byte(s), 60)) }
