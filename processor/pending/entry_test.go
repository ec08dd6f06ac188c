package pending

import (
	"cmp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// entry is one record of the log.
type entry struct {
	*kgo.Record
	sort   rune  // as which it was written
	other  bool  // with the other prefix
	what   rune  // what the parser takes it for that holds, of sorts; or a marker, or a resolve record
	until  int64 // as it says itself
	due    int64
	asked  int64 // that, without jitter
	handle int64 // the due time that it names with an offset
	seen   int64 // the clock when it was appended
	known  int64 // of a queue: when a checkpoint has said that it is there; 0: none has
	of     int64 // what a resolve record, a cancel or a replacement names, or a copy stands for
	from   int64 // what a copy was made of, or a resolve record says has taken that away
	tried  rune  // of what is tried again: what its first record was taken for by then
}

const (
	duePast    = 'p' // due before all begins
	dueNow     = 'd' // when all begins
	dueAhead   = 'a' // due at the second due time
	dueAfter   = 'j' // 1 ms after that
	dueBefore  = 'e' // 1 ms before that
	elsewhere  = 'b' // due at the second due time, for another target
	elsewhereN = 'B' // the same, with the id
	dueFar     = 'z' // when all else is over
	plainNow   = 'g' // due when all begins by the delay of its route, and by nothing that it says
	plainAhead = 'l' // the same, at the second due time
	asksByOne  = 'A' // due at the second due time by either prefix, and with the id by the usual one
	namesByOne = 'X' // due at the second due time by the usual prefix, and by the other one it cancels the id
	fromFuture = 'f' // of a queue: its timestamp is ahead of every clock
	notAllowed = 'n' // due at the second due time, and refused by configuration
	unparsable = 'u'
	cancelLast = 'c' // cancels the request before it
	cancelOne  = 'k' // cancels the first request
	cancelNone = 'o' // names a request that never was
	replaces   = 'q' // takes the place of the first request, due at the second due time
	replaceNow = 'Q' // the same, due before all begins
	replaceBad = 'x' // the same, due at the second due time, and refused by configuration
	hasID      = 'i' // due at the second due time, with the one id that there is
	hasIDNow   = 'I' // the same, due when all begins
	hasIDPast  = 'y' // the same, due before that
	hasIDBad   = 'Z' // the same, due at the second due time, and refused by configuration
	cancelID   = 'C' // cancels that id
	replaceID  = 'R' // takes the place of what has it, due at the second due time
	hasIDAfter = 'J' // with that id, due 1 ms after the second due time
	hasIDFar   = 'F' // the same, due when all else is over
	hasOther   = 'h' // with another id, due at the second due time
	hasOtherN  = 'H' // the same, due when all begins
	cancelHas  = 'D' // cancels that other id
	passedOn   = 'v' // cancels the first request, and was forwarded by another partition
	passedID   = 'W' // cancels the id, and was
	passedOld  = 'w' // the same, and takes nothing that was written later than some
	cancelAway = 'V' // cancels a request of another partition
	noValue    = 'N' // due at the second due time, and where keys are ids it cancels the id
	atOnce     = 't' // to be retried: when it came is not known
	carriedOn  = 'T' // a turn could not deliver it, and has appended it to be tried again
	resolveOf  = 'r'
	copied     = '@'
	marker     = 'm'
)

// naming reports whether it names another request, to cancel or replace it.
func (e *entry) naming() bool { return strings.ContainsRune("ckoqQxCRDvWwV", e.what) }

// replacement reports whether it is to be delivered in the place of another.
func (e *entry) replacement() bool { return strings.ContainsRune("qQxR", e.what) }

// hasID reports whether it has the id.
func (e *entry) hasID() bool { return e.id() != "" && !strings.ContainsRune("CDWw", e.what) }

// id is the one that it has, or cancels; nothing: there is none.
func (e *entry) id() string {
	switch {
	case strings.ContainsRune("iIyZRBCJFWw", e.what):
		return "id"
	case strings.ContainsRune("hHD", e.what):
		return "other"
	}
	return ""
}

// byID reports whether it names what has the id.
func (v *life) byID(e *entry) bool {
	return e.id() != "" && !e.hasID() || e.what == replaceID || v.replaces(e)
}

// namesOf are the offsets of what the entry at an offset cancels or replaces, if it is pending.
func (v *life) namesOf(offset int64) (all mask) {
	e := &v.log[offset]
	switch {
	case v.byID(e):
		return v.withID(offset)
	case e.naming() && e.of >= 0 && e.handle == v.log[e.of].asked:
		return bit(e.of)
	}
	return 0
}

// withID are the offsets below one of what has the id that the record there has, or cancels.
func (v *life) withID(below int64) (all mask) {
	for offset := range below {
		if e, by := &v.log[offset], &v.log[below]; e.hasID() && e.id() == by.id() && (by.what != passedOld || e.written() <= someWritten) {
			all |= bit(offset)
		}
	}
	return all
}

func (e *entry) request() bool { return e.what != resolveOf && e.what != marker && e.what != copied }

// request is the one of a sort at an offset: made once for all lives.
func (s *scope) request(what rune, other bool, offset, base int64) entry {
	key := requestKey{what, other, offset, base}
	e, ok := s.made[key]
	if !ok {
		e = s.makeRequest(what, offset, base)
		e.writeAs(other)
		s.made[key] = e
	}
	return e
}

type requestKey struct {
	what         rune
	other        bool
	offset, base int64
}

// makeRequest makes the one whose due time counts from when all has begun.
func (s *scope) makeRequest(what rune, offset, base int64) entry {
	e := entry{sort: what, what: what, due: base - 1}
	switch what {
	case dueNow, hasIDNow, hasOtherN, plainNow:
		e.due = base
	case plainAhead, asksByOne, namesByOne, noValue, dueAhead, notAllowed, replaces, replaceBad, hasID, hasIDBad, replaceID, elsewhere, elsewhereN, hasOther:
		e.due = base + secondDue
	case dueFar, hasIDFar:
		e.due = base + 10*secondDue
	case dueAfter, hasIDAfter:
		e.due = base + secondDue + 1
	case dueBefore:
		e.due = base + secondDue - 1
	}
	target := "orders"
	if what == elsewhere || what == elsewhereN {
		target = "bills"
	}
	if what == notAllowed || what == replaceBad || what == hasIDBad {
		target = "nowhere"
	}
	e.Record = req(offset, e.due, target)
	e.keyed()
	e.Timestamp = time.UnixMilli(writtenAt(offset))
	if e.hasID() {
		name := topics.HeaderID
		if what == replaceID {
			name = topics.HeaderReplace
		}
		e.Headers = append(e.Headers, kgo.RecordHeader{Key: name, Value: []byte(e.id())})
	}
	switch {
	case what == unparsable && !s.queue:
		e.Headers[0].Value = []byte("soon")
	case what == fromFuture:
		e.due = base + 2*secondDue // it waits for less
		fallthrough
	case s.queue && what != unparsable, what == plainNow, what == plainAhead: // for which a due time of its own is refused
		e.Headers, e.Timestamp = nil, time.UnixMilli(e.due-secondDue)
	}
	return e
}

// naming is a record that names a request of the log: the first of those that steps have made, or the last.
func (v *life) naming(what rune) entry {
	e := v.scope.makeRequest(what, v.end(), v.base)
	e.of = -1
	switch what {
	case replaceID:
		return e
	case cancelID, cancelHas, passedID, passedOld:
		e.due, e.Headers = 0, []kgo.RecordHeader{{Key: topics.HeaderCancel, Value: []byte(e.id())}}
		return e.passed()
	}
	for offset := v.before; offset < v.end(); offset++ {
		if n := &v.log[offset]; n.request() && (!n.naming() || n.replacement()) && cmp.Or(n.asked, n.until) != 0 && (e.of < 0 || what == cancelLast) {
			e.of = offset
		}
	}
	h := topics.Handle{Partition: testID.Partition, Offset: e.of, Due: testNow}
	if e.of >= 0 {
		h.Due = cmp.Or(v.log[e.of].asked, v.log[e.of].until)
		e.handle = h.Due
	}
	if e.of < 0 || what == cancelNone {
		e.of, h.Offset = -1, 99
	}
	if what == cancelAway {
		e.of, h.Partition = -1, elsewherePartition
	}
	name := topics.HeaderReplace
	if !e.replacement() {
		name, e.due, e.Headers = topics.HeaderCancel, 0, nil
	}
	e.Headers = append(e.Headers, kgo.RecordHeader{Key: name, Value: []byte(h.String())})
	return e.passed()
}

// seqOf is the offset of the request that the entry at an offset stands for.
func (v *life) seqOf(offset int64) int64 {
	if e := &v.log[offset]; e.what == copied {
		return e.of
	}
	return offset
}

// isCopy reports whether the entry at an offset is one.
func (v *life) isCopy(offset int64) bool { return v.log[offset].what == copied }

// copyOf is a copy of ours at an offset of the log.
func (v *life) copyOf(from int64, at int64) entry {
	of := &v.log[from]
	written, c, _ := Carrying{v.p}.Copy(of.Record)
	headers, _ := topics.AppendCopy(nil, written, testMark, c, nil)
	r := &kgo.Record{Offset: at, Key: of.Key, Value: of.Value, Headers: headers, Timestamp: time.UnixMilli(v.now)}
	return entry{Record: r, what: copied, of: c.Seq, due: c.Due, from: from}
}

// names is a resolve record of ours at the end of the log: it has the key of what was resolved, whatever the parser of today makes of the record.
func (v *life) names(it *Item, by int64) entry {
	of := v.seqOf(it.Offset)
	r := resolving(v.end(), of, it.Key.Due)
	r.Headers = topics.ResolveBy(testMark, of, it.Key.Due, of, by)
	return entry{Record: r, what: resolveOf, of: of, from: by}
}
