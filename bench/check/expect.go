package check

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// route is a Route made ready.
type route struct {
	Route
	targets  map[string]*target
	verdicts map[string]verdict // by topic
	denied   map[string]bool    // every delay topic and dead-letter topic of the configuration
	surveyed bool
}

type target struct {
	Target
	index uint16
}

// doubtful is how far beyond MaxDelay a request may still be accepted: the processor judges when it reads a record, which
// may be later than the timestamp by which the checker judges.
const doubtful = time.Hour

// latest is the last due time that there is, in ms: the year 5138.
const latest = 1e14

// added is more than emitted headers can add to the size of a record. Between the size with and without it, a record may be
// too large or not.
const added = 1024

// asked is what the headers of a request ask for. The last header of a name counts; an empty one is as good as absent.
type asked struct {
	until, lasting, topic, key, partition []byte
	cancel, replace, expires, id          []byte
	unsupported                           bool
	seconds                               bool // until is a number of seconds
	byKey                                 bool // it cancels what has its key
	refused                               bool // whatever else it asks for
	forwarded                             bool // another one of these, which means nothing beside a cancel
}

// asks tells whether anything is asked for.
func (a *asked) asks() bool {
	for _, v := range [][]byte{a.until, a.lasting, a.topic, plain(a.key), a.partition, a.cancel, a.replace, a.expires, a.id} {
		if len(v) > 0 {
			return true
		}
	}
	return false
}

// read takes what headers of other tools say where none of the processor's own asks for anything, and the route lets records say when they are due.
func (rt *route) read(headers []kgo.RecordHeader) asked {
	a := read(headers)
	tool, several := rt.borrows(headers, &a)
	if rt.Keyed {
		a.cancel, a.replace = nameIn(headers, "delay-cancel"), nameIn(headers, "delay-replace")
	}
	if tool != "" {
		borrowed(&a, headers, tool, rt.Keyed)
		a.refused = a.refused || several
	}
	return a
}

// nameIn is what a header names where ids are keys, which are bytes.
func nameIn(headers []kgo.RecordHeader, name string) []byte {
	v := lastOf(headers, name)
	if _, _, _, isHandle := handle(plain(v)); isHandle {
		return plain(v)
	}
	return v
}

// read takes what the processor's own headers ask for.
func read(headers []kgo.RecordHeader) asked {
	var a asked
	for _, h := range headers {
		if !belongs(h.Key) {
			continue
		}
		switch h.Key {
		case "delay-until":
			a.until = inTime(h.Value, false)
		case "delay-for":
			a.lasting = inTime(h.Value, true)
		case "delay-target-topic":
			a.topic = plain(h.Value)
		case "delay-target-key":
			a.key = h.Value
		case "delay-target-partition":
			a.partition = plain(h.Value)
		case "delay-cancel":
			a.cancel = plain(h.Value)
		case "delay-replace":
			a.replace = plain(h.Value)
		case "delay-id":
			a.id = plain(h.Value)
		case "delay-expires":
			a.expires = inTime(h.Value, false)
		case "delay-every", "delay-cron", "delay-zone", "delay-count", "delay-target-key-null":
			a.unsupported = a.unsupported || len(plain(lastOf(headers, h.Key))) > 0
		case "delay-forwarded":
			a.forwarded, a.unsupported = true, true
		case "delay-resolve":
			a.refused = len(lastOf(headers, h.Key)) > 0
			a.unsupported = a.unsupported || a.refused
		default:
			a.unsupported = a.unsupported || !emitted(h.Key) && len(h.Value) > 0
		}
	}
	return a
}

