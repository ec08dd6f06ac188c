package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Losing says which delay topics lose records that are pending, whatever happens
// otherwise: the topic is compacted, or deletes what is older than needs, for how
// long each must keep its log. What settings cannot be read of is left out. Check
// says more, of what may become a loss.
func Losing(ctx context.Context, adm *kadm.Client, needs map[string]time.Duration) (map[string]*Problem, error) {
	all := map[string]facts{}
	if err := lookInto(ctx, adm, slices.Sorted(maps.Keys(needs)), all); err != nil {
		return nil, err
	}
	losing := map[string]*Problem{}
	for topic, need := range needs {
		x := examination{}
		if x.losing(topic, all[topic], need); len(x.problems) > 0 {
			losing[topic] = &x.problems[0]
		}
	}
	return losing, nil
}

// KeepAll says which topics delete nothing by themselves: neither what is old nor what is too much. What settings cannot be read of is left out.
func KeepAll(ctx context.Context, adm *kadm.Client, names []string) (map[string]bool, error) {
	all := map[string]facts{}
	if err := lookInto(ctx, adm, names, all); err != nil {
		return nil, err
	}
	keep := map[string]bool{}
	for topic, f := range all {
		keep[topic] = f.keepsAll()
	}
	return keep, nil
}

func (f facts) keepsAll() bool {
	age, known := f.number("retention.ms")
	size, too := f.number("retention.bytes")
	return known && too && age < 0 && size < 0
}

func (x *examination) losing(topic string, f facts, need time.Duration) {
	policy, ok := f.settings["cleanup.policy"]
	if ok && strings.Contains(policy, "compact") {
		x.report(Error, topic, x.set(topic, "cleanup.policy", "delete"),
			"cleanup.policy is "+policy, "compaction removes records that are not delivered yet")
		return
	}
	n, ok := f.number("retention.ms")
	if !ok || n < 0 || n > maxDelayMillis {
		return
	}
	if keep := time.Duration(n) * time.Millisecond; keep < need {
		x.report(Error, topic, x.set(topic, "retention.ms", "-1"), fmt.Sprintf("retention.ms is %d", n),
			fmt.Sprintf("a record is pending, or its id is remembered, that the log must keep for %s", FormatDelay(need.Round(time.Second))))
	}
}
