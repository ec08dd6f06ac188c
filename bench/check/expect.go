package check

import (
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

// added is more than emitted headers can add to the size of a record. Between the size with and without it, a record may be
// too large or not.
const added = 1024

// asked is what the headers of a request ask for. The last header of a name counts; an empty one is as good as absent.
type asked struct {
	until, lasting, topic, key, partition []byte
	cancel, replace, expires, id          []byte
	unsupported                           bool
}

// read takes what headers of other tools say where none of the processor's own asks for anything, and the route lets records say when they are due.
func (rt *route) read(headers []kgo.RecordHeader) asked {
	if tool := rt.borrows(headers); tool != "" {
		return borrowed(headers, tool)
	}
	return read(headers)
}

func read(headers []kgo.RecordHeader) asked {
	var a asked
	for _, h := range headers {
		if !belongs(h.Key) {
			continue
		}
		switch h.Key {
		case "delay-until":
			a.until = h.Value
		case "delay-for":
			a.lasting = h.Value
		case "delay-target-topic":
			a.topic = h.Value
		case "delay-target-key":
			a.key = h.Value
		case "delay-target-partition":
			a.partition = h.Value
		case "delay-cancel":
			a.cancel = h.Value
		case "delay-replace":
			a.replace = h.Value
		case "delay-id":
			a.id = h.Value
		case "delay-expires":
			a.expires = h.Value
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
	if rt.Keyed && r.Value == nil && len(a.cancel)+len(a.replace) == 0 {
		a.cancel = r.Key
		if len(r.Key) == 0 {
			e.refuse(InvalidID)
			return e
		}
	}
	if len(a.cancel) > 0 {
		rt.expectNamed(&e, a.cancel, r)
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
		case !ok:
			e.refuse(InvalidExpiry)
		case until < e.Due-rt.jitter(r.Partition, r.Offset):
			e.refuse(Expired)
			e.unread = true
		default:
			e.doubt(Expired)
		}
	}
	if len(a.replace) > 0 {
		rt.expectNamed(&e, a.replace, r)
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
func (rt *route) expectNamed(e *Expectation, v []byte, r *kgo.Record) {
	partition, offset, due, ok := handle(v)
	switch replaces := rt.read(r.Headers).cancel == nil; {
	case rt.Delay > 0:
		e.refuse(UnsupportedHeader)
	case !ok && len(v) > 256:
		e.refuse(InvalidID)
	case !ok:
		if e.Outcome != DeadLetter || e.Codes&unread == 0 && !e.unread {
			e.ID, e.NamesID = string(v), true
		}
	case replaces && partition != r.Partition:
		e.refuse(WrongPartition)
	case e.Outcome != DeadLetter || e.Codes&unread == 0 && !e.unread:
		e.Names, e.NamesDue = Source{r.Topic, partition, offset}, due
	}
}

// unread are the reasons for which headers cannot be understood, whatever the configuration.
const unread = InvalidID | NoDue | UnparsableDue | InvalidTarget | UnsupportedHeader | InvalidExpiry

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
		e.Due = timestamp + ceilMillis(rt.Delay)
		return
	case len(a.until) > 0:
		due, ok := parseUntil(a.until)
		if !ok {
			rt.unreadDue(e)
			return
		}
		e.Due = due
	case len(a.lasting) > 0:
		wait, ok := parseFor(a.lasting, timestamp)
		if !ok || wait > math.MaxInt64-timestamp {
			rt.unreadDue(e)
			return
		}
		e.Due = timestamp + max(wait, 0)
	default:
		e.refuse(NoDue)
		return
	}
	e.Due += rt.jitter(r.Partition, r.Offset)
	if limit := rt.MaxDelay.Milliseconds(); limit > 0 {
		switch ahead := e.Due - timestamp; {
		case ahead > limit+doubtful.Milliseconds():
			e.refuse(TooFarAhead | DueOutOfRange)
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
	name := a.topic
	if len(name) == 0 {
		name = rt.returnsTo(r.Headers)
	}
	if len(name) == 0 {
		name = []byte(rt.Target)
	}
	if len(name) == 0 {
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
		n, err := strconv.ParseInt(string(a.partition), 10, 16)
		switch {
		case err != nil || n < 0:
			e.refuse(InvalidPartition)
			e.unread = true
		case t.Partitions > 0 && n >= int64(t.Partitions):
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
	case len(name) > 249 || strings.TrimLeft(name, topicBytes) != "":
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

// match tells whether a name fits a pattern in which * stands for any run of characters.
func match(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	name = name[len(head):]
	for i := 0; i <= len(name); i++ {
		if match(rest, name[i:]) {
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
