package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/producer"
	"github.com/duewheel/duewheel/state"
)

// moving is what `checkpoints move` was asked for.
type moving struct {
	from   string
	topics []string // as asked for; none: all
	routes []string // those of the configuration's routes
	stderr io.Writer
}

func newMoveCommand(f *flags) *cobra.Command {
	var m moving
	cmd := &cobra.Command{
		Use:   "move --from <group>",
		Short: "Give a group the checkpoints of another one, whose place it takes",
		Long: `Give this group the checkpoints of another one, so that it goes on where that has
stopped: nothing is lost, and nothing delivered twice. The other group has none then, and
does not begin anew where it is started by mistake.

What that has written into delay topics for itself (copies of what is pending, retries)
bears its name. So the configuration of this group must say that from now on, as
group.identity; the command prints the line.

Both groups must be empty: stop their processors first. It may be run again where it was
interrupted.`,
		Example: "  duewheel checkpoints move -c duewheel.yaml --from delays",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := topicNames(cmd, "topic"); err != nil {
				return err
			}
			if m.from == "" {
				return errors.New("the checkpoints of which group? Give it with --from")
			}
			m.stderr = cmd.ErrOrStderr()
			return withClient(cmd.Context(), f, func(cl *kgo.Client, s settings) error {
				return m.run(cmd.Context(), cl, s, cmd.OutOrStdout())
			})
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringVar(&m.from, "from", "", "the `group` that has the checkpoints")
	p.StringSliceVarP(&m.topics, "topic", "t", nil, "only of these delay `topics`")
	return cmd
}

func (m *moving) run(ctx context.Context, cl *kgo.Client, s settings, stdout io.Writer) error {
	adm, to := newPatient(cl), s.Group
	if m.from == to {
		return fmt.Errorf("--from %s is the group itself", m.from)
	}
	for _, r := range s.Routes {
		m.routes = append(m.routes, r.Topic)
	}
	if err := m.bothEmpty(ctx, adm, to); err != nil {
		return err
	}
	if err := cmp.Or(m.mayCommit(ctx, cl, to), m.seen(ctx, adm)); err != nil {
		return err
	}
	theirs, err := m.settled(ctx, cl)
	if err != nil {
		return err
	}
	ours, err := adm.FetchOffsets(ctx, to)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return askForGroup(fmt.Errorf("fetch offsets of group %s: %w", to, err), to)
	}
	p, err := m.choose(theirs, ours, to)
	if err != nil {
		return err
	}
	if len(p.moved) == 0 {
		return say(stdout, fmt.Sprintf("group %s has given its checkpoints to group %s before\n", m.from, to), to, p.identity)
	}
	// The broker takes such a commit even while the group is active, so this is asked as late as can be.
	if err := m.bothEmpty(ctx, adm, to); err != nil {
		return err
	}
	if err := commitAll(ctx, adm, to, p.moved); err != nil {
		return fmt.Errorf("some checkpoints may have been moved, so run this again before any of both groups is started: %w", err)
	}
	for _, o := range p.moved.Sorted() {
		if _, err := fmt.Fprintf(stdout, "%s/%d: goes on from %d\n", o.Topic, o.Partition, o.At); err != nil {
			return err
		}
	}
	if err := commitAll(ctx, adm, m.from, p.given); err != nil {
		return fmt.Errorf("the checkpoints were moved, and group %s has them still, so run this again before any of both groups is started: %w", m.from, err)
	}
	return say(stdout, "", to, p.identity)
}

// say tells by what name the group goes that has the checkpoints now.
func say(stdout io.Writer, first, to, identity string) error {
	what := fmt.Sprintf("group.identity: %s\nis what the configuration of group %s must say before it is started", identity, to)
	if identity == to {
		what = fmt.Sprintf("group %s goes by its own name: its configuration must not say group.identity", to)
	}
	_, err := fmt.Fprintln(stdout, first+what)
	return err
}

// mayCommit returns an error where a right to commit for one of the groups is missing, before anything is done.
func (m *moving) mayCommit(ctx context.Context, cl *kgo.Client, to string) error {
	for _, group := range []string{m.from, to} {
		if err := mayRead(ctx, cl, group); err != nil {
			return askOfGroup("Read", fmt.Errorf("ask as a member of group %s: %w", group, err), group)
		}
	}
	return nil
}

// seen returns an error where a topic that was named may not be described: brokers leave it out of what a group has committed, and the new group would begin there anew.
func (m *moving) seen(ctx context.Context, adm *patient) error {
	names := m.named()
	if len(names) == 0 {
		return nil
	}
	details, err := listTopics(ctx, adm, names...)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var unseen []error
	for _, topic := range names {
		if err := details[topic].Err; err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			unseen = append(unseen, askFor("Describe", fmt.Errorf("whether group %s has a checkpoint of %s is not told: %w", m.from, topic, err), topic))
		}
	}
	return joinLines(unseen...)
}

// named are the topics that were asked for, or else those of the routes.
func (m *moving) named() []string {
	if len(m.topics) > 0 {
		return m.topics
	}
	return m.routes
}

