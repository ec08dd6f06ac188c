package check

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// arrival is a record seen in a target or dead-letter topic, as far as it is judged.
type arrival struct {
	print
	at      place
	target  uint16
	code    Codes
	retried bool        // it names, or came by way of, a later attempt
	stamp   uint32      // of a Survey: of the timestamp that it says its request had; 0: it says none
	cut     *cut        // of a dead letter: what it had to leave out; nil: nothing
	record  *kgo.Record // nil when it was seen before its request and is gone
}

// judging is what a checker does with one record that is taken in.
type judging struct{ *Checker }

// Delivered takes a committed record of a target topic. Seen is when a consumer saw it; zero is not known. A survey goes by when the record says
// that it was delivered, as long as that is not later than it was read.
func (c *Checker) Delivered(r *kgo.Record, seen time.Time) {
	if !(relaying{c}).relayed(r) {
		c.delivered(r, seen)
	}
}

func (c *Checker) delivered(r *kgo.Record, seen time.Time) {
	c.counts.Delivered++
	r = deliveredAsUsual(c.prefixed, r)
	p := fromDelivered(r.Headers)
	rt := c.routes[string(p.topic)]
	if (saying{c}).misnames(rt, p, r) {
		c.counts.Delivered--
		return
	}
	if !p.named() || rt == nil || rt.Unseen {
		judging{c}.deliveredBare(r, seen)
		return
	}
	src, offset := judging{c}.named(rt, p), p.offset
	if (judging{c}).outside(src, offset, 0, false) {
		c.counts.Delivered--
		written, _ := delivery{rt, r, p}.writtenAt()
		judging{c}.judgeGone(src, offset, p.due, r, moment{written: written, read: seen})
		return
	}
	if s := src.at(offset); s.is(isRetry) {
		c.fault(Altered, src.name(offset), r, "names a retry record, not the request")
		offset = s.due
	}
	if p.problem == "" {
		p.problem = delivery{rt, r, p}.misEmitted()
	}
	p.problem = cmp.Or(p.problem, saying{c}.otherwise(rt, p, r, seen))
	written, misdated := delivery{rt, r, p}.writtenAt()
	if p.problem == "" {
		p.problem = misdated
	}
	if p.round >= 0 && rt.Retry == nil {
		p.problem, p.round = cmp.Or(p.problem, "header delay-attempt was delivered, and its route is none for retries"), -1
	}
	if written == untimed {
		c.counts.Untimed++
	}
	read := time.Time{}
	if c.config.Survey != nil { // which sees what was written, at any time later
		read, seen = seen, time.UnixMilli(written)
		if written == untimed {
			seen = time.Time{}
		}
	}
	if p.problem != "" {
		c.fault(Altered, src.name(offset), r, "%s", p.problem)
	}
	a := arrival{
		print: c.hash.asDelivered(r.Key, r.Value, r.Headers, p.due, rt.emitted(p.timestamp)),
		at:    c.places.of(r), target: c.targets.index(r.Topic), retried: p.attempt > 0, record: r,
	}
	a.stamp = delivery{rt, r, p}.ofItsRequest()
	if p.attempt >= 0 && src.at(offset).arrivals == 0 {
		src.attempts[offset] = tried{times: p.attempt}
	}
	if rt.Retry != nil {
		c.counts.Again++
	}
	src.fates.arrive(offset, src.at(offset), fate{at: written, due: p.due, round: p.round, byBroker: byBroker(r), dated: p.timestamp >= 0})
	judging{c}.deliver(src, offset, a, moment{seen: seen, fired: p.fired, written: written, from: src.from(offset, p), read: read})
}

// misEmitted tells which emitted header is there and should not be, or the other way round. In a survey it may have left out others than delay-due, and emitted them, when
// that was delivered: these are counted.
func (d delivery) misEmitted() string {
	if d.surveyed && d.p.due >= 0 {
		return ""
	}
	return d.misEmits()
}

