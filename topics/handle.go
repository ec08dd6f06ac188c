package topics

import (
	"bytes"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Handle names a pending record of a delay topic by what its producer knows from the acknowledgement and from what it asked for. It holds
// the record's key, so nothing has to be searched for it.
type Handle struct {
	Partition int32
	Offset    int64
	Due       int64 // ms since the epoch, rounded up
}

// String writes a handle as ParseHandle reads it: 3-8812-1767225605123.
func (h Handle) String() string { return string(h.append(nil)) }

func (h Handle) append(b []byte) []byte {
	b = Place{h.Partition, h.Offset}.append(b)
	return strconv.AppendInt(append(b, '-'), h.Due, 10)
}

// ParseHandle reads <partition>-<offset>-<due ms>: decimal numbers, without leading zeros.
func ParseHandle(text []byte) (h Handle, ok bool) {
	var n [3]int64
	for i := range n {
		digits := text
		if i < len(n)-1 {
			end := bytes.IndexByte(text, '-')
			if end < 0 {
				return Handle{}, false
			}
			digits, text = text[:end], text[end+1:]
		}
		if n[i], ok = parseCount(digits); !ok || digits[0] == '0' && len(digits) > 1 {
			return Handle{}, false
		}
	}
	if n[0] > 1<<31-1 || n[2] < 1 || n[2] > maxDueMillis {
		return Handle{}, false
	}
	return Handle{Partition: int32(n[0]), Offset: n[1], Due: n[2]}, true
}

// handle reads the headers that name another record. A record that cancels does nothing else, whatever else it has.
func (p *Parser) handle(q *Request, headers []kgo.RecordHeader, at *[fields]int32, m Mark) *Refusal {
	cancel, replace := value(headers, at[fieldCancel]), value(headers, at[fieldReplace])
	name, raw := HeaderCancel, cancel
	switch {
	case len(cancel) > 0:
		if at[fieldForwarded] == int32(len(headers)) {
			switch who, _ := m.author(headers[len(headers)-1].Value); who {
			case anotherGroup:
				q.Kind = KindOfAnotherGroup
				return nil
			case thisGroup:
				q.Forwarded = true
			}
		}
	case at[fieldForwarded] != 0:
		return refuse(CodeUnsupportedHeader, StageParse, HeaderForwarded, value(headers, at[fieldForwarded]), "only duewheel writes this header")
	case len(replace) > 0:
		name, raw = HeaderReplace, replace
	default:
		return nil
	}
	if p.delay > 0 {
		return refuse(CodeUnsupportedHeader, StageParse, name, raw, "the delay of this topic is fixed by its route: records wait in the order of the log, and cannot be taken out of it")
	}
	h, ok := ParseHandle(trim(raw))
	if !ok {
		return refuse(CodeInvalidHandle, StageParse, name, raw, "a handle is <partition>-<offset>-<due in ms since 1970>, such as 3-8812-1767225605123")
	}
	if q.Handle, q.Here = h, h.Partition == m.number; name == HeaderCancel {
		q.Kind = KindCancel
		return nil
	}
	if q.Replaces = true; !q.Here {
		return refuse(CodeWrongPartition, StageParse, name, raw, "a replacement belongs into the partition of what it replaces, which is %d", h.Partition)
	}
	return nil
}

// TooLateToReplace is the refusal of a replacement that names nothing that is pending: by late any more, else perhaps nothing that ever was.
func TooLateToReplace(headers []kgo.RecordHeader, late bool) *Refusal {
	message := "nothing of that name is pending: it was cancelled or replaced, or never was"
	if late {
		message = "what it names was delivered or dead-lettered before, or was about to be"
	}
	return refuse(CodeTooLate, StageStore, HeaderReplace, last(headers, HeaderReplace), "%s", message)
}

// NotCancelled is the refusal of a cancel that has cancelled nothing.
func NotCancelled(headers []kgo.RecordHeader, late bool) *Refusal {
	r := TooLateToReplace(nil, late)
	if !late {
		r.Code = CodeUnknownHandle
	}
	return refuse(r.Code, r.Stage, HeaderCancel, last(headers, HeaderCancel), "%s", r.Message)
}

// last is the value of the last header of a name.
func last(headers []kgo.RecordHeader, name string) []byte {
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Key == name {
			return headers[i].Value
		}
	}
	return nil
}
