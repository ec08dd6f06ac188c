package topics

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// naming reads the headers that name another record, by its handle or its id. A record that cancels does nothing else, whatever else it has.
func (p *Parser) naming(q *Request, headers []kgo.RecordHeader, at *[fields]int32, written Stamp, m Mark) *Refusal {
	cancel, replace := nameIn(headers, at[fieldCancel], p.keyed), nameIn(headers, at[fieldReplace], p.keyed)
	name, raw := HeaderCancel, cancel
	switch {
	case len(cancel) > 0:
		if at[fieldForwarded] == int32(len(headers)) {
			who, writtenBy := m.forwarded(headers[len(headers)-1].Value)
			if who == anotherGroup {
				q.Kind = KindOfAnotherGroup // it passes on its own
				return nil
			}
			q.Forwarded, q.WrittenBy = who == thisGroup && writtenBy >= 0, max(writtenBy, 0)
		}
	case at[fieldForwarded] != 0:
		if who, _ := m.forwarded(value(headers, at[fieldForwarded])); who == anotherGroup && at[fieldForwarded] == int32(len(headers)) { // which has other names
			q.Kind = KindOfAnotherGroup
			return nil
		}
		return refuse(CodeUnsupportedHeader, StageParse, HeaderForwarded, value(headers, at[fieldForwarded]), "only duewheel writes this header")
	case len(replace) > 0:
		name, raw = HeaderReplace, replace
	case p.keyed && written.NoValue:
		id, r := p.idOf("", written.Key)
		q.Kind, q.NamedID = KindCancel, id
		return r
	default:
		return nil
	}
	if p.delay > 0 {
		return refuse(CodeUnsupportedHeader, StageParse, name, raw, "the delay of this topic is fixed by its route: records wait in the order of the log, and cannot be taken out of it")
	}
	h, is := ParseHandle(trim(raw))
	if is {
		q.Handle, q.Here = h, h.Partition == m.number
	} else if id, r := p.idOf(name, raw); r != nil {
		return r
	} else {
		q.NamedID = id
	}
	if name == HeaderCancel {
		q.Kind = KindCancel
		return nil
	}
	if q.Replaces = true; is && !q.Here {
		return refuse(CodeWrongPartition, StageParse, name, raw, "a replacement belongs into the partition of what it replaces, which is %d", h.Partition)
	}
	return nil
}

// cancelOfFormerNames finds the cancel of a handle that was passed on as it was written, where a route had another prefix by then:
// a handle of this partition in a header that some route may call so.
func (n *headerMap) cancelOfFormerNames(headers []kgo.RecordHeader, m *Mark) {
	last := len(headers) - 1
	if n.at[fieldForwarded] != int32(last)+1 || m.handleIn(value(headers, n.at[fieldCancel])) {
		return
	}
	if who, _ := m.forwarded(headers[last].Value); who != thisGroup {
		return
	}
	for i := range headers[:last] {
		if isCancel(headers[i].Key) && m.handleIn(headers[i].Value) {
			n.at[fieldCancel] = int32(i) + 1
		}
	}
}

// calledCancel is the last header that has a handle and is a cancel on a route of some prefix; "": there is none.
func calledCancel(headers []kgo.RecordHeader) (name string) {
	for i := range headers {
		if _, is := ParseHandle(trim(bare(headers[i].Value))); is && isCancel(headers[i].Key) {
			name = headers[i].Key
		}
	}
	return name
}

// isCancel tells whether a header is a cancel on a route of some prefix.
func isCancel(name string) bool {
	prefix, is := strings.CutSuffix(name, strings.TrimPrefix(HeaderCancel, HeaderPrefix))
	return is && validPrefix(prefix) == ""
}

// handleIn tells whether the value of a header is a handle of this partition.
func (m *Mark) handleIn(raw []byte) bool {
	h, is := ParseHandle(trim(bare(raw)))
	return is && h.Partition == m.number
}

// nameIn is the handle or id in a header. Where the key of a record is its id, an id is bytes, as the key is.
func nameIn(headers []kgo.RecordHeader, at int32, keyed bool) []byte {
	raw := value(headers, at)
	if _, handle := ParseHandle(trim(bare(raw))); keyed && !handle {
		return raw
	}
	return bare(raw)
}

// forwarded reads the header of a cancel that has come from another partition: who has passed it on, and what WrittenBy is then; -1 where that is not read.
func (m Mark) forwarded(v []byte) (who author, writtenBy int64) {
	who, rest := m.author(v)
	var n [3]int64
	if who == elsewhere || !parseNumbers(rest, n[:]) {
		return who, -1
	}
	return who, max(n[2], 0)
}

// Last is the value of the last header of a name.
func Last(headers []kgo.RecordHeader, name string) []byte {
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Key == name {
			return headers[i].Value
		}
	}
	return nil
}

// TooLateToReplace is the refusal of a replacement that names nothing that is pending: by late any more, else perhaps nothing that ever was.
func (r *Route) TooLateToReplace(headers []kgo.RecordHeader, late bool) *Refusal {
	message := "nothing of that name is pending: it was cancelled or replaced, or never was"
	if _, handle := ParseHandle(trim(bare(Last(headers, r.Header(HeaderReplace))))); !handle && headers != nil {
		message = "nothing with that id is pending in this partition: it was delivered, cancelled or replaced, waits in another partition, or never was"
	}
	if late {
		message = "what it names was delivered or dead-lettered before, or was about to be"
	}
	return refuse(CodeTooLate, StageStore, r.Header(HeaderReplace), Last(headers, r.Header(HeaderReplace)), "%s", message)
}

// NotCancelled is the refusal of a cancel that has cancelled nothing.
func (r *Route) NotCancelled(headers []kgo.RecordHeader, late bool) *Refusal {
	why := r.TooLateToReplace(nil, late)
	if !late {
		why.Code = CodeUnknownHandle
	}
	if name := calledCancel(headers); name != "" && Last(headers, r.Header(HeaderCancel)) == nil { // it was passed on by another name
		return refuse(why.Code, why.Stage, name, Last(headers, name), "%s", why.Message)
	}
	return refuse(why.Code, why.Stage, r.Header(HeaderCancel), Last(headers, r.Header(HeaderCancel)), "%s", why.Message)
}