func (d delivery) misEmits() string {
	p, all := d.p, d.Emit == emitAll
	switch {
	case d.Emit == emitNone:
		return "has emitted headers, which the route leaves out"
	case p.due < 0:
		return "delay-due is absent"
	case all && (p.fired < 0 || p.timestamp < 0 && !p.undated):
		return "delay-fired or delay-source-timestamp is absent"
	case !all && (p.fired >= 0 || p.timestamp >= 0):
		return "has delay-fired or delay-source-timestamp, which the route leaves out"
	}
	return ""
}

// emitted is the timestamp of a request as far as its delivered record says it.
func (rt *route) emitted(timestamp int64) int64 {
	if rt.Emit == emitAll && !rt.surveyed {
		return timestamp
	}
	return 0
}

// from is the timestamp of a request, or when its turn came, or any that is not after its due time, or unknown: what arrives without it and before its request
// has been seen.
func (s *source) from(offset int64, p provenance) int64 {
	switch {
	case p.timestamp >= 0:
		return max(p.timestamp, s.overdue[offset])
	case !s.at(offset).is(requested):
		return unknown
	}
	return s.overdue[offset]
}

func (c judging) deliver(src *source, offset int64, a arrival, m moment) {
	s := src.at(offset)
	first := c.arrived(src, s, offset, a)
	switch {
	case s.is(requested):
		c.judgeDelivered(src, s, offset, a)
		if first {
			believing(c).ahead(src, s, offset, a.due, a.record)
		}
	case first:
		s.print, s.target, s.stamp = a.print, a.target, a.stamp
	case !s.is(died) && (s.print != a.print || s.target != a.target):
		c.fault(Altered, src.name(offset), a.record, "differs from what arrived first")
	}
	s.flags |= delivered
	if mayBeOfAnotherGroup(c.Checker, src, a) {
		c.namings.arrived(src.name(offset), s)
	} else {
		c.ended(src.name(offset), s, 0, false)
		c.ids.delivered(src, offset, m.written)
		c.prompt.noteDelivered(c.Checker, src.name(offset), s, m)
	}
	due := a.due
	if s.is(requested) && !s.is(orLater) && !s.wasAhead(a.due) {
		due = s.due
	}
	c.judgeTime(src.name(offset), due, a.record, m)
	if first {
		c.judgeLateness(src.name(offset), due, a.record, m)
	} else {
		c.judgeAgain(src, offset, a.record, m)
	}
	c.awaitCovered(src, offset, due, m.seen)
	if first {
		c.judgeTurn(src, offset, s, a.record)
	}
	if first && !m.seen.IsZero() && m.from != unknown && (!s.is(requested) || s.is(mayDeliver)) {
		timing(c).note(a.record.Topic, due, m)
	}
}

// arrived counts an arrival and tells whether it is the first of its request.
func (c judging) arrived(src *source, s *slot, offset int64, a arrival) bool {
	if s.arrivals < math.MaxUint8 {
		s.arrivals++
	}
	delete(c.astray, src.name(offset))
	if s.arrivals > 1 {
		if c.ofAnotherGroup(src, s, a) {
			c.counts.Delivered--
			c.counts.Foreign++
			return false
		}
		c.counts.Doubled++
		switch {
		case c.config.AllowDoubles, s.is(orAgain) && s.arrivals == 2:
		case s.is(forgotten):
			c.fault(Doubled, src.name(offset), a.record, "seen %d times, now at %s", s.arrivals, c.places.name(a.at))
		default:
			c.fault(Doubled, src.name(offset), a.record, "seen %d times, first at %s, now at %s", s.arrivals, c.places.name(s.place), c.places.name(a.at))
		}
		return false
	}
	s.place = a.at
	if a.retried {
		s.flags |= retried
	}
	switch {
	case c.config.Survey == nil && s.is(settled): // the log had lost it
		s.flags &^= settled
		c.counts.Lost--
	case s.is(requested) && !c.apart(src.name(offset), s):
		*c.counts.waiting(s, c.until)--
	}
	return true
}