// expect says what must become of a request, by its headers alone.
func (rt *route) expect(r *kgo.Record) Expectation {
	a := rt.read(r.Headers)
	e := Expectation{Outcome: Deliver, Key: r.Key, Partition: -1}
	if mirrorsOf(rt, r.Partition).resolves(r) {
		e.Outcome = Ignore
		return e
	}
	if a.refused {
		e.refuse(UnsupportedHeader)
		return e
	}
	if rt.Keyed && (r.Value == nil || a.byKey) && len(a.cancel)+len(a.replace) == 0 && !a.forwarded {
		if _, _, _, isHandle := handle(plain(r.Key)); isHandle || len(r.Key) == 0 {
			e.refuse(InvalidID)
			return e
		}
		a.cancel = r.Key
	}
	if len(a.cancel) > 0 {
		rt.expectNamed(&e, a.cancel, false, r)
		if e.Outcome == Deliver {
			e.Outcome = Cancel
		}
		return e
	}
	if len(a.key) > 0 {
		e.Key = a.key
	}
	if a.unsupported {
		e.refuse(UnsupportedHeader)
	}
	if rt.Retry != nil {
		rt.expectAgain(&e, r)
	} else {
		rt.expectDue(&e, a, r)
	}
	rt.expectTarget(&e, a, r)
	if rt.ExpireAfter > 0 {
		e.doubt(Expired)
	}
	if len(a.expires) > 0 && rt.Retry == nil {
		switch until, ok := parseUntil(a.expires); {
		case !ok && rt.surveyed: // the processor may know more forms
			e.doubt(InvalidExpiry | Expired)
		case !ok:
			e.refuse(InvalidExpiry)
		case until < e.Due-rt.jitter(r.Partition, r.Offset) && !mayBeAhead(rt, r):
			e.refuse(Expired)
			e.unread = true
		default:
			e.doubt(Expired)
		}
	}
	if len(a.replace) > 0 {
		rt.expectNamed(&e, a.replace, true, r)
		if e.Codes&(InvalidID|WrongPartition|UnsupportedHeader) == 0 {
			e.doubt(TooLate)
		}
	}
	if rt.Retry == nil {
		rt.expectID(&e, a, r)
	}
	return e
}

// expectNamed reads what a record cancels or replaces. A replacement must be in the partition of what it names. One whose headers cannot be
// understood names nothing.
func (rt *route) expectNamed(e *Expectation, v []byte, replaces bool, r *kgo.Record) {
	partition, offset, due, ok := handle(v)
	switch {
	case rt.Delay > 0:
		e.refuse(UnsupportedHeader)
	case !ok && len(v) > 256:
		e.refuse(InvalidID)
	case !ok:
		if e.understood() {
			e.ID, e.NamesID = string(v), true
		}
	case replaces && partition != r.Partition:
		e.refuse(WrongPartition)
	case e.understood():
		e.Names, e.NamesDue = Source{r.Topic, partition, offset}, due
	}
}

// unread are the reasons for which headers cannot be understood, whatever the configuration.
const unread = InvalidID | NoDue | UnparsableDue | InvalidTarget | UnsupportedHeader | InvalidExpiry

// understood tells whether headers can be, as far as they were looked at.
func (e *Expectation) understood() bool {
	codes := e.Codes
	if e.dueUnread { // by this package alone
		codes &^= UnparsableDue
	}
	return e.Outcome != DeadLetter || codes&unread == 0 && !e.unread
}

func (e *Expectation) refuse(c Codes) {
	e.Outcome = DeadLetter
	e.Codes |= c
}

// doubt makes an outcome open unless it is already settled for another reason.
func (e *Expectation) doubt(c Codes) {
	if e.Outcome == Deliver {
		e.Outcome = Either
	}
	e.Codes |= c
}

func (rt *route) expectDue(e *Expectation, a asked, r *kgo.Record) {
	timestamp := r.Timestamp.UnixMilli()
	switch {
	case rt.Delay > 0:
		if len(a.until) > 0 || len(a.lasting) > 0 {
			e.refuse(UnsupportedHeader)
		}
		if second := time.Second.Milliseconds(); rt.Now != nil && timestamp > rt.Now().UnixMilli()+second {
			timestamp, e.OrLater = rt.Now().UnixMilli()-second, true
		}
		if timestamp < 0 || timestamp > latest {
			e.refuse(DueOutOfRange)
			e.Due, e.OrLater = atOnce, true
			return
		}
		e.Due = timestamp + ceilMillis(rt.Delay)
		return
	case len(a.until) > 0:
		due, ok := parseUntil(a.until)
		if a.seconds && noSeconds(a.until) {
			e.refuse(DueOutOfRange)
			return
		}
		if !ok {
			rt.unreadDue(e)
			return
		}
		e.Due = due
	case len(a.lasting) > 0:
		timestamp = mirrorsOf(rt, r.Partition).began(r)
		wait, ok := parseFor(a.lasting, timestamp)
		if !ok {
			rt.unreadDue(e)
			return
		}
		if timestamp < 0 || timestamp > latest || timestamp+max(wait, 0) > latest { // it counts from nothing, or the sum is no time
			e.refuse(DueOutOfRange)
			e.Due, e.OrLater = atOnce, true
			return
		}
		e.Due = timestamp + max(wait, 0)
	default:
		e.refuse(NoDue)
		return
	}
	asked := e.Due
	e.Due = min(asked+rt.jitter(r.Partition, r.Offset), latest)
	if limit := rt.MaxDelay.Milliseconds(); limit > 0 {
		switch ahead := asked - timestamp; {
		case timestamp < 0: // when it came is not known
			e.doubt(TooFarAhead)
		case ahead > limit+doubtful.Milliseconds():
			e.refuse(TooFarAhead)
			if asked > latest {
				e.refuse(DueOutOfRange)
			}
		case ahead > limit:
			e.doubt(TooFarAhead)
		}
	}
}

