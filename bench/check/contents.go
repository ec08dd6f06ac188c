package check

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// contents finds requests by what must be delivered of them, for routes whose records carry no provenance. Requests with the
// same content are told apart by nothing, so the one due first is taken to have arrived first.
type contents map[uint64]*alike

type alike struct {
	requests []request
	early    []bare // seen before any request with this content
}

type request struct {
	src       *source
	offset    int64
	timestamp int64
}

type bare struct {
	record *kgo.Record
	seen   time.Time
}

// contentOf tells contents apart. The value counts with all of its bits: by a print's 32 some of a million would be taken for
// one another.
func (c *Checker) contentOf(target uint16, key, value []byte, headers []kgo.RecordHeader) uint64 {
	p := c.hash.asDelivered(key, value, headers, 0, 0)
	return mix(mix(mix(uint64(target), p.key), c.hash.bytes(value)), uint64(p.headers))
}

func (x contents) of(content uint64) *alike {
	a := x[content]
	if a == nil {
		a = new(alike)
		x[content] = a
	}
	return a
}

// learn makes a request known by its content.
func (c *Checker) learn(src *source, s *slot, r *kgo.Record, e Expectation) {
	content := c.contentOf(s.target, e.Key, r.Value, r.Headers)
	a := c.contents.of(content)
	a.requests = append(a.requests, request{src, r.Offset, r.Timestamp.UnixMilli()})
	for len(a.early) > 0 && s.arrivals == 0 {
		first := a.early[0]
		a.early = a.early[1:]
		c.deliverAlike(a, first.record, first.seen)
	}
}

// deliveredBare takes a delivered record that names no request.
func (c *Checker) deliveredBare(r *kgo.Record, seen time.Time) {
	if c.contents == nil {
		c.faultOf(Fault{Kind: Stray, Source: Source{r.Topic, r.Partition, r.Offset}, Detail: "names no request"}, r)
		return
	}
	a := c.contents.of(c.contentOf(c.targetIndex(r.Topic), r.Key, r.Value, r.Headers))
	if len(a.requests) == 0 {
		a.early = append(a.early, bare{clone(r), seen})
		return
	}
	c.deliverAlike(a, r, seen)
}

// deliverAlike takes a record as the delivery of the first due of the requests that it may be of.
func (c *Checker) deliverAlike(a *alike, r *kgo.Record, seen time.Time) {
	q, least := a.requests[0], int64(math.MaxInt64)
	for _, other := range a.requests {
		if s := other.src.at(other.offset); s.arrivals == 0 && s.due < least {
			q, least = other, s.due
		}
	}
	s := q.src.at(q.offset)
	for _, h := range r.Headers {
		if !passes(h.Key) {
			c.faultOf(Fault{Kind: Altered, Source: q.src.name(q.offset), Detail: "header " + h.Key + " was delivered"}, r)
		}
	}
	it := arrival{print: s.print, at: c.place(r), target: s.target, record: r}
	c.deliver(q.src, q.offset, it, moment{seen: seen, fired: -1, from: q.timestamp})
}

// judgeContents finds what is left over at the end.
func (c *Checker) judgeContents(all contents) {
	for _, a := range all {
		for _, b := range a.early {
			r := b.record
			f := Fault{Kind: Stray, Source: Source{r.Topic, r.Partition, r.Offset}, Detail: "names no request, and none is like it"}
			if len(a.requests) > 0 {
				c.counts.Doubled++
				f.Kind, f.Source, f.Detail = Doubled, a.requests[0].src.name(a.requests[0].offset), "seen more often than requested"
			}
			if f.Kind == Stray || !c.config.AllowDoubles {
				c.faultOf(f, r)
			}
		}
	}
}
