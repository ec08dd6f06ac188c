package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// letters reads dead letter topics: one partition after the other, each in the order of its log, up to the
// end as it was when it was asked for. So what it holds does not depend on how much there is.
type letters struct {
	cl      *kgo.Client
	adm     *patient
	boxes   boxes
	brokers []string
}

// span is a part of a partition: from an offset up to, but without, its end.
type span struct {
	topic     string
	partition int32
	from, end int64
	id        kafka.TopicID
}

// spans are the partitions of the dead letter topics as they are now: up to what is committed. A topic of the
// configuration that is not there is missing; one that was asked for by name must be.
func (l *letters) spans(ctx context.Context, mustExist bool) (all []span, missing []string, err error) {
	if err := reach(ctx, l.cl, l.brokers); err != nil {
		return nil, nil, err
	}
	details, err := listTopics(ctx, l.adm, l.boxes.topics...)
	if err != nil {
		return nil, nil, fmt.Errorf("list topics: %w", err)
	}
	var there []string
	for _, topic := range l.boxes.topics {
		switch err := details[topic].Err; {
		case errors.Is(err, kerr.UnknownTopicOrPartition) && !mustExist:
			missing = append(missing, topic)
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			return nil, nil, fmt.Errorf("the topic %s does not exist", topic)
		case err != nil:
			return nil, nil, askFor("Read", fmt.Errorf("topic %s: %w", topic, err), topic)
		default:
			there = append(there, topic)
		}
	}
	if len(there) == 0 {
		return nil, missing, nil // kadm takes none for all
	}
	starts, err := l.adm.ListStartOffsets(ctx, there...)
	if err != nil {
		return nil, nil, fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := l.adm.ListCommittedOffsets(ctx, there...)
	if err != nil {
		return nil, nil, fmt.Errorf("list end offsets: %w", err)
	}
	for _, topic := range there {
		for _, p := range details[topic].Partitions.Numbers() {
			start, end, err := boundsOf(starts, ends, topic, p)
			if err != nil {
				return nil, nil, err
			}
			all = append(all, span{topic, p, start, end, kafka.TopicID(details[topic].ID)})
		}
	}
	return all, missing, nil
}

// since skips what was written before a time.
func (l *letters) since(ctx context.Context, all []span, t time.Time) error {
	var names []string
	for _, s := range all {
		names = append(names, s.topic)
	}
	if t.IsZero() || len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	listed, err := l.adm.ListOffsetsAfterMilli(ctx, max(t.UnixMilli(), 0), slices.Compact(names)...)
	if err != nil {
		return fmt.Errorf("list offsets: %w", err)
	}
	for i := range all {
		// The first one at or after the time: what lies below it is older, in whatever order times are.
		if at, ok := listed.Lookup(all[i].topic, all[i].partition); ok && at.Err == nil {
			all[i].from = max(all[i].from, at.Offset)
		}
	}
	return nil
}

// resolve gives a place the topic that it leaves out.
func (l *letters) resolve(text string) (position, error) {
	p, err := parsePlace(text)
	switch {
	case err != nil:
		return p, err
	case p.topic == "" && len(l.boxes.topics) > 1:
		return p, fmt.Errorf("%s may be in %s: write <topic>/%[1]s, or choose a topic with -t", text, strings.Join(l.boxes.topics, " or "))
	case p.topic == "":
		p.topic = l.boxes.topics[0]
	case !slices.Contains(l.boxes.topics, p.topic):
		return p, fmt.Errorf("%s is in none of the dead letter topics; those are %s", p, strings.Join(l.boxes.topics, ", "))
	}
	return p, nil
}

// onwards leaves out what lies before a place. The spans are in the order of places.
func onwards(all []span, from position) ([]span, error) {
	var kept []span
	found := false
	for _, s := range all {
		if s.topic == from.topic && s.partition == from.partition {
			found = true
			s.from = max(s.from, from.offset)
		}
		if found {
			kept = append(kept, s)
		}
	}
	if !found {
		return nil, fmt.Errorf("%s has no partition %d", from.topic, from.partition)
	}
	return kept, nil
}

// noteBeyond says that a place to begin with lies beyond what its partition has; "" where it does not.
func noteBeyond(all []span, from position) string {
	for _, s := range all {
		if s.topic == from.topic && s.partition == from.partition && from.offset >= s.end {
			return fmt.Sprintf("note: %s/%d ends at offset %d: nothing of it lies at or behind --from %s", s.topic, s.partition, s.end, from)
		}
	}
	return ""
}

// errEnough ends a reading that has seen what it was for.
var errEnough = errors.New("enough")

// read calls fn with each record of a span, markers of transactions included, until it returns an error.
func (l *letters) read(ctx context.Context, s span, fn func(*kgo.Record) error) error {
	if s.from >= s.end {
		return nil
	}
	var failed error
	err := ahead.Read(ctx, l.cl, kafka.TopicPartition{Topic: s.topic, Partition: s.partition}, s.id, s.from, s.end, func(r *kgo.Record) bool {
		failed = fn(r)
		return failed == nil
	}, nil)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		err = fmt.Errorf("%w: they were removed while they were read", err)
	}
	return cmp.Or(failed, askFor("Read", err, s.topic))
}

// each calls fn with each dead letter of the spans, and tells how many other records there were.
func (l *letters) each(ctx context.Context, all []span, fn func(*letter) error) (others int, err error) {
	for _, s := range all {
		err := l.read(ctx, s, func(r *kgo.Record) error {
			if r.Attrs.IsControl() {
				return ctx.Err()
			}
			if found := l.boxes.read(r); found != nil {
				return fn(found)
			}
			others++
			return nil
		})
		if errors.Is(err, errEnough) {
			return others, nil
		}
		if err != nil {
			return others, err
		}
	}
	return others, nil
}

// at returns the dead letter that lies at a place.
func (l *letters) at(ctx context.Context, all []span, p position) (*letter, error) {
	i := slices.IndexFunc(all, func(s span) bool { return s.topic == p.topic && s.partition == p.partition })
	if i < 0 {
		return nil, fmt.Errorf("%s has no partition %d", p.topic, p.partition)
	}
	s := all[i]
	if p.offset < s.from || p.offset >= s.end {
		if s.from >= s.end {
			return nil, findings{fmt.Errorf("there is no dead letter at %s: the partition is empty", p)}
		}
		return nil, findings{fmt.Errorf("there is no dead letter at %s: the partition has offsets %d to %d", p, s.from, s.end-1)}
	}
	var found *letter
	s.from = p.offset
	err := l.read(ctx, s, func(r *kgo.Record) error {
		if r.Offset != p.offset || r.Attrs.IsControl() {
			return errEnough
		}
		if found = l.boxes.read(r); found == nil {
			return fmt.Errorf("%s is not a dead letter of duewheel: it has no __delay.errors.topic, .partition and .code", p)
		}
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if found == nil {
		return nil, findings{fmt.Errorf("there is no dead letter at %s: no record of a committed transaction has that offset", p)}
	}
	return found, nil
}

// noteOthers says what else was in a dead letter topic.
func noteOthers(others int) string {
	if others == 1 {
		return "note: 1 record is not a dead letter of duewheel and was passed over"
	}
	return fmt.Sprintf("note: %d records are not dead letters of duewheel and were passed over", others)
}
