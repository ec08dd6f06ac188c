package check

import "github.com/twmb/franz-go/pkg/kgo"

// A record may lie where it does not belong: what was delivered in a dead-letter topic, or a dead letter in a target topic. It may be a copy that a consumer has
// made, so it is no fault by itself. Of a request of which nothing else is seen, it tells where it went.

// mostAstray bounds how many of them are remembered.
const mostAstray = 10_000

// straying is what a checker does about them.
type straying struct{ *Checker }

// delivered notes a record of a dead-letter topic that says what a delivered one does.
func (c straying) delivered(r *kgo.Record) {
	c.note(fromDelivered(deliveredAsUsual(c.prefixed, r).Headers), "as if it were delivered", r)
}

// died notes a record of a target topic that says what a dead letter does.
func (c straying) died(r *kgo.Record) {
	c.note(fromDeadLetter(r.Headers), "as a dead letter", r)
}

func (c straying) note(p provenance, as string, r *kgo.Record) {
	rt := c.routes[string(p.topic)]
	if rt == nil || rt.Unseen || !p.named() || len(c.astray) >= mostAstray {
		return
	}
	name := Source{rt.Topic, int32(p.partition), p.offset}
	if src := c.source(name.Topic, name.Partition); src == nil || src.peek(name.Offset).arrivals > 0 {
		return
	}
	c.astray[name] = "it lies in " + Source{r.Topic, r.Partition, r.Offset}.String() + ", " + as
}

// seen tells where a request lies of which nothing was seen where it belongs.
func (c straying) seen(name Source) string {
	if where := c.astray[name]; where != "" {
		return "; " + where
	}
	return ""
}
