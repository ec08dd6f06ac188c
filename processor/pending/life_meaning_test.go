package pending

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// What a record asks for depends on the parser that holds where it lies: one of a fixed delay knows no due times, ids and cancels,
// with another prefix a header is no longer one of ours, and where keys are ids no header is one.

// putOff works out what a record is, and when it is due, by what holds.
func (v *life) putOff(e *entry) {
	if !e.request() {
		e.asked = e.due
		return
	}
	by := v.settled(e.Offset)
	was := e.what
	if e.what, e.asked = e.meant(by); was != e.what {
		v.note("understood otherwise")
	}
	if e.what == atOnce {
		v.note("to be retried")
	}
	if by.keyed && e.hasID() {
		v.note("by its key")
	}
	if cp := v.copyStandingFor(e.Offset); cp != nil && e.asked != cp.due {
		e.what, e.due, e.asked = dueAhead, cp.due, cp.due // the copy tells when it is due, and of what it says nothing else is known but its key
		switch {
		case !by.keyed || e.other == by.prefix:
		case string(e.Key) == "id":
			e.what = hasID
		case string(e.Key) == "other":
			e.what = hasOther
		}
		return
	}
	if e.due = e.asked; e.due == 0 || by.jitter == 0 {
		return
	}
	p, err := topics.ParserFor(mustRoute(v.routeWith(by)).Spec())
	v.must(err)
	if jitter := p.Jitter(testMark, e.Offset); e.sort == carriedOn {
		e.asked -= jitter // as its handle has it
	} else {
		e.due += jitter
	}
}

// copyStandingFor is the copy of a record that was given up.
func (v *life) copyStandingFor(offset int64) *entry {
	for i := v.begun; i < v.end() && offset < v.begun; i++ {
		if cp := &v.log[i]; cp.what == copied && cp.of == offset {
			return cp
		}
	}
	return nil
}

// meant is what a parser takes a record for, and when that is due without jitter.
func (e *entry) meant(by settings) (what rune, due int64) {
	if e.sort == carriedOn {
		return e.sort, e.until
	}
	if by.retry {
		return e.meantToRetry(by)
	}
	if what, due = e.meantByHeaders(by); !by.keyed {
		return what, due
	}
	if e.sort == noValue {
		return cancelID, 0
	}
	if what = meantByKey(what); what == unparsable {
		due = 0
	}
	return what, due
}

// misnames reports whether a handle names a record that is due at another time by now: without a store nobody knows of what is far.
func (v *life) misnames(e *entry) bool {
	return v.storeless && e.naming() && e.of >= 0 && e.handle != 0 && e.handle != v.log[e.of].asked
}

// meantToRetry is that of a retry route, where a record says no more than what it cancels.
func (e *entry) meantToRetry(by settings) (what rune, due int64) {
	ours := e.other == by.prefix || e.isForwarded()
	if strings.ContainsRune("kcoCDvVWw", e.sort) && ours {
		return e.sort, 0
	}
	if e.sort == namesByOne && by.prefix {
		return cancelID, 0
	}
	return atOnce, topics.AtOnce
}

// meantByHeaders is that where the key says nothing.
func (e *entry) meantByHeaders(by settings) (what rune, due int64) {
	ours, both := e.other == by.prefix || e.isForwarded(), e.sort == asksByOne || e.sort == namesByOne
	switch {
	case e.sort == unparsable:
		return unparsable, e.until
	case by.fixed && e.Headers == nil:
		return e.sort, e.until
	case by.fixed && !ours && !both:
		return plainAhead, e.Timestamp.UnixMilli() + secondDue // it says nothing that this route knows
	case by.fixed, e.Headers == nil, !ours && !both:
		return unparsable, 0
	case e.sort == asksByOne && !by.prefix:
		return hasID, e.until
	case e.sort == namesByOne && by.prefix:
		return cancelID, 0
	case both, e.sort == noValue:
		return dueAhead, e.until
	}
	return e.sort, e.until
}

// keyed gives a record its key: one of the ids, or none.
func (e *entry) keyed() {
	switch {
	case strings.ContainsRune("pjznbRN", e.sort):
		e.Key = []byte("id")
	case strings.ContainsRune("adAX", e.sort), strings.ContainsRune("iIyZJFhH", e.sort): // the latter say an id, too; of a copy that is not understood the key counts alone
		e.Key = []byte("other")
	case e.sort == dueBefore:
		e.Key = nil
	}
	if e.sort == noValue {
		e.Value = nil
	}
}

// meantByKey is what a record is where its key is its id, which is due at the same time.
func meantByKey(what rune) rune {
	switch what {
	case duePast:
		return hasIDPast
	case dueAfter:
		return hasIDAfter
	case dueFar:
		return hasIDFar
	case notAllowed:
		return hasIDBad
	case elsewhere:
		return elsewhereN
	case dueAhead:
		return hasOther
	case dueNow:
		return hasOtherN
	case replaceID, cancelID, cancelHas, cancelLast, cancelOne, cancelNone, passedOn, passedID, passedOld, cancelAway:
		return what
	}
	return unparsable // it has no key, or says an id, or replaces by a handle
}

// isForwarded reports whether it was written by us, so with the usual prefix.
func (e *entry) isForwarded() bool { return strings.ContainsRune("vWw", e.sort) }

// otherPrefix is one that routes may have.
const otherPrefix = "x-wheel-"

func withOther(name string) string {
	return otherPrefix + strings.TrimPrefix(name, topics.HeaderPrefix)
}

// writesOther reports whether a request is written with the other prefix: as routes are configured by now, but for some.
func (v *life) writesOther() bool {
	return (v.usual.prefix || v.others.prefix) && v.told().prefix != (v.end()%4 == 3)
}

// writeAs has a record say what it says with the other prefix, or with both.
func (e *entry) writeAs(other bool) {
	switch {
	case e.Headers == nil, e.isForwarded():
	case e.sort == asksByOne:
		e.Headers = append(e.Headers, kgo.RecordHeader{Key: topics.HeaderID, Value: []byte("id")}, kgo.RecordHeader{Key: withOther(topics.HeaderUntil), Value: e.Headers[0].Value})
	case e.sort == namesByOne:
		e.Headers = append(e.Headers, kgo.RecordHeader{Key: withOther(topics.HeaderCancel), Value: []byte("id")})
	case other:
		e.other, e.Headers = true, slices.Clone(e.Headers)
		for i := range e.Headers {
			e.Headers[i].Key = withOther(e.Headers[i].Key)
		}
	}
}
