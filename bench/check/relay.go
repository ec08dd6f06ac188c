package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A route with a prefix of its own takes the headers by which another route says what it has delivered for those of users. If it emits none itself, then what
// it delivers of such a record says nothing but of what request that was before, and looks like a second delivery of it. A Survey expects each of those once.

// relays are the requests of such routes, by the request that their records were delivered for before.
type relays struct {
	routes []*route // that emit none
	by     map[Source][]relay
	held   []heldBack // what such a route may have delivered, of a request that was not read yet
	bytes  int        // of what is held
}

type relay struct {
	name    Source
	target  uint16
	written int64 // ms
	settled int64 // until when requests were judged as it was found to be settled, in ms; 0: it is not
}

type heldBack struct {
	r     *kgo.Record
	ended bool // it is known where delay topics ended after it was read
}

const (
	// relaysKept is for how much longer than it takes to settle a request its delivery may be seen: an open transaction may have kept it back.
	relaysKept = 10 * time.Minute
	// mostHeld bounds what is held back, in bytes: a program may have copied everything.
	mostHeld = 16 << 20
)

// relaying is what a checker does about them.
type relaying struct{ *Checker }

// asks takes in a request as it was written, which may be one of those.
func (c relaying) asks(src *source, r *kgo.Record, e Expectation) {
	if !src.route.surveyed || src.route.Emit != emitNone || e.Outcome != Deliver && e.Outcome != Either {
		return
	}
	was := *r
	was.Headers = src.route.left(r.Headers)
	if of, _, ok := c.saysOf(&was); ok {
		c.relays.by[of] = append(c.relays.by[of], relay{name: src.name(r.Offset), target: c.targets.index(e.Target), written: r.Timestamp.UnixMilli()})
	}
}

// left are the headers of users, as the route sees it.
func (rt *route) left(headers []kgo.RecordHeader) []kgo.RecordHeader {
	own := rt.prefix()
	return slices.DeleteFunc(slices.Clone(headers), func(h kgo.RecordHeader) bool {
		return len(h.Key) >= len(own) && strings.EqualFold(h.Key[:len(own)], own) ||
			rt.Retry != nil && slices.ContainsFunc(rt.Retry.Strip, func(pattern string) bool { return match(pattern, h.Key) })
	})
}

func (rt *route) prefix() string { return cmp.Or(rt.Prefix, prefix) }

// saysOf is the request that a record says it was delivered for.
func (c relaying) saysOf(r *kgo.Record) (of Source, rt *route, ok bool) {
	p := fromDelivered(deliveredAsUsual(c.prefixed, r).Headers)
	if rt = c.routes[string(p.topic)]; rt == nil || !p.named() {
		return of, nil, false
	}
	return Source{rt.Topic, int32(p.partition), p.offset}, rt, true
}

// relayed tells whether what has arrived as if it were of one request is of another one, by such a route, or may turn out to be.
func (c relaying) relayed(r *kgo.Record) bool {
	if len(c.relays.routes) == 0 {
		return false
	}
	of, rt, ok := c.saysOf(r)
	if !ok {
		return false
	}
	if c.expected(of, r) {
		c.counts.Foreign++
		return true
	}
	size := len(r.Key) + len(r.Value) + 1000
	if c.relays.bytes+size > mostHeld || !c.mayBeRelayed(of, rt, r) {
		return false
	}
	c.relays.held, c.relays.bytes = append(c.relays.held, heldBack{r: r}), c.relays.bytes+size
	return true
}

// expected tells whether what has arrived is of a request of such a route, which is then not waited for any more. As long as the request that it says it is of
// has not arrived, it is that, unless it was written after such a route was asked for it.
func (c relaying) expected(of Source, r *kgo.Record) bool {
	for i, again := range c.relays.by[of] {
		since := again.written
		if c.hasArrived(of) {
			since -= c.config.Skew.Milliseconds()
		}
		if again.target != c.targets.index(r.Topic) || r.Timestamp.UnixMilli() < since {
			continue
		}
		if c.relays.by[of] = slices.Delete(c.relays.by[of], i, i+1); len(c.relays.by[of]) == 0 {
			delete(c.relays.by, of)
		}
		return true
	}
	return false
}

func (c relaying) hasArrived(of Source) bool {
	src := c.source(of.Topic, of.Partition)
	return src != nil && src.peek(of.Offset).arrivals > 0
}

// mayBeRelayed tells whether what would be a fault of the route that it names may be the delivery of such a route.
func (c relaying) mayBeRelayed(of Source, named *route, r *kgo.Record) bool {
	src := c.source(of.Topic, of.Partition)
	if src == nil || !slices.ContainsFunc(c.relays.routes, func(rt *route) bool { return rt.prefix() != named.prefix() && rt.allowed(r.Topic) }) {
		return false
	}
	s := src.peek(of.Offset)
	return s.arrivals > 0 || s.is(requested) && s.target != c.targets.index(r.Topic) || !src.judges(of.Offset)
}

// ended takes in that it is known where delay topics end, after all that has arrived was read.
func (x *relays) ended() {
	for i := range x.held {
		x.held[i].ended = true
	}
}

// judgeHeld judges what was held back when all requests are read that may be the reason.
func (c relaying) judgeHeld() {
	held := c.relays.held
	c.relays.held, c.relays.bytes = nil, 0
	for _, h := range held {
		of, _, _ := c.saysOf(h.r)
		switch {
		case c.expected(of, h.r):
			c.counts.Foreign++
		case h.ended && c.relaysRead():
			c.delivered(h.r, time.Time{})
		default:
			c.relays.held, c.relays.bytes = append(c.relays.held, h), c.relays.bytes+len(h.r.Key)+len(h.r.Value)+1000
		}
	}
}

// relaysRead tells whether the requests of such routes have been read to where they ended.
func (c relaying) relaysRead() bool {
	for _, src := range c.sources {
		if src.route.surveyed && src.route.Emit == emitNone && src.window.next < min(src.window.end, src.window.to) {
			return false
		}
	}
	return true
}

// forgetRelays gives up those that were settled long ago, and of which nothing was seen: they were cancelled, or dead-lettered.
func (e surveying) forgetRelays() {
	for of, all := range e.relays.by {
		all = slices.DeleteFunc(all, func(again relay) bool { return again.settled > 0 && e.until > again.settled+relaysKept.Milliseconds() })
		for i := range all {
			if all[i].settled == 0 && e.done(all[i].name) {
				all[i].settled = e.until
			}
		}
		if e.relays.by[of] = all; len(all) == 0 {
			delete(e.relays.by, of)
		}
	}
}