func (c judging) judgeDelivered(src *source, s *slot, offset int64, a arrival) {
	if s.is(forgotten) {
		return
	}
	if !s.is(mayDeliver) {
		c.fault(BadDelivered, src.name(offset), a.record, "seen at %s, and %s", c.places.name(a.at), promised(c.Checker, s))
		return
	}
	if wrong := c.differences(src.route, s, a); len(wrong) > 0 {
		c.fault(Altered, src.name(offset), a.record, "%s", strings.Join(wrong, ", "))
	}
}

func (c judging) differences(rt *route, s *slot, a arrival) (wrong []string) {
	if a.due >= 0 && a.due != s.due && !(s.is(orLater) && a.due > s.due) && !s.wasAhead(a.due) {
		wrong = append(wrong, fmt.Sprintf("due %d, not %d", a.due, s.due))
	}
	if a.key != s.key {
		wrong = append(wrong, "key")
	}
	if a.value != s.value {
		wrong = append(wrong, "value")
	}
	if a.headers != s.headers {
		wrong = append(wrong, "headers or delay-source-timestamp")
	}
	if a.stamp != 0 && a.stamp != s.stamp {
		wrong = append(wrong, "delay-source-timestamp, or the timestamp of the request")
	}
	to := c.places.at(a.at)
	if a.target != s.target {
		wrong = append(wrong, fmt.Sprintf("target %s, not %s", to.topic, c.targets.names[s.target]))
	} else if where := c.targets.misplacement(rt, s.partition, to, a.record); where != "" {
		wrong = append(wrong, where)
	}
	return wrong
}

// DeadLettered takes a committed record of a dead-letter topic.
func (c *Checker) DeadLettered(r *kgo.Record) { c.Died(r, time.Time{}) }

// Died takes a committed record of a dead-letter topic, and when it was read; zero is not known.
func (c *Checker) Died(r *kgo.Record, read time.Time) {
	c.counts.DeadLettered++
	p := fromDeadLetter(r.Headers)
	rt := c.routes[string(p.topic)]
	if (saying{c}).misnames(rt, p, r) {
		c.counts.DeadLettered--
		return
	}
	if c.config.Survey != nil && (!p.named() || rt == nil || rt.Unseen) {
		c.counts.DeadLettered--
		c.counts.Foreign++
		straying{c}.delivered(r)
		return
	}
	if !p.named() || rt == nil {
		c.fault(Stray, Source{r.Topic, r.Partition, r.Offset}, r, "names no request")
		return
	}
	src, offset := judging{c}.named(rt, p), p.offset
	if (judging{c}).outside(src, offset, codeOf(p.code), true) {
		c.counts.DeadLettered--
		judging{c}.judgeGone(src, offset, -1, r, moment{written: untimed})
		return
	}
	p.problem = cmp.Or(p.problem, misTold(r, p))
	if box := rt.letterBox(codeOf(p.code)); box != r.Topic {
		p.problem = "dead letter topic " + r.Topic + ", not " + box
	}
	if p.problem != "" {
		c.fault(Altered, src.name(offset), r, "%s", p.problem)
	}
	saying{c}.letter(src.name(offset), r, read)
	r = rt.asUsual(r)
	a := arrival{print: c.hash.asDead(r, 0, p.timestamp), at: c.places.of(r), code: codeOf(p.code), record: r}
	if rt.surveyed && (p.timestamp >= 0 || p.undated) {
		a.stamp = stampOf(p.timestamp)
	}
	a.cut, a.retried = c.hash.cutDown(r, p), p.attempt > 0
	s := src.at(offset)
	if s.is(isRetry) {
		c.fault(Altered, src.name(offset), r, "dead letter: names a retry record, not the request")
		offset = s.due
		s = src.at(offset)
	}
	if p.attempt > 0 && s.arrivals == 0 {
		src.attempts[offset] = tried{times: p.attempt}
	}
	c.byCode[a.code.String()]++
	switch a.code {
	case Expired:
		c.counts.Expired++
	case Exhausted:
		c.counts.Parked++
	}
	src.fates.arrive(offset, s, fate{at: r.Timestamp.UnixMilli(), round: -1, dead: true, code: a.code, byBroker: byBroker(r)})
	c.ids.noteOver(src, offset, r.Timestamp.UnixMilli())
	first := judging{c}.arrived(src, s, offset, a)
	switch {
	case s.is(requested):
		if s.is(mayDeliver) {
			a.print = c.hash.asSpared(r, rt, rt.emitted(p.timestamp))
		}
		judging{c}.judgeDead(src, s, offset, a)
	case first:
		s.print, s.codes = a.print, uint32(a.code)
		if a.cut != nil {
			src.cut[offset] = *a.cut
		}
	}
	s.flags |= died
	c.ended(src.name(offset), s, a.code, true)
}

