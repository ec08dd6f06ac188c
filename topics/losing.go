package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Losing says of delay topics whether they lose records that are pending, whatever happens
// otherwise: the topic is compacted, or deletes what is older than needs, for how
// long each must keep its log. It is nil for a topic that does not. Check says more, of what may become a loss.
func Losing(ctx context.Context, adm Admin, needs map[string]time.Duration) (losing map[string]Loss, err error) {
	all := map[string]facts{}
	if err := lookInto(ctx, adm, slices.Sorted(maps.Keys(needs)), all); err != nil {
		return nil, err
	}
	losing = map[string]Loss{}
	for topic, f := range all {
		x := examination{}
		l := Loss{Err: f.unreadable}
		if x.losing(topic, f, needs[topic]); len(x.problems) > 0 {
			l.Problem = &x.problems[0]
		}
		losing[topic] = l
	}
	return losing, nil
}

// Loss is whether a topic loses what is pending.
type Loss struct {
	Problem *Problem // nil: it does not
	Err     error    // why that is not known
}

func (f facts) keepsAll() bool {
	age, known := f.number("retention.ms")
	size, too := f.number("retention.bytes")
	return known && too && (age < 0 || age > maxDelayMillis) && size < 0
}

// retentionBySize: Kafka deletes what lies first in a log that is too large, delivered or not.
func (x *examination) retentionBySize(topic string, f facts) {
	if n, ok := f.number("retention.bytes"); ok && n >= 0 {
		x.report(Error, topic, x.set(topic, "retention.bytes", "-1"),
			fmt.Sprintf("retention.bytes is %d", n), "a topic that grows beyond it loses records that are not delivered yet")
	}
}

func (x *examination) losing(topic string, f facts, need time.Duration) {
	policy, ok := f.settings["cleanup.policy"]
	if ok && strings.Contains(policy, "compact") {
		x.report(Error, topic, x.set(topic, "cleanup.policy", "delete"),
			"cleanup.policy is "+policy, "compaction removes records that are not delivered yet")
		return
	}
	x.retentionBySize(topic, f)
	n, ok := f.number("retention.ms")
	if !ok || n < 0 || n > maxDelayMillis {
		return
	}
	if keep := time.Duration(n) * time.Millisecond; keep < need {
		x.report(Error, topic, x.set(topic, "retention.ms", "-1"), fmt.Sprintf("retention.ms is %d", n),
			fmt.Sprintf("a record is pending, or its id is remembered, that the log must keep for %s", FormatDelay(need.Round(time.Second))))
	}
}
