package topics

import "github.com/twmb/franz-go/pkg/kgo"

// special deals with the headers that ordinary records do not have.
func (p *Parser) special(q *Request, headers []kgo.RecordHeader, at *[fields]int32, written Stamp, offset int64, m Mark) *Refusal {
	if v := value(headers, at[fieldResolve]); len(v) > 0 {
		return q.resolve(headers, v, written, offset, m)
	}
	if v := value(headers, at[fieldSeq]); len(v) > 0 {
		if who, _ := m.author(v); who == anotherGroup {
			q.Kind = KindOfAnotherGroup
			return nil
		}
	}
	if n := int32(len(headers)); n > 0 && at[fieldRetry] == n {
		r, who := m.retry(headers[len(headers)-1].Value, offset)
		switch who {
		case anotherGroup:
			q.Kind = KindOfAnotherGroup
			return nil
		case thisGroup:
			q.Retry, q.Attempt, q.Origin, q.Due = true, r.Attempt, r.Origin, r.Due
		}
	}
	if !q.Retry { // what a retry was to cancel or replace is dealt with
		if r := p.naming(q, headers, at, written, m); r != nil || q.Kind != KindRequest {
			return r
		}
	}
	for i, name := range reserved {
		if v := value(headers, at[int(fieldReserved)+i]); len(bare(v)) > 0 {
			return refuse(CodeUnsupportedHeader, StageParse, name, v, "this version does not support it yet")
		}
	}
	if at[fieldUnknown] == 0 {
		return nil
	}
	for i := range headers {
		name := headers[i].Key
		if fieldOf(name, p.ours()) != fieldUnknown || len(headers[i].Value) == 0 {
			continue
		}
		return refuse(CodeUnsupportedHeader, StageParse, name, headers[i].Value,
			"names that begin with %s belong to duewheel, and %s", p.ours(), meant(name, p.ours()))
	}
	return nil
}

// resolve reads a resolve record.
func (q *Request) resolve(headers []kgo.RecordHeader, v []byte, written Stamp, offset int64, m Mark) *Refusal {
	who, rest := m.author(v)
	var n [4]int64
	sound := parseNumbers(rest, n[:]) && n[0] >= 0 && n[0] < offset && n[1] >= 0 && n[2] >= 0 && n[2] <= n[0] && n[3] < offset // it looks back
	_, copied := m.copiedFrom(v)
	switch {
	case len(headers) != 1: // ours has this header and nothing else
	case copied && written.NoValue && len(written.Key) == 0: // it was mirrored, and says nothing of what lies here
		q.Kind = KindOfAnotherGroup
		return nil
	case who == anotherGroup:
		q.Kind = KindOfAnotherGroup
		return nil
	case who == thisGroup && sound:
		q.Kind, q.ResolveOffset, q.ResolveDue, q.ResolveSeq, q.ResolveBy = KindResolve, n[0], n[1], n[2], n[3]
		return nil
	}
	return refuse(CodeUnsupportedHeader, StageParse, HeaderResolve, v,
		"only duewheel writes this header, and this one does not belong to this topic, partition and offset")
}
