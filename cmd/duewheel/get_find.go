package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/ahead"
	"github.com/duewheel/duewheel/topics"
)

// foundRecord is a record, and what has become of it.
type foundRecord struct {
	got    *ahead.Looked
	fate   ahead.Fate
	other  bool        // it is no request, so it has no fate
	blind  bool        // what lies before it was not searched, and has a say in what becomes of it
	record *kgo.Record // nil: it is not in the log any more
	by     *kgo.Record // what has done it; nil: nothing, or it is not known
	audit  []auditRow
	named  topics.Handle // that it was found by; none: by an id
	searched
}

// searched is how far what may have taken a record away was looked for.
type searched struct {
	to, end int64
	kept    bool // all was that is not in or behind an open transaction
}

func searchedOf(got *ahead.Looked) searched {
	if got.Open {
		return searched{got.ReadTo, got.Bounds.High, got.ReadTo >= got.Bounds.Stable}
	}
	return searched{to: got.ReadTo, end: got.Bounds.Stable}
}

func (s searched) whole() bool { return s.to >= s.end }

// left is how many records were not.
func (s searched) left() int64 { return s.end - s.to }

// why says why they were not.
func (s searched) why() string {
	if s.kept {
		return "(an open transaction)"
	}
	return "(--patience)"
}

// named finds what a handle or an id names. The error tells of partitions that could not be looked at, too; what was found in others is returned.
func (v *view) named(ctx context.Context, name string, patience time.Duration) ([]*foundRecord, error) {
	if h, is := topics.ParseHandle([]byte(strings.TrimSpace(name))); is {
		one, err := v.atHandle(ctx, h, patience)
		if err != nil {
			return nil, err
		}
		if !one.other {
			v.sayOfAll(one.got)
		}
		return []*foundRecord{one}, nil
	}
	found, err := v.withID(ctx, name)
	var inside string
	if errors.Is(err, errUnknownID) && json.Unmarshal([]byte(name), &inside) == nil && checkName(inside) == nil {
		return v.named(ctx, inside, patience) // quotes around an id are no part of it, but where ids are keys
	}
	return found, err
}

// sayOfAll says that to the group all waits that a partition holds, so that one record does.
func (v *view) sayOfAll(got *ahead.Looked) {
	if got.Fresh || got.Anew {
		v.one = true
		var all problemsOf
		all.note(got, v)
		all.tell(v.stderr, v.Group)
	}
}

// errUnknownID: nothing has an id.
var errUnknownID error = findings{errors.New("unknown: nothing has the id")}

// partitionsOfHandle are those that a handle may mean: it does not say in which topic.
func (v *view) partitionsOfHandle(h topics.Handle) ([]partitionOf, error) {
	var found []partitionOf
	for _, p := range v.partitions {
		if p.Partition == h.Partition {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil, joinLines(append(v.unseen, findings{fmt.Errorf("unknown: %s has no partition %d, which the handle %s names", v.topics(), h.Partition, h)})...)
	}
	return found, nil
}

// atHandle finds the record of a handle, and what has become of it. Of several topics it is the one in which what lies there has that handle. Where it is in none,
// it may be in one that cannot be looked at.
func (v *view) atHandle(ctx context.Context, h topics.Handle, patience time.Duration) (*foundRecord, error) {
	all, err := v.partitionsOfHandle(h)
	if err != nil {
		return nil, err
	}
	if len(all) == 1 && len(v.unseen) == 0 {
		return v.atHandleOf(ctx, all[0], h, patience)
	}
	of := all[:0:0]
	var names []string
	var errs []error
	for _, p := range all {
		one, err := v.atHandleOf(ctx, p, h, 0)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", p.Topic, err))
			continue
		case !one.other && v.handleOf(one) == h:
			of = append(of, p)
		}
		names = append(names, p.Topic)
	}
	switch {
	case len(of) == 1:
		return v.atHandleOf(ctx, of[0], h, patience)
	case len(errs) == len(all): // none may be meant
		return nil, joinLines(append(errs, v.unseen...)...)
	}
	which := fmt.Errorf("a handle does not say in which topic: choose one of %s with -t", strings.Join(names, ", "))
	return nil, joinLines(slices.Concat([]error{which}, errs, v.unseen)...)
}

