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
