package check

import (
	"fmt"
	"testing"
)

// A carried copy is no request: what it stands for is delivered once. What only looks like one is the request that it was.
func TestCarried(t *testing.T) {
	w := newWorld()
	asks := []string{"a=b", "delay-until=" + millis(due), "delay-target-topic=orders"}
	q := w.request("k", "v", asks...)
	seq := func(offset int64) string { return fmt.Sprintf("delay-seq=abcdef01:g:1:%d:%s:-1", offset, millis(due)) }
	again := w.request("k", "v", append(asks, seq(q.Offset), fmt.Sprintf("delay-from=%d", q.Offset))...)
	ahead := w.request("k", "v", append(asks, seq(99), "delay-from=99")...)
	elsewhere := w.request("k", "v", append(asks, fmt.Sprintf("delay-seq=abcdef02:g:1:0:%s:-1", millis(due)), "delay-from=0")...)
	c := newChecker(t, w.config)
	feed(c, q, again, ahead, elsewhere, w.deliver(q, due), w.deliver(ahead, due), w.deliver(elsewhere, due))
	expectFaults(t, c, nil, "requested 3")
	if n := c.Counts().Carried; n != 1 {
		t.Errorf("%d carried", n)
	}
}
