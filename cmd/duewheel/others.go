package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/retention"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// otherGroups warns of every other group that has a checkpoint on a delay topic: it delivers the
// same records once more. That may be meant, as with two sets of targets; mostly it is a group.id
// that was changed. It tells, too, of any group that keeps a topic from being trimmed, and if there may be groups that this user may not see. Topics that we may not describe are left out.
func otherGroups(ctx context.Context, cl *kgo.Client, s settings, want topics.Expect) ([]topics.Problem, error) {
	adm := newPatient(cl)
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
	readers, err := patiently(ctx, adm, func(ctx context.Context) (kafka.Readers, error) {
		return kafka.AskReaders(ctx, cl, s.Group, nil, kafka.RequestTimeout)
	})
	var problems []topics.Problem
	var reading []groupOf
	for _, group := range sorted(readers.Committed) {
		for _, topic := range names {
			ofThis := func(c state.Checkpoint) bool { id := ids[topic]; return c.TopicID == [4]byte(id[:4]) }
			ofOurs := func(c state.Checkpoint) bool {
				return ofThis(c) && cmp.Or(c.Identity, group) == cmp.Or(s.Identity, s.Group)
			}
			if n := checkpointsIn(readers.Committed[group][topic], ofOurs); n > 0 {
				problems = append(problems, sameIdentity(readers.Listed[group], topic, n))
			} else if n := checkpointsIn(readers.Committed[group][topic], ofThis); n > 0 {
				problems = append(problems, anotherGroup(readers.Listed[group], topic, n))
			} else if retention.Reads(readers.Committed[group][topic]) {
				reading = append(reading, groupOf{readers.Listed[group], topic})
			}
		}
	}
	if len(reading) > 0 && err == nil {
		var untrimmed []topics.Problem
		untrimmed, err = notTrimmed(ctx, adm, want.Routes, reading)
		problems = append(problems, untrimmed...)
	}
	if readers.Hidden != nil && err == nil {
		hidden, failed := hiddenGroups(ctx, adm, readers.Hidden, s, want)
		problems, err = append(problems, hidden), failed
	}
	return problems, err
}

// groupOf is a group that has committed offsets of a topic.
type groupOf struct {
	kadm.ListedGroup
	topic string
}

// notTrimmed warns of groups that keep a topic from being trimmed.
func notTrimmed(ctx context.Context, adm *patient, routes []*topics.Route, reading []groupOf) (problems []topics.Problem, err error) {
	trimmed, err := trimmedUnsaid(ctx, adm, routes)
	for _, r := range routes {
		if r.Trim != nil && *r.Trim {
			trimmed = append(trimmed, r.Topic)
		}
	}
	for _, g := range reading {
		if slices.Contains(trimmed, g.topic) {
			problems = append(problems, topics.Problem{
				Severity: topics.Warning,
				Topic:    g.topic,
				What:     fmt.Sprintf("group %s (%s) has committed offsets of it", g.Group, g.State),
				Why:      "it may need what this group does not need any more, so the topic is not trimmed, and grows",
				Mend:     fmt.Sprintf("where that is over: kafka-consumer-groups.sh --delete --group %q; else set trim: false on the route", g.Group),
			})
		}
	}
	return problems, err
}

// trimmedUnsaid are the topics that are trimmed although no route says so, since they keep everything otherwise.
func trimmedUnsaid(ctx context.Context, adm *patient, routes []*topics.Route) ([]string, error) {
	var unsaid []string
	for _, r := range routes {
		if r.Trim == nil {
			unsaid = append(unsaid, r.Topic)
		}
	}
	keeps, err := topics.Keeps(ctx, adm, unsaid...)
	return slices.DeleteFunc(unsaid, func(topic string) bool { return !keeps[topic].All }), err
}

// movePatience is how long a start waits to be told what the group whose place it takes has still: a start does not depend on brokers that answer.
const movePatience = 5 * time.Second

