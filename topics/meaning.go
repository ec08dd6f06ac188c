package topics

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Meaning says in words how one header of a request was understood.
type Meaning struct {
	Header string
	Value  []byte
	Means  string
}

// explained is a parser that is put into words.
type explained struct{ *Parser }

// Meanings says of each header that Readings tells of how this parser understands it, for people. The arguments are those of Parse.
func (p *Parser) Meanings(headers []kgo.RecordHeader, written Stamp, offset int64, m Mark) (all []Meaning) {
	q, err := p.Parse(headers, written, offset, m)
	var refusal *Refusal
	errors.As(err, &refusal)
	for _, r := range p.Readings(headers, written) {
		f, name := fieldOf(r.Name, p.ours()), r.For
		if name != "" {
			f = fieldOf(name, HeaderPrefix)
		}
		means := r.Note
		switch {
		case len(r.Value) == 0:
			means = "empty: as if it were not there"
		case refusal != nil && refusal.Header == r.Name:
			means = "refused: " + refusal.Message
		case f == fieldIgnored || f == fieldAttempt && !p.retries():
			means = "of a record that was delivered before: means nothing here"
		case means != "" && name != "":
		case refusal != nil:
			means = "not looked at: the record is refused"
		case q.Kind == KindOfAnotherGroup:
			means = "of a record that another group has written for itself"
		default:
			means = explained{p}.means(f, r.Value, &q, written, offset, m)
		}
		all = append(all, Meaning{r.Name, r.Value, means})
	}
	return all
}

// means says what the value of one header asks for, in a record that was understood.
func (p explained) means(f field, v []byte, q *Request, written Stamp, offset int64, m Mark) string {
	switch f {
	case fieldUntil, fieldFor:
		return p.meansDue(f, q, written, offset, m)
	case fieldTopic:
		return "the target is the topic " + string(q.Target)
	case fieldKey:
		return fmt.Sprintf("the delivered record has this key (%s)", Plural(len(v), "byte"))
	case fieldPartition:
		return fmt.Sprintf("it goes to partition %d of the target", q.Partition)
	case fieldExpires:
		if p.retries() {
			return "passed over: this is a route for retries"
		}
		return "dead-lettered if it is not delivered until " + format(q.Expires)
	case fieldID:
		switch {
		case q.ID == nil:
			return "passed over: what is tried again has no id"
		case q.Replaces:
			return "its id, which it takes over from what it replaces"
		}
		return fmt.Sprintf("its id; if a record of the partition has it, %s", [...]string{"this one is dead-lettered", "this one takes its place", "this one is left out"}[q.OnDuplicate])
	case fieldCancel:
		return "cancels " + q.names()
	case fieldReplace:
		if q.Retry {
			return "passed over: that was dealt with before it was tried"
		}
		return "takes the place of " + q.names()
	case fieldForwarded:
		return "another partition has passed it on"
	case fieldAttempt:
		return fmt.Sprintf("it was delivered %s before", times(q.Round))
	case fieldRetry:
		if !q.Retry {
			return "not of this topic, partition and group: means nothing"
		}
		return fmt.Sprintf("written by duewheel: tried %s before, and due again at %s; the request is at offset %d", times(q.Attempt), format(q.Due), q.Origin.Offset)
	case fieldResolve:
		return fmt.Sprintf("written by duewheel: the record at offset %d is resolved", q.ResolveOffset)
	}
	return "means nothing here"
}

// meansDue says when a record is due by its own headers.
func (p explained) meansDue(f field, q *Request, written Stamp, offset int64, m Mark) string {
	jitter := p.Jitter(m, offset)
	due := "due at " + format(q.Due-jitter)
	if jitter > 0 {
		due += fmt.Sprintf(", and %v later for the jitter of its route", time.Duration(jitter)*time.Millisecond)
	}
	switch {
	case q.Kind == KindCancel:
		return "passed over: a record that cancels does nothing else"
	case p.retries():
		return "passed over: the backoff of the route counts"
	case q.Retry:
		return "passed over: it was tried, and duewheel has said since when it is due"
	case f == fieldUntil:
		return due
	case q.Due-jitter == max(written.Millis, 1):
		return "no delay: " + due
	}
	return fmt.Sprintf("%s after it was written: %s", FormatDelay(time.Duration(q.Due-jitter-written.Millis)*time.Millisecond), due)
}

// names is what a record names.
func (q *Request) names() string {
	var b strings.Builder
	switch {
	case q.NamedID != nil:
		fmt.Fprintf(&b, "what has the id %q", q.NamedID)
	case q.Here:
		fmt.Fprintf(&b, "the record at offset %d, if it is due at %s", q.Handle.Offset, format(q.Handle.Due))
	default:
		fmt.Fprintf(&b, "a record of partition %d, to which it is passed on", q.Handle.Partition)
	}
	return b.String()
}
