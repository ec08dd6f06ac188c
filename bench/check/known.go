package check

import (
	"fmt"
	"strings"
)

// known says all that is remembered of a request: what has become of it, and what may have taken it away.
func (c judging) known(of Source) string {
	src := c.sources[topicPartition{of.Topic, of.Partition}]
	if src == nil {
		return fmt.Sprintf("%v: nothing is known of its partition", of)
	}
	var b strings.Builder
	s := src.peek(of.Offset)
	fmt.Fprintf(&b, "%v: due %d, requested %t, arrived %d times, in %s", of, s.due, s.is(requested), s.arrivals, c.targets.names[s.target])
	if s.arrivals > 0 {
		fmt.Fprintf(&b, ", first at %s", c.places.name(s.place))
	}
	if again := src.retries[of.Offset]; again.count > 0 {
		fmt.Fprintf(&b, "; written again %d times, at %d the last time, due %d", again.count, again.offset, again.due)
	}
	if n := c.namings.called(of, s); n != nil {
		for _, by := range n.by {
			fmt.Fprintf(&b, "; named by %v (replaces: %t, end: %d)", by.name, by.replaces, by.in)
		}
	}
	if g := c.ids.of[of]; g != nil {
		fmt.Fprintf(&b, "; its id is had by %v, and what may take those away is %v", g.members, g.takers)
	}
	return b.String()
}

// Known says all that is remembered of a request, for people: what has become of it, and what may have taken it away.
func (w *Watch) Known(of Source) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return judging{w.checker}.known(of)
}
