package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/topics"
)

// auditRow is what a record of the audit topic tells: docs/requests.md.
type auditRow struct {
	Event           string `json:"event"`
	At              int64  `json:"at"` // ms since the epoch
	Group           string `json:"group"`
	Topic           string `json:"topic"`
	By              string `json:"by,omitempty"`
	Code            string `json:"code,omitempty"`
	Message         string `json:"message,omitempty"`
	Target          string `json:"target,omitempty"`
	TargetPartition *int32 `json:"target_partition,omitempty"`
	TargetOffset    *int64 `json:"target_offset,omitempty"`
	NextDue         int64  `json:"next_due,omitempty"`
}

// more says what an event tells besides its name.
func (a *auditRow) more() string {
	text := ""
	if a.Target != "" {
		text += " in " + a.Target
		if a.TargetPartition != nil && a.TargetOffset != nil {
			text += fmt.Sprintf("/%d@%d", *a.TargetPartition, *a.TargetOffset)
		}
	}
	if a.By != "" {
		text += " by " + a.By
	}
	if a.NextDue > 0 {
		text += ", due again at " + formatMillis(a.NextDue)
	}
	if a.Code != "" {
		text += ": " + a.Code + ": " + a.Message
	}
	return text
}

// outcomeOf is what was told last; nil: nothing, or no more than that the record was accepted.
func outcomeOf(told []auditRow) *auditRow {
	if len(told) == 0 || told[len(told)-1].Event == topics.AuditAccepted.String() {
		return nil
	}
	return &told[len(told)-1]
}

// printAudit prints what the audit topic tells, if it does, with the times of a zone.
func printAudit(w io.Writer, told []auditRow, zone *time.Location) {
	if len(told) == 0 {
		return
	}
	fmt.Fprintln(w, "audit")
	for _, a := range told {
		fmt.Fprintf(w, "  %s\t%s\n", zoned(time.UnixMilli(a.At).In(zone)), visible(a.Event+a.more()))
	}
}

// auditing is what a view does with the audit topic.
type auditing struct{ *view }

// lookUp reads what the audit topic tells of a record, if it can until a time. Its records have the handle for a key, so they are in one partition.
func (v auditing) lookUp(ctx context.Context, topic string, one *foundRecord, until time.Time) {
	name, known := v.nameOf(one)
	if topic == "" || one.record == nil || !known {
		return
	}
	v.others = map[string]auditRow{}
	defer func() {
		if one.fate.State != ahead.IsPending || one.got.Fresh {
			v.noteOthers(one.audit)
		}
	}()
	since, asked := one.record.Timestamp, name.Due
	if _, as, is := one.got.Mark().Written(one.record.Headers, one.record.Offset); is { // it stands for a request, which is told of
		first := foundRecord{got: one.got, fate: ahead.Fate{Found: ahead.Found{Offset: as.Origin.Offset, Due: as.Origin.Due}}}
		name, since = v.handleOf(&first), time.UnixMilli(max(as.Origin.Timestamp, 0))
		asked = as.Origin.Due
	}
	due := time.UnixMilli(asked)
	since = toldSince(since, due, v.Now)
	if one.fate.State != ahead.IsResolved && !one.fate.Guess || !since.Before(due) || due.After(v.Now) {
		one.audit, _ = v.of(ctx, topic, one.got.Topic, name.String(), auditPart{since: since}, until)
		return
	}
	// Most have an outcome when they were due, and much may have been told of others before that.
	var read bool
	one.audit, read = v.of(ctx, topic, one.got.Topic, name.String(), auditPart{since: due, usual: true}, time.Now().Add(time.Until(until)/2))
	switch {
	case !read: // so it is said
	case outcomeOf(one.audit) == nil:
		one.audit, _ = v.of(ctx, topic, one.got.Topic, name.String(), auditPart{since: since}, until)
	default:
		earlier, _ := v.of(ctx, topic, one.got.Topic, name.String(), auditPart{since: since, before: due, usual: true}, until)
		one.audit = append(earlier, one.audit...)
	}
}

// toldSince is since when it may have been told what became of a request. A timestamp that is later than it was due says less than that: its clock was
// ahead. One that has not come yet says nothing.
func toldSince(written, due, now time.Time) time.Time {
	if due.Before(written) {
		written = due
	}
	if written.After(now) {
		return time.UnixMilli(0)
	}
	return written
}

// auditPart says which part of an audit topic is read.
type auditPart struct {
	since  time.Time
	before time.Time // zero: all that follows
	usual  bool      // only the partition in which a handle is told of now; that not all was read is not said
}

