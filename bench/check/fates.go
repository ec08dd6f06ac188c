package check

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fates are what became of the requests of a partition of which more was promised than a slot holds: until when they are of use, and how often
// they are delivered again. They are compared at the end, so the order in which topics are read does not matter.
type fates struct {
	terms map[int64]terms    // by offset: of requests
	came  map[int64][]fate   // by offset: of those, and of what came before its request was read
	put   map[int64][]putOff // by offset of the request: records of a retry route that say when it is due
}

// terms are what was promised for one request.
type terms struct {
	expires, within int64 // ms: it is of no use after that time, or so long after it was due; zero is always
	never           bool  // it expires before it is due
	unread          bool  // it says when it expires, in a form that is not read
	again           bool  // it belongs to a retry route
	round           int64 // and was delivered so often before
	since           int64 // ms: where when it came is not known, a time at which it had not come; else 0
	pause           int64 // ms
}

// fate is one arrival.
type fate struct {
	at, due, round int64 // ms: when it was written, or untimed, and when it says that it was due; and its delay-attempt, -1 is none
	dead           bool
	code           Codes
	byBroker       bool  // at is not the processor's word
	dated          bool  // it says when its request was written
	end            int64 // of a Survey: where the delay topic ended at some time after it had arrived; 0: not known
}

// putOff says when a request is due that came at a time that is not known.
type putOff struct{ at, due int64 }

func newFates() fates {
	return fates{terms: make(map[int64]terms), came: make(map[int64][]fate), put: make(map[int64][]putOff)}
}

func (f *fates) forget(offset int64) {
	delete(f.terms, offset)
	delete(f.came, offset)
	delete(f.put, offset)
}

// arrive takes in an arrival.
func (f *fates) arrive(offset int64, s *slot, came fate) {
	if _, ok := f.terms[offset]; ok || !s.is(requested) {
		f.came[offset] = append(f.came[offset], came)
	}
}

// request takes in what was promised for a request.
func (f *fates) request(rt *route, r *kgo.Record, e Expectation) {
	t := terms{within: ceilMillis(rt.ExpireAfter)}
	if rt.Retry != nil {
		n, _ := round(r.Headers)
		t.again, t.round, t.pause = true, n, rt.Retry.pause(n, r.Offset)
		if !byBroker(r) {
			t.since = max(r.Timestamp.UnixMilli(), 1)
		}
	} else if expires := rt.read(r.Headers).expires; len(expires) > 0 {
		if until, ok := parseUntil(expires); ok {
			t.expires, t.never = until, until < e.Due-rt.jitter(r.Partition, r.Offset)
		} else {
			t.unread = true
		}
	}
	if t == (terms{}) && !slices.ContainsFunc(f.came[r.Offset], func(c fate) bool { return c.round >= 0 }) {
		delete(f.came, r.Offset)
		return
	}
	f.terms[r.Offset] = t
}

// ended takes in where the delay topic ends, after all that has arrived.
func (f *fates) ended(end int64) {
	for offset, came := range f.came {
		if !f.terms[offset].again {
			continue
		}
		for i := range came {
			if came[i].end == 0 {
				came[i].end = end
			}
		}
	}
}

// unclear tells whether a request has arrived that was put off by a record that was not read yet, as it seems.
func (f *fates) unclear(offset, next int64) bool {
	t := f.terms[offset]
	return t.since > 0 && slices.ContainsFunc(f.came[offset], func(c fate) bool {
		return !c.dead && (c.end == 0 || next < c.end) && !c.wasPutOff(f.put[offset])
	})
}

// wasPutOff tells whether a record has said that it is due when an arrival says that it was.
func (c fate) wasPutOff(put []putOff) bool {
	return slices.ContainsFunc(put, func(p putOff) bool { return p.due == c.due })
}

// mayExpire tells whether there is a time after which a request is of no use.
func (t terms) mayExpire() bool { return t.expires > 0 || t.within > 0 }

