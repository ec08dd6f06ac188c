package pending

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// entry is one record of the log.
type entry struct {
	*kgo.Record
	what rune // of sorts; or a marker, or a resolve record
	due  int64
	seen int64 // the clock when it was appended
	of   int64 // what a resolve record names
}

const (
	duePast    = 'p' // due before all begins
	dueNow     = 'd' // when all begins
	dueAhead   = 'a' // due at the second due time
	dueAfter   = 'j' // 1 ms after that
	dueFar     = 'z' // when all else is over
	fromFuture = 'f' // of a queue: its timestamp is ahead of every clock
	notAllowed = 'n' // due at the second due time, and refused by configuration
	unparsable = 'u'
	resolveOf  = 'r'
	marker     = 'm'
)

func (e *entry) request() bool { return e.what != resolveOf && e.what != marker }

// request is the one of a sort at an offset: made once for all lives.
func (s *scope) request(what rune, offset int64) entry {
	key := [2]int64{int64(what), offset}
	e, ok := s.made[key]
	if !ok {
		e = s.makeRequest(what, offset)
		s.made[key] = e
	}
	return e
}

func (s *scope) makeRequest(what rune, offset int64) entry {
	e := entry{what: what, due: testNow - 1}
	switch what {
	case dueNow:
		e.due = testNow
	case dueAhead, notAllowed:
		e.due = testNow + secondDue
	case dueFar:
		e.due = testNow + 10*secondDue
	case dueAfter:
		e.due = testNow + secondDue + 1
	}
	target := "orders"
	if what == notAllowed {
		target = "nowhere"
	}
	e.Record = req(offset, e.due, target)
	switch {
	case what == unparsable && !s.queue:
		e.Headers[0].Value = []byte("soon")
	case what == fromFuture:
		e.due = testNow + 2*secondDue // it waits for less
		fallthrough
	case s.queue && what != unparsable: // for which a due time of its own is refused
		e.Headers, e.Timestamp = nil, time.UnixMilli(e.due-secondDue)
	}
	return e
}

// names is a resolve record of ours at the end of the log.
func (v *life) names(of int64) entry {
	return entry{Record: resolving(v.end(), of, v.log[of].due), what: resolveOf, of: of}
}