// nameOf is the handle by which the audit topic tells of a record: where its due time is not known, the one that it was found by, if any.
func (v auditing) nameOf(one *foundRecord) (h topics.Handle, known bool) {
	if one.fate.Due > 0 {
		return v.handleOf(one), true
	}
	return one.named, one.named.Due > 0 && !one.other
}

// of is what an audit topic tells of a handle in a delay topic, if it could be read.
func (v auditing) of(ctx context.Context, topic, of, key string, part auditPart, until time.Time) (rows []auditRow, read bool) {
	rows, err := v.read(ctx, topic, of, key, part, until)
	if err != nil {
		fmt.Fprintf(v.stderr, "note: the audit topic %s was not read: %v\n", topic, v.advise(err, topic))
	}
	return rows, err == nil
}

func (v auditing) read(ctx context.Context, topic, of, key string, part auditPart, until time.Time) (rows []auditRow, err error) {
	adm := newPatient(v.cl)
	details, err := adm.ListTopics(ctx, topic)
	d := details[topic]
	switch {
	case err != nil:
		return nil, err
	case errors.Is(d.Err, kerr.UnknownTopicOrPartition):
		return nil, errors.New("it does not exist")
	case d.Err != nil:
		return nil, d.Err
	}
	from, err := adm.ListOffsetsAfterMilli(ctx, max(part.since.Add(-v.Skew).UnixMilli(), 0), topic) // brokers take what is negative for something else
	var to kadm.ListedOffsets
	if err == nil && !part.before.IsZero() {
		to, err = adm.ListOffsetsAfterMilli(ctx, part.before.Add(-v.Skew).UnixMilli(), topic)
	}
	if err != nil {
		return nil, err
	}
	left := int64(0)
	usual := auditPartition(topic, key, len(d.Partitions))
	rows, left, err = v.readOne(ctx, kafka.TopicPartition{Topic: topic, Partition: usual}, d.ID, from, to, of, key, until)
	if part.usual {
		return rows, err
	}
	for p := range int32(len(d.Partitions)) { // nothing is told there: it may have been before partitions were added
		if p == usual || err != nil || len(rows) > 0 || left > 0 || time.Now().After(until) {
			continue
		}
		rows, left, err = v.readOne(ctx, kafka.TopicPartition{Topic: topic, Partition: p}, d.ID, from, to, of, key, until)
	}
	if err == nil && left > 0 {
		fmt.Fprintf(v.stderr, "note: %s of the audit topic were not read (--patience)\n", count(left, "record"))
	}
	return rows, err
}

// noteOthers says what other groups have told of a record of which this one has told no end: the group may have had such a name in between.
func (v auditing) noteOthers(told []auditRow) {
	if outcomeOf(told) != nil {
		return
	}
	for _, group := range slices.Sorted(maps.Keys(v.others)) {
		if last := v.others[group]; last.Event != topics.AuditAccepted.String() {
			fmt.Fprintf(v.stderr, "note: the group %s has told of it that it was %s; that counts if it is a former name of this one\n", visible(group), visible(last.Event+last.more()))
		}
	}
}

// auditPartition is where events of a handle are written to, as long as the audit topic has so many partitions.
func auditPartition(topic, key string, partitions int) int32 {
	return int32(producer.Partitioner().ForTopic(topic).Partition(&kgo.Record{Key: []byte(key), Partition: producer.AnyPartition}, partitions))
}

// readOne reads what one partition of the audit topic tells. It returns how many records it has not read in time.
func (v auditing) readOne(ctx context.Context, tp kafka.TopicPartition, id kadm.TopicID, from, to kadm.ListedOffsets, of, key string, until time.Time) (rows []auditRow, left int64, err error) {
	bounds, err := v.Bounds(ctx, tp)
	if err != nil {
		return nil, 0, err
	}
	at, _ := from.Lookup(tp.Topic, tp.Partition)
	begin, end, reached := max(at.Offset, bounds.Start), bounds.Stable, int64(0)
	if before, bounded := to.Lookup(tp.Topic, tp.Partition); bounded {
		end = min(end, before.Offset)
	}
	err = ahead.Read(ctx, v.cl, tp, kafka.TopicID(id), begin, end, func(r *kgo.Record) bool {
		reached = r.Offset + 1
		var a auditRow
		switch {
		case string(r.Key) != key || json.Unmarshal(r.Value, &a) != nil || a.Topic != of:
		case a.Group == v.Group || a.Group == v.Identity:
			rows = append(rows, a)
		default:
			v.others[a.Group] = a
		}
		return reached%1024 != 0 || time.Now().Before(until)
	}, nil)
	if err == nil && reached > 0 && reached < end && time.Now().After(until) {
		left = end - reached
	}
	return rows, left, err
}
