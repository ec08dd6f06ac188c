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

// content tells contents apart. The value counts with all of its bits: by a print's 32 some of a million would be taken for
// one another.
func (x hasher) content(target uint16, key, value []byte, headers []kgo.RecordHeader) uint64 {
	p := x.asDelivered(key, value, headers, 0, 0)
	return mix(mix(mix(uint64(target), p.key), x.bytes(value)), uint64(p.headers))
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
func (c judging) learn(src *source, s *slot, r *kgo.Record, e Expectation) {
	content := c.hash.content(s.target, e.Key, r.Value, src.route.kept(r.Headers))
	a := c.contents.of(content)
	a.requests = append(a.requests, request{src, r.Offset, r.Timestamp.UnixMilli()})
	for len(a.early) > 0 && s.arrivals == 0 {
		first := a.early[0]
		a.early = a.early[1:]
		c.deliverAlike(a, first.record, first.seen)
	}
}

// deliveredBare takes a delivered record that names no request.
func (c judging) deliveredBare(r *kgo.Record, seen time.Time) {
	if c.config.Survey != nil {
		c.counts.Delivered--
		c.counts.Foreign++
		straying(c).died(r)
		return
	}
	if c.contents == nil {
		c.fault(Stray, Source{r.Topic, r.Partition, r.Offset}, r, "names no request")
		return
	}
	a := c.contents.of(c.hash.content(c.targets.index(r.Topic), r.Key, r.Value, r.Headers))
	if len(a.requests) == 0 {
		a.early = append(a.early, bare{clone(r), seen})
		return
	}
	c.deliverAlike(a, r, seen)
}

// deliverAlike takes a record as the delivery of the first due of the requests that it may be of.
func (c judging) deliverAlike(a *alike, r *kgo.Record, seen time.Time) {
	q, least := a.requests[0], int64(math.MaxInt64)
	for _, other := range a.requests {
		if s := other.src.at(other.offset); s.arrivals == 0 && s.due < least {
			q, least = other, s.due
		}
	}
	s := q.src.at(q.offset)
	for _, h := range r.Headers {
		if !passes(h.Key) && !(h.Key == "delay-attempt" && q.src.route.Retry != nil) {
			c.fault(Altered, q.src.name(q.offset), r, "header %s was delivered", h.Key)
		}
	}
	it := arrival{print: s.print, at: c.places.of(r), target: s.target, record: r}
	written, _ := delivery{q.src.route, r, provenance{due: -1, timestamp: -1, fired: -1}}.writtenAt()
	c.deliver(q.src, q.offset, it, moment{seen: seen, fired: -1, written: written, from: q.timestamp})
}

// judgeContents finds what is left over at the end.
func (e *ending) judgeContents() {
	for _, a := range e.contents {
		for _, b := range a.early {
			r := b.record
			if len(a.requests) == 0 {
				e.fault(Stray, Source{r.Topic, r.Partition, r.Offset}, r, "names no request, and none is like it")
				continue
			}
			e.counts.Doubled++
			if first := a.requests[0]; !e.config.AllowDoubles {
				e.fault(Doubled, first.src.name(first.offset), r, "seen more often than requested")
			}
		}
	}
}
