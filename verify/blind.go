package verify

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// blind tells why it cannot be told whether all is well, although nothing is wrong with what was looked at, and whether that is since nothing is known of the group.
func (s *survey) blind(group string, c *Counts) (all []string, doubtful bool) {
	for _, topic := range slices.Sorted(maps.Keys(s.away)) {
		if errors.Is(s.away[topic], kerr.UnknownTopicOrPartition) {
			all = append(all, fmt.Sprintf("the delay topic %s does not exist", topic))
		}
	}
	known := func(p *part) bool { return p.checkpoint.known }
	given := func(p *part) bool { return p.checkpoint.given != "" }
	foreign := func(p *part) bool { return p.checkpoint.foreign }
	switch delays := s.sortedDelays(); {
	case group == "" || c.Requested+c.Cancels == 0 || slices.ContainsFunc(delays, known):
		return all, false
	case slices.ContainsFunc(delays, given):
		all = append(all, fmt.Sprintf("the group %s has given its checkpoints of these topics to another group, which takes its place (-g)", group))
	case slices.ContainsFunc(delays, foreign):
		all = append(all, fmt.Sprintf("what the group %s has committed of these topics is no checkpoint that this release reads: `duewheel checkpoints` tells what it is", group))
	default:
		all = append(all, fmt.Sprintf("the group %s has no checkpoint of any of these topics, so no replica has ever run as that: is this its name?", group))
	}
	return all, true
}
