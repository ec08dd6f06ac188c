package topics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Emit is which headers of ours a delivered record carries. They may double a small record.
type Emit uint8

const (
	EmitSource Emit = iota // delay-due, delay-source, and delay-tries if there was one before
	EmitAll                // these, delay-source-timestamp and delay-fired
	EmitNone               // none, for sinks that cannot read headers that are plain text
)

var emitNames = [...]string{"source", "all", "none"}

// String returns what UnmarshalText reads: source, all or none.
func (e Emit) String() string { return emitNames[e] }

// MarshalText is the inverse of UnmarshalText.
func (e Emit) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText sets e by its name, in whatever case.
func (e *Emit) UnmarshalText(text []byte) error {
	for i, name := range emitNames {
		if strings.EqualFold(string(text), name) {
			*e = Emit(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", text, strings.Join(emitNames[:], ", "))
}

// Delivered is what a delivered record says of where it comes from.
type Delivered struct {
	Topic     string // the delay topic
	Partition int32
	Origin    Origin // Request.First: the request as it was written, and when it was due
	Fired     int64  // hand-over to the producer, ms since the epoch
	Attempt   int    // attempts to deliver it before this one; zero leaves delay-tries out
	Round     int    // of a retry route: the delay-attempt that comes back with the record if it fails, whatever Emit is
	Emit      Emit
	Preset    Preset   // whose headers the request asked by: they are left out
	Prefix    string   // of our headers; "" is HeaderPrefix
	Asked     string   // what it was when the request was read, by whose headers that asks: they are left out, too; "" is Prefix
	Strip     []string // names of headers that are left out, too, in which * is any run of characters

	shared shared // what neighbours have in common, as text
}

// shared keeps the text of what a run of delivered records has in common, so that it is formatted
// once.
type shared struct {
	topicOf     string
	partitionOf int32
	firedOf     int64
	partition   []byte // topic/partition/
	fired       []byte // nil: not formatted yet
	prefixOf    string
	names       *emitted
}

func (s *shared) format(d *Delivered) {
	if s.partition == nil || s.partitionOf != d.Partition || s.topicOf != d.Topic {
		s.topicOf, s.partitionOf = d.Topic, d.Partition
		s.partition = fmt.Appendf(nil, "%s/%d/", d.Topic, d.Partition)
	}
	if s.fired == nil || s.firedOf != d.Fired {
		s.firedOf = d.Fired
		s.fired = slices.Clip(strconv.AppendInt(nil, d.Fired, 10))
	}
}

// AppendDelivered appends to dst the headers of a delivered record: those of in
// as they are and in their order, less what is left out (leftOut), and then what
// d says. The new values are formatted into buf, which is returned with dst; the
// values of in are not copied. With room in both it does not allocate, as long as
// one d is used for records that share their partition and hand-over.
func AppendDelivered(dst, in []kgo.RecordHeader, d *Delivered, buf []byte) ([]kgo.RecordHeader, []byte) {
	prefix := cmp.Or(d.Prefix, HeaderPrefix)
	former := d.Asked != "" && d.Asked != prefix
	for i := range in {
		if former && leftOut(in[i].Key, d.Asked) {
			continue
		}
		if !leftOut(in[i].Key, prefix) && !d.strips(in[i].Key) {
			dst = append(dst, in[i])
		}
	}
	w := writer{headers: dst, buf: buf}
	names := d.names()
	if d.Round > 0 {
		w.number(names.attempt, int64(d.Round))
	}
	if d.Emit == EmitNone {
		return w.headers, w.buf
	}
	d.shared.format(d)
	w.number(names.due, d.Origin.Due)
	start := len(w.buf)
	w.buf = strconv.AppendInt(append(w.buf, d.shared.partition...), d.Origin.Offset, 10)
	w.take(names.source, start)
	if d.Emit == EmitAll {
		w.number(names.sourceTimestamp, d.Origin.Timestamp)
		w.value(names.fired, d.shared.fired)
	}
	if d.Attempt > 0 {
		w.number(names.tries, int64(d.Attempt))
	}
	return w.headers, w.buf
}

// emitted are the names of what a delivered record gets.
type emitted struct{ due, source, sourceTimestamp, fired, tries, attempt string }

func emittedBy(prefix string) *emitted {
	name := func(n string) string { return withPrefix(n, prefix) }
	return &emitted{name(HeaderDue), name(HeaderSource), name(HeaderSourceTimestamp), name(HeaderFired), name(HeaderTries), name(HeaderAttempt)}
}

var usualEmitted = emittedBy(HeaderPrefix)

// names are those of the prefix.
func (d *Delivered) names() *emitted {
	if d.Prefix == "" || d.Prefix == HeaderPrefix {
		return usualEmitted
	}
	if d.shared.names == nil || d.shared.prefixOf != d.Prefix {
		d.shared.names, d.shared.prefixOf = emittedBy(d.Prefix), d.Prefix
	}
	return d.shared.names
}

// strips tells whether a header is one of those that the record asked by, or that the route takes off.
func (d *Delivered) strips(name string) bool {
	if d.Preset.strips(name) {
		return true
	}
	for _, pattern := range d.Strip {
		if match(pattern, name) {
			return true
		}
	}
	return false
}

// Resolve returns the headers of a resolve record: a record of this one header,
// without key and value, in the same partition of the delay topic. It says that
// the record at offset, whose key is (due, seq), is resolved for this group. Where
// offset is not seq a copy lies there, whose record was resolved before it was read.
func Resolve(m Mark, offset, due, seq int64) []kgo.RecordHeader {
	return ResolveBy(m, offset, due, seq, -1)
}

// ResolveBy is Resolve for a record that was cancelled or replaced by another one, whose own outcome is not decided yet: by is where that lies.
func ResolveBy(m Mark, offset, due, seq, by int64) []kgo.RecordHeader {
	return []kgo.RecordHeader{{Key: HeaderResolve, Value: m.appendTo(nil, offset, due, seq, by)}}
}

// AppendForward appends to dst the headers of a cancel that is written again, to the partition that it names: in, which is the cancel as it was
// written, and one header of ours behind it, which says where and when that was. m is the mark of the partition that it goes to.
func AppendForward(dst, in []kgo.RecordHeader, m Mark, from int32, offset, timestamp int64, buf []byte) ([]kgo.RecordHeader, []byte) {
	w := writer{headers: append(dst, in...), buf: buf}
	start := len(w.buf)
	w.buf = m.appendTo(w.buf, int64(from), offset, max(timestamp, -1))
	w.take(HeaderForwarded, start)
	return w.headers, w.buf
}

// writer appends headers, with their values one after the other in buf.
type writer struct {
	headers []kgo.RecordHeader
	buf     []byte
}

func (w *writer) number(name string, n int64) {
	start := len(w.buf)
	w.buf = strconv.AppendInt(w.buf, n, 10)
	w.take(name, start)
}

// value takes a value as it is.
func (w *writer) value(name string, value []byte) {
	w.headers = append(w.headers, kgo.RecordHeader{Key: name, Value: value})
}

func (w *writer) text(name, value string) {
	start := len(w.buf)
	w.buf = append(w.buf, value...)
	w.take(name, start)
}

// take makes a header of what buf holds from start. A later append may move buf
// to a new array; the value stays in the old one.
func (w *writer) take(name string, start int) {
	w.headers = append(w.headers, kgo.RecordHeader{Key: name, Value: slices.Clip(w.buf[start:])})
}