// bothEmpty returns an error while one of the groups has members.
func (m *moving) bothEmpty(ctx context.Context, adm *patient, to string) error {
	return cmp.Or(mustBeEmpty(ctx, adm, m.from), mustBeEmpty(ctx, adm, to))
}

// settlingPatience is how long a transaction may hold a checkpoint that is to be moved: the default of transaction_timeout, and what brokers take to end it.
const settlingPatience = 45 * time.Second

// settled is what the other group has committed, as soon as no transaction holds any of that: what one commits comes to the group that it began in. A processor that
// was killed has left it open; so its writer is fenced, as one that took over its partitions would do, and brokers end it.
func (m *moving) settled(ctx context.Context, cl *kgo.Client) (kadm.OffsetResponses, error) {
	adm := newPatient(cl)
	told := false
	for end := time.Now().Add(settlingPatience); ; {
		committed, err := adm.FetchOffsets(kadm.RequireStable(ctx), m.from)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return nil, askForGroup(fmt.Errorf("fetch offsets of group %s: %w", m.from, err), m.from)
		}
		committed.KeepFunc(func(o kadm.OffsetResponse) bool { return len(m.topics) == 0 || slices.Contains(m.topics, o.Topic) })
		held := committed.Partitions()
		committed.Each(func(o kadm.OffsetResponse) {
			if !errors.Is(o.Err, kerr.UnstableOffsetCommit) {
				held.Delete(o.Topic, o.Partition)
			}
		})
		if len(held) == 0 {
			return committed, nil
		}
		failed := m.fence(ctx, cl, held)
		if errors.Is(failed, kerr.TransactionalIDAuthorizationFailed) {
			return nil, fmt.Errorf("a processor of group %s has left a transaction open, which holds checkpoints: %w", m.from, failed)
		}
		if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("a transaction of group %s is still open, and holds checkpoints: it ends by itself within transaction_timeout; then run this again", m.from), failed)
		}
		if !told {
			fmt.Fprintf(m.stderr, "a processor of group %s has left a transaction open: waiting for its end\n", m.from)
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// fence ends the transactions of the writers of checkpoints.
func (m *moving) fence(ctx context.Context, cl *kgo.Client, held kadm.TopicsSet) error {
	committed, err := newPatient(cl).FetchOffsets(ctx, m.from)
	if err != nil {
		return err
	}
	writers := map[string]bool{}
	committed.Each(func(o kadm.OffsetResponse) {
		if c, err := state.ParseCheckpoint(o.At, o.LeaderEpoch, o.Metadata); err == nil && held.Lookup(o.Topic, o.Partition) && c.Writer != "" {
			writers[c.Writer] = true
		}
	})
	for writer := range writers {
		_, refused := kafka.Fence(ctx, cl, producer.IDsOf(writer), time.Minute)
		err = cmp.Or(askForIDs(refused, writer), err)
	}
	return err
}

// askForIDs adds to the error of a fence that the right to the transactional ids of a writer is missing, and says it once.
func askForIDs(err error, writer string) error {
	if !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		return err
	}
	lane, _, _ := strings.Cut(writer, "@")
	prefix := lane[:strings.LastIndexByte(lane, '-')+1]
	return fmt.Errorf("%w: ask for the right to Write transactional ids that begin with %s (kafka-acls.sh --add --operation Write --resource-pattern-type prefixed --transactional-id %[2]s)",
		kerr.TransactionalIDAuthorizationFailed, prefix)
}

// handover is what is to be committed for the group that takes the place of the other one, and for that one, and by what name the group must go then.
type handover struct {
	moved, given kadm.Offsets
	identity     string
}

func (m *moving) choose(theirs, ours kadm.OffsetResponses, to string) (handover, error) {
	p := handover{moved: kadm.Offsets{}, given: kadm.Offsets{}}
	givenTo, left := map[string]string{}, map[string]bool{}
	for _, o := range theirs.Sorted() {
		if o.At < 0 && o.Err == nil {
			continue
		}
		if o.Err != nil {
			return p, fmt.Errorf("checkpoint of %s/%d: %w", o.Topic, o.Partition, o.Err)
		}
		c, err := state.ParseCheckpoint(o.At, o.LeaderEpoch, o.Metadata)
		if given, is := errors.AsType[*state.GivenError](err); is {
			givenTo[o.Topic] = given.To
			continue
		}
		if errors.Is(err, state.ErrNotOurs) && !slices.Contains(m.named(), o.Topic) {
			left[o.Topic] = true // of another topic than a delay topic
			continue
		}
		if err != nil {
			return p, fmt.Errorf("checkpoint of %s/%d in group %s: %w", o.Topic, o.Partition, m.from, err)
		}
		if err := m.add(&p, c, o, ours, to); err != nil {
			return p, err
		}
	}
	for _, topic := range m.topics { // one that was moved before it was interrupted is as it should be
		if len(p.moved[topic]) == 0 && givenTo[topic] != to {
			return p, m.nothing(topic, givenTo)
		}
	}
	if len(p.moved) == 0 {
		if p.identity = m.before(ours, givenTo, to); p.identity == "" {
			return p, m.nothing("", givenTo)
		}
		return p, nil
	}
	for _, topic := range sorted(left) {
		fmt.Fprintf(m.stderr, "%s stays with group %s: what that has committed there is no checkpoint of ours\n", topic, m.from)
	}
	return p, m.suits(ours, to, p.identity, p.moved.Sorted()[0])
}

