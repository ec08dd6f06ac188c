package topics

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// due works out the due time of a request.
func (p *Parser) due(q *Request, n *headerMap, headers []kgo.RecordHeader, written Stamp, offset int64) *Refusal {
	base := written.Millis
	if p.retries() {
		if q.Due = AtOnce; written.ByBroker {
			q.Due = max(base+p.backoff.pause(q.Round, offset), AtOnce+1)
		}
		return nil
	}
	until, wait := open(value(headers, n.at[fieldUntil])), open(value(headers, n.at[fieldFor]))
	header, at := HeaderUntil, fieldUntil
	if len(until.b) == 0 {
		header, at = HeaderFor, fieldFor
	}
	var f fault
	switch {
	case p.delay > 0 && len(until.b)+len(wait.b) > 0:
		return refuse(CodeUnsupportedHeader, StageParse, header, value(headers, n.at[at]), "the delay of this topic is fixed by its route, so a record cannot choose its own")
	case p.delay > 0:
		if q.Due, f = after(base, p.delay); f.code != "" {
			return refuse(f.code, StageParse, "", nil, "%s", f.why)
		}
		return nil
	case len(until.b) > 0:
		if until.unit == unitBySize {
			until.unit = n.unit
		}
		q.Due, _, f = parseUntil(until)
	case len(wait.b) > 0:
		q.Due, _, f = parseFor(wait, base)
	default:
		return refuse(CodeNoDue, StageParse, "", nil, "neither %s nor %s is set%s", p.Name(HeaderUntil), p.Name(HeaderFor), p.passedOver(headers))
	}
	if f.code == "" {
		return nil
	}
	raw := value(headers, n.at[at])
	return refuse(f.code, StageParse, header, raw, "%s%s", f.why, hint(at == fieldUntil, raw))
}

// dueOfRefused is the due time of a request that is refused for another header than those that say it; 0 where none is known, or the route gives it.
func (n *headerMap) dueOfRefused(p *Parser, code Code, headers []kgo.RecordHeader, written Stamp, offset int64) int64 {
	var q Request
	switch {
	case code == CodeNoDue, code == CodeUnparsableDue, code == CodeDueOutOfRange:
		return 0 // and what is too long to be understood is not read again
	case n.cancels, n.at[fieldCancel] != 0, p.delay > 0, p.retries(), p.due(&q, n, headers, written, offset) != nil:
		return 0
	}
	return q.Due
}

// passedOver says of a record without a due time which header would have said it, of another tool or if it were written as ours is, and why it does not.
func (p *Parser) passedOver(headers []kgo.RecordHeader) string {
	for i := range headers {
		if len(headers[i].Value) > 0 && len(headers[i].Key) <= 64 {
			for _, ours := range []string{p.Name(HeaderUntil), p.Name(HeaderFor)} {
				if letters(headers[i].Key) == letters(ours) && headers[i].Key != ours {
					return fmt.Sprintf("; it has %s: write %s", headers[i].Key, ours)
				}
			}
		}
		name := strings.ToLower(headers[i].Key)
		a := aliasAt(name)
		if a < 0 || !aliases[a].says() || len(headers[i].Value) == 0 {
			continue
		}
		if name != headers[i].Key {
			return fmt.Sprintf("; it has %s, and names are lower case: write %s", headers[i].Key, name)
		}
		if !p.aliases.has(aliases[a].Preset) {
			return fmt.Sprintf("; it has %s, and headers.aliases of its route does not list %s", aliases[a].Name, aliases[a].Preset)
		}
		return fmt.Sprintf("; it has %s, which does not count beside headers that begin with %s", aliases[a].Name, p.ours())
	}
	return ""
}

// letters is a name without what stands between its words, which languages write in different ways.
func letters(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
}
