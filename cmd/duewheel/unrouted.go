package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// unrouted warns of delay topics that the group has read, and no route names any more: a route that was taken out or renamed, or a name that is wrong. What is
// pending there is delivered by nobody, and nothing else would say so.
func unrouted(ctx context.Context, adm *patient, group string, want topics.Expect) ([]topics.Problem, error) {
	committed, err := adm.FetchOffsets(ctx, group)
	switch {
	case errors.Is(err, kerr.GroupIDNotFound), errors.Is(err, kerr.GroupAuthorizationFailed): // it is new; or that is said as a missing right
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("ask what group %s has committed: %w", group, err)
	}
	var problems []topics.Problem
	for _, topic := range sorted(committed) {
		if slices.ContainsFunc(want.Routes, func(r *topics.Route) bool { return r.Topic == topic }) {
			continue
		}
		n := checkpointsIn(committed[topic], func(state.Checkpoint) bool { return true })
		if n == 0 {
			continue
		}
		problems = append(problems, topics.Problem{
			Severity: topics.Warning,
			Topic:    topic,
			What:     fmt.Sprintf("group %s has checkpoints on %s of it, and no route names it", group, topics.Plural(n, "partition")),
			Why:      "what is pending there is delivered by nobody, unless replicas with another configuration do that; when the checkpoints have expired, it is read from its beginning",
			Mend:     fmt.Sprintf("name it in a route again until nothing is pending (duewheel ls); else kafka-consumer-groups.sh --delete-offsets --group %q --topic %q", group, topic),
		})
	}
	return problems, nil
}
