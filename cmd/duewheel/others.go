package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// otherGroups warns of every other group that has a checkpoint on a delay topic: it delivers the
// same records once more. That may be meant, as with two sets of targets; mostly it is a group.id
// that was changed. Groups and topics that we may not describe are left out.
func otherGroups(ctx context.Context, adm *kadm.Client, own string, want topics.Expect) ([]topics.Problem, error) {
	var names []string
	ids := map[string]kadm.TopicID{}
	for _, r := range want.Routes { // one at a time: where we lack a right to one of them, kadm answers for none
		var denied *kadm.AuthError
		switch details, err := adm.ListTopics(ctx, r.Topic); {
		case err == nil:
			names, ids[r.Topic] = append(names, r.Topic), details[r.Topic].ID
		case !errors.As(err, &denied):
			return nil, fmt.Errorf("list topics: %w", err)
		}
	}
	listed, err := kafka.Listed(ctx, adm)
	if err != nil {
		return nil, err
	}
	groups := slices.DeleteFunc(listed.Groups(), func(g string) bool { return g == own })
	committed, err := kafka.Committed(ctx, adm, groups)
	var problems []topics.Problem
	for _, group := range groups {
		for _, topic := range names {
			if n := checkpointsIn(committed[group][topic], ids[topic]); n > 0 {
				problems = append(problems, anotherGroup(listed[group], topic, n))
			}
		}
	}
	return problems, err
}

// checkpointsIn counts the checkpoints among the committed offsets of a topic.
func checkpointsIn(committed map[int32]kadm.OffsetResponse, id kadm.TopicID) (n int) {
	for _, o := range committed {
		if c, err := state.ParseCheckpoint(o.At, o.Metadata); o.Err == nil && err == nil && c.TopicID == [4]byte(id[:4]) {
			n++
		}
	}
	return n
}

func anotherGroup(g kadm.ListedGroup, topic string, partitions int) topics.Problem {
	return topics.Problem{
		Severity: topics.Warning,
		Topic:    topic,
		What:     fmt.Sprintf("group %s (%s) has checkpoints on %d partitions of it, too", g.Group, g.State, partitions),
		Why:      "each group delivers every record that its routes allow, so a record that both allow arrives twice",
		Mend:     fmt.Sprintf("if it is not meant: stop it, and kafka-consumer-groups.sh --delete --group %q", g.Group),
	}
}
