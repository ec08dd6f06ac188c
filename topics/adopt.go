package topics

import (
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A group that is new where a log begins above 0 finds copies and retries there that other groups have written for themselves, of records that are gone:
// nothing else is left of these. So the new group adopts them: they stand for their records, as far as they were there when it began. What is written
// later it passes over, as it has the record by then. And what others have cancelled across partitions by then counts for it, as the cancel itself may be
// gone where it was written. The parsers say for what part of a log that holds, so a replay finds the same.

// Adopting is a spec that says beside what spec says that what lay below an offset, where the log began when its group did, is adopted from other groups, and
// what they have cancelled is taken over. With 0 nothing is.
func Adopting(spec string, below int64) string {
	if spec, _, _ = strings.Cut(spec, adoptsFrom); below > 0 {
		spec += adoptsFrom + strconv.FormatInt(below, 10)
	}
	return spec
}

// Adopts tells whether a spec is such a one, and below what offset.
func Adopts(spec string) (below int64, is bool) {
	_, digits, is := strings.Cut(spec, adoptsFrom)
	below, _ = parseCount([]byte(digits))
	return below, is
}

const adoptsFrom = "@"

// inherit reads a cancel that another group has passed on to this partition. It takes away what it names if it was there when this group began: the other
// one has resolved it, and it may be gone where it was written. What is written later this group passes on itself, since it has read the cancel.
func (q *Request) inherit(p *Parser, name []byte, m Mark, writtenBy int64) {
	q.Kind = KindOfAnotherGroup
	if p.adopts == 0 || p.delay > 0 || writtenBy < 0 {
		return
	}
	if h, is := ParseHandle(trim(name)); is {
		if h.Partition != m.number {
			return
		}
		q.Handle, q.Here = h, true
	} else if id, bad := p.idOf(HeaderCancel, name); bad == nil {
		q.NamedID = id
	} else {
		return
	}
	q.Kind, q.Forwarded, q.Inherited, q.WrittenBy = KindCancel, true, true, writtenBy
}

// StandsFor is Copied, also of what another group has written and a parser adopts. Of a retry it is a copy of what was tried, due when that was
// due first: so whatever stands for one record has one key. What is adopted has a retry header of that group behind its own, which says by what names it was read (adopted).
func (m Mark) StandsFor(p *Parser, headers []kgo.RecordHeader, offset int64) (written []kgo.RecordHeader, c Copy, is bool) {
	if written, c, is = m.Copied(headers, offset); is || p.adopts == 0 {
		return written, c, is
	}
	theirs, is := m.another(headers)
	if !is {
		return headers, c, false
	}
	at := offset
	if written, c, is = theirs.Copied(headers, offset); is {
		at = c.Seq
	}
	if again, r, retried := theirs.Written(written, at); retried {
		written, c.Names = again, triedBefore(r.Names)
		c.Seq, c.Timestamp, c.Due = r.Origin.Offset, r.Origin.Timestamp, r.Origin.Due
		if r.Attempt == 0 && c.Due == AtOnce { // it was not due before
			c.Due = r.Due
		}
		if !is {
			c.From = c.Seq
		}
		is = true
	}
	if !is || c.Seq >= p.adopts || c.Due < 1 {
		return headers, Copy{}, false
	}
	if _, says := m.adopted(written, c.Seq); !says {
		if names, said := theirs.adopted(written, c.Seq); said { // by this group, which has got its name back
			written, c.Names = written[:len(written)-1], names
		}
		written, _ = AppendRetry(slices.Clip(written), nil, theirs, Retry{Due: c.Due, Origin: Origin{Offset: c.Seq, Timestamp: c.Timestamp, Due: c.Due}, Names: c.Names}, nil)
	}
	return written, c, true
}

// triedBefore are the names of what was tried, and has no id for that.
func triedBefore(names string) string { return tried + strings.TrimPrefix(names, tried) }

// adopted tells whether headers are those of a record that stands for the request at an offset, as another group had tried or carried that, and what they say of names
// (NamesOf). In the log none are so: what a group tries again lies behind what it stands for.
func (m Mark) adopted(headers []kgo.RecordHeader, offset int64) (names string, is bool) {
	last := len(headers) - 1
	if last < 0 || headers[last].Key != HeaderRetry {
		return "", false
	}
	who, rest := m.author(headers[last].Value)
	if who != anotherGroup {
		return "", false
	}
	var n [5]int64
	numbers, names := cutNames(rest)
	return names, parseNumbers(numbers, n[:]) && n[0] == offset
}

// another is the mark of the other group that has written a copy or a retry into this partition.
func (m Mark) another(headers []kgo.RecordHeader) (theirs Mark, is bool) {
	last := len(headers) - 1
	if last > 0 && headers[last].Key == HeaderFrom {
		last--
	}
	if last < 0 || headers[last].Key != HeaderSeq && headers[last].Key != HeaderRetry {
		return m, false
	}
	value := headers[last].Value
	if who, _ := m.author(value); who != anotherGroup {
		return m, false
	}
	group, _, _ := strings.Cut(string(value[len(m.topic):]), ":")
	m.group = group + ":"
	return m, true
}