// judgeDead compares a dead letter with the request, whose fingerprint in the slot must be of the same sort.
func (c judging) judgeDead(src *source, s *slot, offset int64, a arrival) {
	if s.is(forgotten) {
		return
	}
	if !s.is(mayDie) {
		c.fault(GoodDeadLettered, src.name(offset), a.record, "seen at %s with code %s, and %s", c.places.name(a.at), a.code, promised(c.Checker, s))
		return
	}
	var wrong []string
	switch codes := Codes(s.codes); {
	case codes == 0, codes&a.code != 0:
	case strings.Count(codes.String(), " or ") >= fewCodes:
		wrong = append(wrong, fmt.Sprintf("code %s, for which it gives no reason", a.code))
	default:
		wrong = append(wrong, fmt.Sprintf("code %s, not %s", a.code, codes))
	}
	left := cut{}
	if a.cut != nil {
		left = *a.cut
		wrong = append(wrong, c.cutWrong(src, offset, left)...)
	}
	if !left.ofValue && a.value != s.value {
		wrong = append(wrong, "value")
	}
	if !left.ofKey && a.key != s.key {
		wrong = append(wrong, "key")
	}
	if !left.ofHeaders && a.headers != s.headers {
		wrong = append(wrong, "headers or timestamp")
	} else if a.record != nil && s.stamp != 0 && a.stamp != 0 && a.stamp != s.stamp {
		wrong = append(wrong, "timestamp")
	}
	if len(wrong) > 0 {
		c.fault(Altered, src.name(offset), a.record, "dead letter: %s", strings.Join(wrong, ", "))
	}
	believing(c).refused(s, a)
}

// judgeLate judges what arrived before its request was read. Got is what the arrivals left in the slot; the first of them is
// compared in full.
func (c judging) judgeLate(src *source, s, got *slot, r *kgo.Record, e Expectation) {
	a := arrival{print: got.print, at: got.place, target: got.target, code: Codes(got.codes), stamp: got.stamp}
	first := got.flags & (delivered | died)
	if first == delivered|died {
		if first = delivered; c.letters[c.places.at(a.at).topic] {
			first = died
		}
	}
	if cut, ok := src.cut[r.Offset]; ok {
		a.cut = &cut
		delete(src.cut, r.Offset)
	}
	if first == delivered || got.is(delivered) && !s.is(mayDeliver) {
		c.judgeDelivered(src, s, r.Offset, a)
		believing(c).ahead(src, s, r.Offset, a.due, nil)
	}
	if first == died || got.is(died) && !s.is(mayDie) {
		as := *s
		as.print = c.hash.asDead(r, e.Due, r.Timestamp.UnixMilli())
		c.judgeDead(src, &as, r.Offset, a)
	}
}