// atHandleOf is atHandle in one partition.
func (v *view) atHandleOf(ctx context.Context, p partitionOf, h topics.Handle, patience time.Duration) (*foundRecord, error) {
	b, err := v.Bounds(ctx, p.TopicPartition)
	if err != nil {
		return nil, v.advise(err, p.Topic)
	}
	switch {
	case h.Offset >= b.High:
		return nil, findings{fmt.Errorf("unknown: the log of %s ends at offset %d, before %s", p, b.High, h)}
	case h.Offset >= b.Stable:
		return nil, fmt.Errorf("unknown yet: %s lies in or behind a transaction of its producer that is not committed", h)
	}
	v.Watch = ahead.Watch{Offset: h.Offset, Has: true}
	got, err := v.Trace(ctx, p.TopicPartition, p.id, time.Now().Add(patience))
	if err != nil {
		return nil, v.advise(err, p.Topic)
	}
	one := &foundRecord{got: got, named: h, searched: searchedOf(got)}
	fates, place := got.Fates(), h.Offset
	if len(fates) > 0 {
		place = fates[0].Place
	}
	if err := v.fill(ctx, one, place); err != nil {
		return nil, err
	}
	if one.record == nil {
		if h.Offset < got.Bounds.Start {
			return nil, removed(v.Group, p, one, h)
		}
		return nil, findings{fmt.Errorf("unknown: no committed record has offset %d in %s: it is a marker, or its producer has aborted it, or it was compacted away", h.Offset, p)}
	}
	if len(fates) == 0 {
		one.other = true // the fold has passed it over
		return one, nil
	}
	one.record = firstOf(one, fates[0].Offset)
	one.fate, one.blind = fates[0], got.Blind() && v.asksOthers(one)
	if is := v.handleOf(one); is.Due != h.Due && one.fate.Due > topics.AtOnce {
		return nil, findings{fmt.Errorf("the record at offset %d of %s is due at another time than %s says: its handle is %s", h.Offset, p, h, is)}
	}
	return one, v.fillBy(ctx, one)
}

// asksOthers tells whether what becomes of a request follows from others, too: it has an id, or replaces one.
func (v *view) asksOthers(one *foundRecord) bool {
	q, err := v.asked(one)
	return err == nil && (q.ID != nil || q.Replaces)
}

// mayBeIgnored tells whether a request is left out, without a dead letter, if another one has its id.
func (v *view) mayBeIgnored(one *foundRecord) bool {
	if one.record == nil {
		return false
	}
	q, err := v.asked(one)
	return err == nil && q.ID != nil && q.OnDuplicate == topics.DuplicateIgnored
}

// expired says why a request that waits is not delivered any more; nil: it is, as far as it can be told.
func (v *view) expired(one *foundRecord) *topics.Refusal {
	if one.record == nil || v.Route == nil {
		return nil
	}
	q, err := v.asked(one)
	route := v.Route(one.got.Topic)
	if err != nil || route == nil {
		return nil
	}
	return route.Expired(&q, one.fate.Waits.Due, v.Now.UnixMilli())
}

// asked is what a record that was found asks for.
func (v *view) asked(one *foundRecord) (topics.Request, error) {
	r := one.record
	return one.got.Parser(r.Offset).Parse(r.Headers, topics.StampOf(r), r.Offset, one.got.Mark())
}

// removedError says that a record lay before the beginning of its log, and that no copy of it was found.
type removedError struct {
	from   partitionOf
	handle topics.Handle
	text   string
}

func (r *removedError) Error() string { return r.text }

// removed says what may have become of a record that the log does not have any more, as a group can tell.
func removed(group string, p partitionOf, one *foundRecord, h topics.Handle) error {
	unless, or := "", ""
	if !one.whole() {
		carried := fmt.Sprintf("it was carried, to where the last %s of the log lie, which were not searched %s", count(one.left(), "record"), one.why())
		unless, or = ", unless "+carried, carried+", or "
	}
	became := fmt.Sprintf("retention or trimming has removed it, so it was resolved, unless %sthe topic had lost pending records before, and a replica went on without them (`run --accept-loss`)", or)
	switch got := one.got; {
	case got.Lost && h.Offset >= got.Needed:
		became = fmt.Sprintf("it may have been pending, since the topic has lost what was from offset %d on (`duewheel checkpoints`)%s; a replica whose state directory has it delivers it", got.Needed, unless)
	case got.Fresh || got.Anew:
		became = fmt.Sprintf("retention or trimming has removed it, and whether it was resolved the group %s cannot tell, which has committed nothing there (-g chooses another group)", group)
	}
	return &removedError{p, h, fmt.Sprintf("unknown: the log of %s begins at offset %d, and %s lay before that: %s", p, one.got.Bounds.Start, h, became)}
}

