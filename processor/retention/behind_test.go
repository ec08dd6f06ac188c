package retention

import (
	"strings"
	"testing"
	"time"

	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/topics"
)

// That carrying is behind because of a quota is said: neither its budget nor anything else of ours would help.
func TestCarryBehindAQuota(t *testing.T) {
	c, g, p := testCarrier(topics.Route{})
	c.keeps["t"] = topics.Keeping{Age: 72 * time.Hour}
	g.ageing = 11
	for _, throttled := range []bool{true, false} {
		c.throttled = func(within time.Duration) bool { return throttled && within >= c.SessionTimeout }
		c.tell([]picture.Partition{p})
		if why := c.Topics["t"].Behind.Of(3); strings.Contains(why, "producer_byte_rate") != throttled || strings.Contains(why, "carry_records") == throttled {
			t.Errorf("throttled %v: it says %q", throttled, why)
		}
	}
}

// A topic that loses what is pending is the reason, whatever the budget is: what is gone cannot be carried.
func TestCarryBehindALoss(t *testing.T) {
	c, g, p := testCarrier(topics.Route{})
	c.keeps["t"] = topics.Keeping{Age: 72 * time.Hour}
	g.ageing = 11
	for _, loses := range []string{"it is compacted", ""} {
		c.Topics["t"].Trouble.Set(loses)
		c.tell([]picture.Partition{p})
		if why := c.Topics["t"].Behind.Of(3); strings.Contains(why, "it is compacted") != (loses != "") || strings.Contains(why, "carry_records") != (loses == "") {
			t.Errorf("loses %q: it says %q", loses, why)
		}
	}
}

// What is said of a partition is over when it is elsewhere.
func TestCarryOfAPartitionElsewhere(t *testing.T) {
	c, g, p := testCarrier(topics.Route{})
	of, here := c.Topics["t"], []picture.Partition{p}
	c.Pictures = func() []picture.Partition { return here }
	c.partitions()
	of.Behind.Set(g.tp.Partition, "it is behind")
	of.Uncopied.Set(g.tp.Partition, "it fails")
	c.partitions()
	equal(t, "while it is here", of.Behind.Any()+", "+of.Uncopied.Any(), "it is behind, it fails")
	here = nil
	c.partitions()
	equal(t, "when it is not", of.Behind.Any()+of.Uncopied.Any(), "")
}