// unreadDue: what no form reads must be refused in a test. Elsewhere the processor may know more forms.
func (rt *route) unreadDue(e *Expectation) {
	e.refuse(UnparsableDue | DueOutOfRange)
	if rt.surveyed {
		e.Due, e.OrLater, e.dueUnread = atOnce, true, true
	}
}

func (rt *route) expectTarget(e *Expectation, a asked, r *kgo.Record) {
	name := bytes.Trim(a.topic, " \t\r\n")
	if len(a.topic) == 0 {
		name = rt.returnsTo(r.Headers)
	}
	if len(name) == 0 && len(a.topic) == 0 {
		name = []byte(rt.Target)
	}
	if len(name) == 0 && len(a.topic) == 0 {
		e.refuse(NoTarget)
		return
	}
	v, ok := rt.verdicts[string(name)]
	if !ok {
		v = rt.judge(string(name))
		rt.verdicts[string(name)] = v
	}
	if v.codes != 0 {
		e.refuse(v.codes)
		e.Target = string(name)
		return
	}
	t := v.target
	e.Target = t.Topic
	if t.MayVanish {
		e.doubt(UnknownTarget)
	}
	if t.MayRefuse {
		e.doubt(Rejected | TooLarge)
	}
	if t.MaxBytes > 0 {
		switch size := contentSize(r); {
		case size > t.MaxBytes:
			e.refuse(TooLarge)
		case size+added > t.MaxBytes:
			e.doubt(TooLarge)
		}
	}
	if len(a.partition) > 0 {
		n, err := strconv.ParseUint(text(a.partition), 10, 31)
		switch {
		case err != nil:
			e.refuse(InvalidPartition)
			e.unread = true
		case t.Partitions > 0 && n >= uint64(t.Partitions), n > math.MaxInt16:
			e.refuse(InvalidPartition)
		default:
			e.Partition = int32(n)
		}
	}
}

// verdict is what becomes of requests that name a target: refused for codes, or bound for a target that exists.
type verdict struct {
	codes  Codes
	target *target
}

func (rt *route) judge(name string) verdict {
	switch {
	case len(name) == 0 || len(name) > 249 || name == "." || name == ".." || strings.TrimLeft(name, topicBytes) != "":
		return verdict{codes: InvalidTarget}
	case !rt.allowed(name):
		return verdict{codes: TargetNotAllowed}
	case rt.targets[name] == nil:
		return verdict{codes: UnknownTarget}
	}
	return verdict{target: rt.targets[name]}
}

const topicBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// allowed: the route's own target, or one that Allow names; never an internal topic, a delay topic or a dead-letter topic.
func (rt *route) allowed(name string) bool {
	if strings.HasPrefix(name, "__") || rt.denied[name] {
		return false
	}
	if name == rt.Target {
		return true
	}
	for _, pattern := range rt.Allow {
		if match(pattern, name) {
			return true
		}
	}
	return false
}

// contentSize is what of a record would be there on delivery too; a lower bound of its size.
func contentSize(r *kgo.Record) int {
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		if passes(h.Key) {
			size += len(h.Key) + len(h.Value)
		}
	}
	return size
}