// add takes a checkpoint into what is to be committed.
func (m *moving) add(p *handover, c state.Checkpoint, o kadm.OffsetResponse, ours kadm.OffsetResponses, to string) error {
	by := cmp.Or(c.Identity, m.from)
	if p.identity != "" && by != p.identity {
		return fmt.Errorf("group %s goes by %s in %s/%d and by %s elsewhere: move the topics one at a time, with -t, each to a group of its own", m.from, by, o.Topic, o.Partition, p.identity)
	}
	if c.Identity = by; by == to {
		c.Identity = ""
	}
	metadata, err := c.Metadata()
	given, failed := c.GivenTo(to)
	if err := cmp.Or(err, failed); err != nil {
		return fmt.Errorf("checkpoint of %s/%d: %w", o.Topic, o.Partition, err)
	}
	if has, ok := ours.Lookup(o.Topic, o.Partition); ok && has.At >= 0 && (has.At != o.At || has.Metadata != metadata) && !isGiven(has) {
		return fmt.Errorf("group %s has a checkpoint of %s/%d of its own, at %d, which is not that of group %s: only a group that has not read a topic can take the place of another one there. "+
			"If that was moved before, and group %[5]s has gone on since, take it away first: kafka-consumer-groups.sh --delete-offsets --group %[1]s --topic %[2]s", to, o.Topic, o.Partition, has.At, m.from)
	}
	p.identity = by
	p.moved.Add(kadm.Offset{Topic: o.Topic, Partition: o.Partition, At: o.At, LeaderEpoch: o.LeaderEpoch, Metadata: metadata})
	p.given.Add(kadm.Offset{Topic: o.Topic, Partition: o.Partition, At: o.At, LeaderEpoch: o.LeaderEpoch, Metadata: given})
	return nil
}

// nothing says that there is nothing to be moved, of one topic or of all, and where it is instead.
func (m *moving) nothing(topic string, givenTo map[string]string) error {
	var whose []string
	for of, group := range givenTo {
		if topic == "" || of == topic {
			whose = append(whose, (&state.GivenError{To: group}).Name())
		}
	}
	slices.Sort(whose)
	if whose = slices.Compact(whose); len(whose) > 0 {
		return fmt.Errorf("group %s has no checkpoint%s any more: it has given them to %s", m.from, ofTopic(topic), strings.Join(whose, " and "))
	}
	return fmt.Errorf("group %s has no checkpoint%s", m.from, ofTopic(topic))
}

// before is by what name the group goes that was given all checkpoints before, when this was interrupted as its last step was done; empty where it was not, or has none.
func (m *moving) before(ours kadm.OffsetResponses, givenTo map[string]string, to string) (identity string) {
	for _, o := range ours.Sorted() {
		if c, err := state.ParseCheckpoint(o.At, o.LeaderEpoch, o.Metadata); err == nil && givenTo[o.Topic] == to {
			identity = cmp.Or(c.Identity, to)
		}
	}
	for _, group := range givenTo {
		if group != to {
			return ""
		}
	}
	return identity
}

// isGiven tells whether what a group has committed is no checkpoint any more, since it was given away.
func isGiven(o kadm.OffsetResponse) bool {
	_, err := state.ParseCheckpoint(o.At, o.LeaderEpoch, o.Metadata)
	return errors.Is(err, state.ErrGiven)
}

// suits returns an error where the group goes by another name in a topic that it has read: its configuration can say one, and partitions of the others would stop.
func (m *moving) suits(ours kadm.OffsetResponses, to, identity string, first kadm.Offset) error {
	for _, o := range ours.Sorted() {
		c, err := state.ParseCheckpoint(o.At, o.LeaderEpoch, o.Metadata)
		if by := cmp.Or(c.Identity, to); err == nil && by != identity {
			return fmt.Errorf("group %s goes by %s in %s/%d, and would go by %s in %s/%d: a group has one group.identity, so only one that has read nothing, or goes by %[5]s, can take the place of group %[8]s",
				to, by, o.Topic, o.Partition, identity, first.Topic, first.Partition, m.from)
		}
	}
	return nil
}

func ofTopic(name string) string {
	if name == "" {
		return ""
	}
	return " of " + name
}

// commitAll commits offsets for a group that is empty.
func commitAll(ctx context.Context, adm *patient, group string, offsets kadm.Offsets) error {
	done, err := adm.CommitOffsets(ctx, group, offsets)
	if err != nil {
		return askOfGroup("Read", fmt.Errorf("commit offsets of group %s: %w", group, err), group)
	}
	for _, o := range offsets.Sorted() {
		if is, _ := done.Lookup(o.Topic, o.Partition); is.Err != nil {
			return askFor("Read", askOfGroup("Read", fmt.Errorf("commit offset of %s/%d: %w", o.Topic, o.Partition, is.Err), group), o.Topic)
		}
	}
	return nil
}