// expired tells whether a request that is due is of no use any more.
func (t terms) expired(due, at int64) bool {
	return t.never || t.expires > 0 && at > t.expires || t.within > 0 && at-due > t.within
}

func (e *ending) judgeFates(src *source) {
	for _, offset := range slices.Sorted(maps.Keys(src.fates.terms)) {
		e.judgeFate(src, offset)
	}
}

func (e *ending) judgeFate(src *source, offset int64) {
	t, ok := src.fates.terms[offset]
	if !ok {
		return
	}
	if e.config.Survey != nil && src.fates.unclear(offset, src.window.next) {
		return
	}
	put, s := src.fates.put[offset], src.at(offset)
	e.judgePutOff(src.name(offset), t, put)
	for _, came := range src.fates.came[offset] {
		switch {
		case came.dead && came.code == Expired:
			e.judgeExpired(src.name(offset), s, t, put, came)
		case !came.dead:
			e.judgeAgainst(src.name(offset), s, t, put, came)
		}
	}
}

// judgePutOff: what came at a time that is not known is put off once, from when it was read.
func (e *ending) judgePutOff(name Source, t terms, all []putOff) {
	behind := time.Duration(0)
	if again := e.routes[name.Topic].Retry; again != nil {
		behind = again.Behind
	}
	for i, put := range all {
		switch {
		case t.since == 0:
			e.fault(Altered, name, nil, "was put off until %d, although it is known when it came", put.due)
		case i > 0 && !e.config.AllowDoubles:
			e.fault(Doubled, name, nil, "was put off %d times", i+1)
		case put.due != put.at+t.pause:
			e.fault(Altered, name, nil, "was put off at %d until %d, and the pause after %d deliveries is %d ms", put.at, put.due, t.round+1, t.pause)
		case put.at < t.since-behind.Milliseconds():
			e.fault(Early, name, nil, "was put off at %d, and came at %d", put.at, t.since)
		}
	}
}

// judgeExpired: what is dead-lettered because it has expired, has.
func (e *ending) judgeExpired(name Source, s *slot, t terms, put []putOff, came fate) {
	if came.byBroker || s.is(dueUnread) || t.unread {
		return
	}
	dues := []int64{s.due}
	if s.is(orEarlier) { // nothing says when it was read
		dues = append(dues, s.due-mostAhead.Milliseconds())
	}
	if t.since > 0 {
		dues = dues[:0]
		for _, p := range put {
			dues = append(dues, p.due)
		}
	}
	if !slices.ContainsFunc(dues, func(due int64) bool { return t.expired(due, came.at) }) {
		e.fault(GoodDeadLettered, name, nil, "was dead-lettered as expired at %d: it is due at %v, and of use until %d, or for %d ms", came.at, dues, t.expires, t.within)
	}
}

// judgeAgainst: what was delivered had not expired, and says how often it was delivered before.
func (e *ending) judgeAgainst(name Source, s *slot, t terms, put []putOff, came fate) {
	due := s.due
	if s.is(dueUnread) || s.wasAhead(came.due) {
		due = came.due
	}
	if s.is(orEarlier) {
		t.never = t.expires > 0 && t.expires < due
	}
	if t.since > 0 {
		due = came.due
		if !came.wasPutOff(put) {
			e.fault(Early, name, nil, "came at a time that is not known, and was delivered as due at %d, until which it was not put off", due)
		}
	}
	if t.mayExpire() && !came.byBroker && came.at != untimed && t.expired(due, came.at) {
		e.fault(BadDelivered, name, nil, "was delivered at %d: it was due at %d, and of use until %d, or for %d ms", came.at, due, t.expires, t.within)
	}
	want := int64(-1)
	if t.again {
		want = t.round + 1
	}
	switch {
	case came.round == want:
	case came.round < 0:
		e.fault(Altered, name, nil, "has no delay-attempt, which should say %d", want)
	default:
		e.fault(Altered, name, nil, "delay-attempt says %d, not %d", came.round, want)
	}
}