// notMoved returns an error where the group is to take the place of another one that has its checkpoints still: it would begin anew, deliver what has been
// delivered, and both would take for their own what the other one writes. Where it is not told, as to who may not describe that group, it is taken for moved.
func notMoved(ctx context.Context, s settings, opts []kgo.Opt) error {
	if s.Identity == "" || s.Identity == s.Group {
		return nil
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, movePatience)
	defer cancel()
	adm := newPatient(cl)
	ours, err := adm.FetchOffsets(ctx, s.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	for _, r := range s.Routes {
		if begun := ours[r.Topic]; checkpointsIn(begun, func(state.Checkpoint) bool { return true }) > 0 || givenTo(begun) != "" {
			continue
		}
		holder, err := holderOf(ctx, adm, s.Identity, r.Topic)
		if err != nil || holder == "" || holder == s.Group {
			continue
		}
		name := (&state.GivenError{To: holder}).Name()
		who := "that group"
		if holder != s.Identity {
			who = "group " + name + ", which takes its place,"
		}
		return fmt.Errorf("group.identity is %s, and %s has the checkpoints of %s still: this one would begin anew, and deliver once more what has been delivered. Stop the processors of group %s, and then: duewheel checkpoints move --from %[4]s -g %[5]s", s.Identity, who, r.Topic, name, s.Group)
	}
	return nil
}

// mostMoves bounds how often checkpoints that were given on are followed: groups may have given them in a circle.
const mostMoves = 16

// holderOf is the group that has the checkpoints of a topic which go by an identity: the one that had the name first, or the last to which they were given.
func holderOf(ctx context.Context, adm *patient, identity, topic string) (string, error) {
	for group, moves := identity, 0; group != "" && moves < mostMoves; moves++ {
		committed, err := adm.FetchOffsets(ctx, group)
		if err != nil {
			return "", err
		}
		if checkpointsIn(committed[topic], func(c state.Checkpoint) bool { return cmp.Or(c.Identity, group) == identity }) > 0 {
			return group, nil
		}
		group = givenTo(committed[topic])
	}
	return "", nil
}

// givenTo is the group to which what was committed has been given; "" if it was not.
func givenTo(committed map[int32]kadm.OffsetResponse) string {
	for _, p := range slices.Sorted(maps.Keys(committed)) {
		_, err := state.ParseCheckpoint(committed[p].At, state.NoEpoch, committed[p].Metadata)
		if given, is := errors.AsType[*state.GivenError](err); is && committed[p].Err == nil {
			return given.To
		}
	}
	return ""
}

// hiddenGroups says what it comes to that not all groups can be seen: a topic that would be trimmed is not.
func hiddenGroups(ctx context.Context, adm *patient, hidden *kafka.HiddenError, s settings, want topics.Expect) (topics.Problem, error) {
	grow, err := trimmedUnsaid(ctx, adm, want.Routes)
	p := topics.Problem{
		Severity: topics.Note,
		What:     "duewheel may not see what all groups read: " + hidden.What,
		Why:      "another group on a delay topic may deliver the same records, and is not warned of; a topic that one reads must not be trimmed",
		Mend:     fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:<name> --operation Describe %s", strings.Join(s.Brokers, ","), hidden.Mend),
	}
	if len(grow) > 0 {
		p.Severity = topics.Warning
		p.Why += fmt.Sprintf(", so %s is not, and grows, unless its route says trim: true", brief([]byte(strings.Join(grow, ", ")), 200))
	}
	return p, err
}

// checkpointsIn counts the checkpoints among the committed offsets of a topic, but for those that do not count.
func checkpointsIn(committed map[int32]kadm.OffsetResponse, counts func(state.Checkpoint) bool) (n int) {
	for _, o := range committed {
		if c, err := state.ParseCheckpoint(o.At, state.NoEpoch, o.Metadata); o.Err == nil && err == nil && counts(c) {
			n++
		}
	}
	return n
}

func sameIdentity(g kadm.ListedGroup, topic string, partitions int) topics.Problem {
	return topics.Problem{
		Severity: topics.Error,
		Topic:    topic,
		What:     fmt.Sprintf("group %s (%s) has checkpoints on %s of it, and the same group.identity", g.Group, g.State, topics.Plural(partitions, "partition")),
		Why:      "one of both is to be in the place of the other one: what one writes into the topic for itself the other one takes for its own, so what one has delivered the other one leaves out, and what both read arrives twice",
		Mend:     fmt.Sprintf("stop the one that is not meant; if that is %[1]q, and this group has not begun: duewheel checkpoints move --from %[1]q", g.Group),
	}
}

func anotherGroup(g kadm.ListedGroup, topic string, partitions int) topics.Problem {
	return topics.Problem{
		Severity: topics.Warning,
		Topic:    topic,
		What:     fmt.Sprintf("group %s (%s) has checkpoints on %s of it, too", g.Group, g.State, topics.Plural(partitions, "partition")),
		Why:      "each group delivers every record that its routes allow, so a record that both allow arrives twice",
		Mend:     fmt.Sprintf("if it is not meant: stop it, and kafka-consumer-groups.sh --delete --group %q", g.Group),
	}
}
