package topics

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// AuditEvent is what has become of a request.
type AuditEvent uint8

// The events that a record of the audit topic may tell.
const (
	AuditAccepted     AuditEvent = iota // it is pending
	AuditDelivered                      // to its target
	AuditCancelled                      // by another record
	AuditReplaced                       // by another request
	AuditExpired                        // dead-lettered after delay-expires
	AuditDeadLettered                   // for any other reason
	AuditParked                         // a retry route has delivered it often enough
	AuditTooLate                        // as a replacement; or a cancel came too late
	AuditUnknown                        // of a cancel: nothing of that name is pending
	AuditForwarded                      // of a cancel: it was passed on, to the partition that it names, or of an id to all others
	AuditNotHere                        // of a cancel that was passed on: its id is not pending here
	AuditRetried                        // appended to the delay topic again, to be due later
	AuditDuplicate                      // its id is pending: dead-lettered, or left out
	auditEvents
)

// AuditEvents is how many there are.
const AuditEvents = int(auditEvents)

var auditWords = [auditEvents]string{"accepted", "delivered", "cancelled", "replaced", "expired", "dead_lettered", "parked", "too_late", "unknown", "forwarded", "not_here", "retried", "duplicate"}

// String is the word for it, as records and metrics have it.
func (e AuditEvent) String() string { return auditWords[e] }

// AuditOf is the event of a request that is dead-lettered.
func AuditOf(r *Refusal) AuditEvent {
	switch r.Code {
	case CodeExpired:
		return AuditExpired
	case CodeExhausted:
		return AuditParked
	case CodeTooLate:
		return AuditTooLate
	case CodeDuplicateID:
		return AuditDuplicate
	}
	return AuditDeadLettered
}

// Audit is one record of the audit topic. Its key is the handle of the request that it is about; of a cancel that has done nothing, or was
// passed on, the place of that: so what was told last of a request is what has become of it.
type Audit struct {
	Event AuditEvent
	Of    Handle // as asked for; without a due time when none is known
	ID    []byte // of that request; with Vain what the cancel names, in the place of Of; nil: none
	In    []byte // AppendAuditIn: what it has in common with others

	By      Place // with HasBy: where the record lies that has done it, or has asked for it in vain
	HasBy   bool
	Vain    bool  // it is about that record, and Of or ID is what it names
	NextDue int64 // of AuditRetried: ms since the epoch
	Attempt int   // and so many attempts there were
	Refusal *Refusal
	Target  string // the topic that it was written to; where it lies there is added by AppendPlace
}

// Place is where a record lies in a topic.
type Place struct {
	Partition int32
	Offset    int64
}

// append writes a place as the beginning of a handle.
func (p Place) append(b []byte) []byte {
	return strconv.AppendInt(append(strconv.AppendInt(b, int64(p.Partition), 10), '-'), p.Offset, 10)
}

// maxAuditMessage bounds what a record tells of a refusal; the dead letter has all of it.
const maxAuditMessage = 512

// auditHeads are the beginnings of values, by event.
var auditHeads = func() (heads [auditEvents]string) {
	for e, word := range auditWords {
		heads[e] = `{"event":"` + word + `"`
	}
	return heads
}()

// AppendAuditIn appends what records have in common that are written at one time, in ms since the epoch, and tell of one delay topic.
func AppendAuditIn(b []byte, topic, group string, at int64) []byte {
	b = append(append(append(b, `,"topic":"`...), topic...), `","group":`...)
	return strconv.AppendInt(append(appendJSON(b, group), `,"at":`...), at, 10)
}

// Append appends the value of a record to b, a JSON object, and returns its key as well, which lies within that: the handle, or partition and
// offset where no due time is known, or of a cancel that has done nothing. A value that has a target is left open for AppendPlace.
func (a *Audit) Append(b []byte) (value, key []byte) {
	b = append(b, auditHeads[a.Event]...)
	from, to, digits := 0, 0, 0
	if !a.Vain || a.ID == nil {
		b = append(b, `,"handle":"`...)
		from = len(b)
		b = Place{a.Of.Partition, a.Of.Offset}.append(b)
		if a.Of.Due > 0 {
			b = append(b, '-')
			digits = len(b)
			b = strconv.AppendInt(b, a.Of.Due, 10)
		}
		to = len(b)
		b = append(b, '"')
	}
	switch {
	case a.ID == nil:
	case utf8.Valid(a.ID):
		b = appendJSON(append(b, `,"id":`...), string(a.ID))
	default:
		b = append(base64.StdEncoding.AppendEncode(append(b, `,"id_base64":"`...), a.ID), '"')
	}
	b = append(b, a.In...)
	if digits > 0 {
		b = append(append(b, `,"due":`...), b[digits:to]...)
	}
	if a.HasBy {
		b = append(b, `,"by":"`...)
		at := len(b)
		if b = a.By.append(b); a.Vain {
			from, to = at, len(b)
		}
		b = append(b, '"')
	}
	b = a.appendRest(b)
	return b, b[from:to:to]
}

// appendRest ends a value with what only some have.
func (a *Audit) appendRest(b []byte) []byte {
	if a.Event == AuditRetried {
		b = strconv.AppendInt(append(b, `,"next_due":`...), a.NextDue, 10)
		b = strconv.AppendInt(append(b, `,"attempt":`...), int64(a.Attempt), 10)
	}
	if r := a.Refusal; r != nil {
		b = append(append(append(b, `,"code":"`...), r.Code...), `","message":`...)
		b = appendJSON(b, r.Message[:min(len(r.Message), maxAuditMessage)])
	}
	if a.Target == "" {
		return append(b, '}')
	}
	return append(append(append(b, `,"target":"`...), a.Target...), '"')
}

// AuditPlaceBytes is the most that AppendPlace appends.
const AuditPlaceBytes = len(`,"target_partition":,"target_offset":}`) + 10 + 19

// AppendPlace ends a value with where the record lies in its target. It changes nothing about one that has ended.
func AppendPlace(b []byte, at Place) []byte {
	if b[len(b)-1] == '}' {
		return b
	}
	b = strconv.AppendInt(append(b, `,"target_partition":`...), int64(at.Partition), 10)
	b = strconv.AppendInt(append(b, `,"target_offset":`...), at.Offset, 10)
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

// appendJSON appends a text as JSON has it. What is no UTF-8 is replaced.
func appendJSON(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		i++
	}
	return append(b, '"')
}

// ReserveAudit keeps the audit topic of a configuration from being anything else in it: a request for it is refused, whatever a pattern of
// targets says. "" is none.
func ReserveAudit(topic string, routes []*Route) error {
	if topic == "" {
		return nil
	}
	if !validTopic(topic) || isInternal(topic) {
		return fmt.Errorf("audit.topic %q is not a topic name: %s, and not __ at the beginning", topic, whatAName)
	}
	var errs []error
	for _, r := range routes {
		switch {
		case r.Topic == topic:
			errs = append(errs, fmt.Errorf("audit.topic %q is the delay topic of a route", topic))
		case slices.Contains(r.LetterBoxes(), topic):
			errs = append(errs, fmt.Errorf("audit.topic %q is the dead letter topic of route %q", topic, r.Topic))
		case r.allowed[topic]:
			errs = append(errs, fmt.Errorf("audit.topic %q is a target of route %q", topic, r.Topic))
		default:
			r.allowed[topic] = false
		}
	}
	return errors.Join(errs...)
}
