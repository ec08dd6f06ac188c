package check

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Kind is a kind of fault.
type Kind uint8

// The kinds of faults, in the order in which a report lists them.
const (
	Missing          Kind = iota // requested and due, seen nowhere
	Doubled                      // seen more than once
	Early                        // delivered before it was due
	Altered                      // not as it was requested
	GoodDeadLettered             // dead-lettered although it could be delivered
	BadDelivered                 // delivered although it had to be refused
	Disordered                   // delivered before an earlier one of the same source partition, key, target and due time
	Stray                        // arrived without a committed request
	Late                         // delivered more than Config.Late after it was due, in a world that was well
	Ahead                        // says that it was delivered later than it was seen
	Insistent                    // put off more often than Config.Retries
	Uncovered                    // accepted or delivered, and no checkpoint has said so within Config.Covered
	Overdue                      // due, seen nowhere, and the group does not say that it is done with it; of a Survey
	kinds
)

var kindNames = [kinds]string{
	"missing", "doubled", "early", "altered", "good dead-lettered", "bad delivered", "disordered", "stray",
	"late", "ahead", "insistent", "uncovered", "overdue",
}

func (k Kind) String() string { return kindNames[k] }

// Kinds returns every kind of fault.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Source is the place of a request: the identity of a record on its whole way.
type Source struct {
	Topic     string
	Partition int32
	Offset    int64
}

func (s Source) String() string { return fmt.Sprintf("%s/%d@%d", s.Topic, s.Partition, s.Offset) }

// Fault is one broken promise.
type Fault struct {
	Kind   Kind
	Source Source
	Detail string

	// Arrived is the record as it was seen in a target or dead-letter topic, when the fault was found on seeing it.
	Arrived *kgo.Record
	// Request is the record as it was requested, when the fault was found on reading it; a Watch fetches it otherwise.
	Request *kgo.Record
}

func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s", f.Kind, f.Source, f.Detail)
	if f.Request != nil {
		fmt.Fprintf(&b, "\n    requested %s", describe(f.Request))
	}
	if f.Arrived != nil {
		fmt.Fprintf(&b, "\n    arrived   %s", describe(f.Arrived))
	}
	return b.String()
}

// shown bounds how much of a value is printed.
const shown = 200

func describe(r *kgo.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d@%d t=%d key=%s value=%s", r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli(), quote(r.Key), quote(r.Value))
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %s=%s", legible(h.Key), quote(h.Value))
	}
	return b.String()
}

// legible is the name of a header, in quotes where a terminal would do more than show it, or where it is very long.
func legible(name string) string {
	if len(name) <= shown && !strings.ContainsFunc(name, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return name
	}
	return quote([]byte(name))
}

func quote(v []byte) string {
	switch {
	case v == nil:
		return "null"
	case len(v) > shown:
		return fmt.Sprintf("%q... (%d bytes)", v[:shown], len(v))
	}
	return fmt.Sprintf("%q", v)
}

// clone copies a record out of the buffers of the fetch that brought it.
func clone(r *kgo.Record) *kgo.Record {
	c := *r
	c.Context = nil
	c.Key, c.Value = cloneBytes(r.Key), cloneBytes(r.Value)
	c.Headers = make([]kgo.RecordHeader, len(r.Headers))
	for i, h := range r.Headers {
		c.Headers[i] = kgo.RecordHeader{Key: strings.Clone(h.Key), Value: cloneBytes(h.Value)}
	}
	return &c
}

func cloneBytes(v []byte) []byte {
	if v == nil {
		return nil
	}
	return append([]byte{}, v...)
}