// withID finds what has an id, or had it last.
func (v *view) withID(ctx context.Context, id string) ([]*foundRecord, error) {
	v.Watch, v.one = ahead.Watch{ID: []byte(id)}, true
	var all []*foundRecord
	err := v.each(ctx, func(got *ahead.Looked) {
		for _, fate := range got.Fates() {
			all = append(all, &foundRecord{got: got, fate: fate})
		}
		got.Forget()
	})
	if err != nil && len(all) == 0 {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *foundRecord) int { return compareNames(a.got, b.got) }) // partitions are read in any order
	waits := slices.DeleteFunc(slices.Clone(all), func(f *foundRecord) bool { return f.fate.State != ahead.IsPending })
	if len(waits) == 0 && len(all) > 0 {
		waits = all[:0:0]
		last := slices.MaxFunc(all, func(a, b *foundRecord) int { return cmp.Compare(a.fate.Written, b.fate.Written) })
		waits = append(waits, last)
	}
	if len(waits) == 0 {
		return nil, fmt.Errorf("%w %q in what may be pending; what was resolved before the low water is found by its handle alone%s", errUnknownID, id, hintAtHandle(id))
	}
	for _, one := range waits {
		one.searched = searchedOf(one.got)
		if err := errors.Join(v.fill(ctx, one, one.fate.Place), v.fillBy(ctx, one)); err != nil {
			return nil, err
		}
	}
	return waits, err
}

// aPlace is how a record is told by where it lies: topic/partition@offset.
var aPlace = regexp.MustCompile(`^[A-Za-z0-9._-]+/[0-9]+@[0-9]+,?$`)

// hintAtHandle says more of an id that looks like a handle that was mistyped, like where a record lies, or like what a list shows of one that is no text.
func hintAtHandle(id string) string {
	if strings.Contains(id, "-") && strings.Trim(id, "0123456789-") == "" {
		return "; and it is no handle: that is <partition>-<offset>-<due in ms since 1970>"
	}
	if aPlace.MatchString(id) {
		return "; it says where a record lies, and a handle is <partition>-<offset>-<due in ms since 1970>, as produce and ls show it"
	}
	if bytes, is := strings.CutPrefix(strings.TrimRight(id, "…~"), "0x"); is && bytes != "" && strings.Trim(bytes, "0123456789abcdef") == "" {
		return "; an id that is shown so is no text: name it by its handle"
	}
	return ""
}

// fill reads the record at an offset.
func (v *view) fill(ctx context.Context, one *foundRecord, offset int64) error {
	return v.Find(ctx, one.got, []int64{offset}, func(_ int, r *kgo.Record) {
		if !r.Attrs.IsControl() {
			one.record = v.asWritten(one.got, r)
		}
	})
}

// asWritten is the record that a carried copy stands for, as it was first; of any other record, that itself.
func (v *view) asWritten(got *ahead.Looked, r *kgo.Record) *kgo.Record {
	written, c, is := got.Mark().Copied(r.Headers, r.Offset)
	if !is {
		return r
	}
	first := *r
	first.Offset, first.Headers, first.Timestamp = c.Seq, written, time.UnixMilli(c.Timestamp)
	return &first
}

// firstOf is the request at an offset, as its producer wrote it, where the log has only a retry of it; of any other record, that itself.
func firstOf(one *foundRecord, offset int64) *kgo.Record {
	r := one.record
	written, as, is := one.got.Mark().Written(r.Headers, r.Offset)
	if r.Offset == offset || !is || as.Origin.Offset != offset {
		return r
	}
	first := *r
	first.Offset, first.Headers, first.Timestamp = offset, written, time.UnixMilli(as.Origin.Timestamp)
	return &first
}

// fillBy reads what has cancelled, replaced or stands for a record.
func (v *view) fillBy(ctx context.Context, one *foundRecord) error {
	if one.fate.By <= 0 {
		return nil
	}
	return v.Find(ctx, one.got, []int64{one.fate.By}, func(_ int, r *kgo.Record) { one.by = r })
}

// handleOf is the handle of a record that was found.
func (v *view) handleOf(one *foundRecord) topics.Handle {
	h := topics.Handle{Partition: one.got.TopicPartition.Partition, Offset: one.fate.Offset, Due: one.fate.Due}
	h.Due -= one.got.Parser(h.Offset).Jitter(one.got.Mark(), h.Offset)
	return h
}
