package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	topics []string
	stderr io.Writer
}

func newMoveCommand(f *flags) *cobra.Command {
	var m moving
	cmd := &cobra.Command{
		Use:   "move --from <group>",
		Short: "Give a group the checkpoints of another one, whose place it takes",
		Long: `Give this group the checkpoints of another one, so that it goes on where that has
stopped: nothing is lost, and nothing delivered twice. The other group has none then.

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
				return m.run(cmd.Context(), cl, s.Group, cmd.OutOrStdout())
			})
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringVar(&m.from, "from", "", "the `group` that has the checkpoints")
	p.StringSliceVarP(&m.topics, "topic", "t", nil, "only of these delay `topics`")
	return cmd
}

func (m *moving) run(ctx context.Context, cl *kgo.Client, to string, stdout io.Writer) error {
	adm := kadm.NewClient(cl)
	if m.from == to {
		return fmt.Errorf("--from %s is the group itself", m.from)
	}
	if err := m.bothEmpty(ctx, adm, to); err != nil {
		return err
	}
	theirs, err := m.settled(ctx, cl)
	if err != nil {
		return err
	}
	ours, err := fetchOffsets(ctx, adm, to)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return askForGroup(fmt.Errorf("fetch offsets of group %s: %w", to, err), to)
	}
	moved, identity, err := m.choose(theirs, ours, to)
	if err != nil {
		return err
	}
	// The broker takes such a commit even while the group is active, so this is asked as late as can be.
	if err := m.bothEmpty(ctx, adm, to); err != nil {
		return err
	}
	if err := commitAll(ctx, adm, to, moved); err != nil {
		return err
	}
	for _, o := range moved.Sorted() {
		if _, err := fmt.Fprintf(stdout, "%s/%d: goes on from %d\n", o.Topic, o.Partition, o.At); err != nil {
			return err
		}
	}
	if err := m.take(ctx, adm, moved); err != nil {
		return err
	}
	say := fmt.Sprintf("group.identity: %s\nis what the configuration of group %s must say before it is started", identity, to)
	if identity == to {
		say = fmt.Sprintf("group %s goes by its own name: its configuration must not say group.identity", to)
	}
	_, err = fmt.Fprintln(stdout, say)
	return err
}

// bothEmpty returns an error while one of the groups has members.
func (m *moving) bothEmpty(ctx context.Context, adm *kadm.Client, to string) error {
	return cmp.Or(mustBeEmpty(ctx, adm, m.from), mustBeEmpty(ctx, adm, to))
}

// settlingPatience is how long a transaction may hold a checkpoint that is to be moved: the default of transaction_timeout, and what brokers take to end it.
const settlingPatience = 45 * time.Second

// settled is what the other group has committed, as soon as no transaction holds any of that: what one commits comes to the group that it began in. A processor that
// was killed has left it open; so its writer is fenced, as one that took over its partitions would do, and brokers end it.
func (m *moving) settled(ctx context.Context, cl *kgo.Client) (kadm.OffsetResponses, error) {
	adm := kadm.NewClient(cl)
	told := false
	for end := time.Now().Add(settlingPatience); ; {
		committed, err := fetchOffsets(kadm.RequireStable(ctx), adm, m.from)
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
		if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("a transaction of group %s is still open, and holds checkpoints: it ends by itself within transaction_timeout; then run this again", m.from), failed)
		}
		if !told {
			fmt.Fprintf(m.stderr, "a processor of group %s has left a transaction open: it is ended\n", m.from)
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
	committed, err := fetchOffsets(ctx, kadm.NewClient(cl), m.from)
	if err != nil {
		return err
	}
	writers := map[string]bool{}
	committed.Each(func(o kadm.OffsetResponse) {
		if c, err := state.ParseCheckpoint(o.At, o.LeaderEpoch, o.Metadata); err == nil && held.Lookup(o.Topic, o.Partition) && c.Writer != "" {
			writers[c.Writer] = true
		}
	})
	var errs []error
	for writer := range writers {
		errs = append(errs, kafka.Fence(ctx, cl, producer.IDsOf(writer), time.Minute))
	}
	return errors.Join(errs...)
}

// choose returns what is to be committed, and by what name the group must go then.
func (m *moving) choose(theirs, ours kadm.OffsetResponses, to string) (moved kadm.Offsets, identity string, err error) {
	moved = kadm.Offsets{}
	for _, o := range theirs.Sorted() {
		if o.At < 0 && o.Err == nil {
			continue
		}
		if o.Err != nil {
			return nil, "", fmt.Errorf("checkpoint of %s/%d: %w", o.Topic, o.Partition, o.Err)
		}
		c, err := state.ParseCheckpoint(o.At, o.LeaderEpoch, o.Metadata)
		if errors.Is(err, state.ErrNotOurs) && len(m.topics) == 0 {
			continue // of another topic than a delay topic
		}
		if err != nil {
			return nil, "", fmt.Errorf("checkpoint of %s/%d in group %s: %w", o.Topic, o.Partition, m.from, err)
		}
		by := cmp.Or(c.Identity, m.from)
		if identity != "" && by != identity {
			return nil, "", fmt.Errorf("group %s goes by %s in %s/%d and by %s elsewhere: move the topics one at a time, with -t, each to a group of its own", m.from, by, o.Topic, o.Partition, identity)
		}
		if c.Identity = by; by == to {
			c.Identity = ""
		}
		metadata, err := c.Metadata()
		if err != nil {
			return nil, "", fmt.Errorf("checkpoint of %s/%d: %w", o.Topic, o.Partition, err)
		}
		if has, ok := ours.Lookup(o.Topic, o.Partition); ok && has.At >= 0 && (has.At != o.At || has.Metadata != metadata) {
			return nil, "", fmt.Errorf("group %s has a checkpoint of %s/%d of its own, at %d, which is not that of group %s: only a group that has not read a topic can take the place of another one there. "+
				"If that was moved before, and group %[5]s has gone on since, take it away first: kafka-consumer-groups.sh --delete-offsets --group %[1]s --topic %[2]s", to, o.Topic, o.Partition, has.At, m.from)
		}
		identity = by
		moved.Add(kadm.Offset{Topic: o.Topic, Partition: o.Partition, At: o.At, LeaderEpoch: o.LeaderEpoch, Metadata: metadata})
	}
	if len(moved) == 0 {
		return nil, "", fmt.Errorf("group %s has no checkpoint%s", m.from, ofTopics(m.topics))
	}
	return moved, identity, m.suits(ours, to, identity, moved.Sorted()[0])
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

func ofTopics(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " of " + orNone(names)
}

// commitAll commits offsets for a group that is empty.
func commitAll(ctx context.Context, adm *kadm.Client, group string, offsets kadm.Offsets) error {
	done, err := adm.CommitOffsets(ctx, group, offsets)
	if err != nil {
		return askOfGroup("Read", fmt.Errorf("commit offsets of group %s: %w", group, err), group)
	}
	for _, o := range offsets.Sorted() {
		if is, _ := done.Lookup(o.Topic, o.Partition); is.Err != nil {
			return askOfGroup("Read", fmt.Errorf("commit offset of %s/%d: %w", o.Topic, o.Partition, is.Err), group)
		}
	}
	return nil
}

// take deletes what was moved from the group that had it.
func (m *moving) take(ctx context.Context, adm *kadm.Client, moved kadm.Offsets) error {
	deleted, err := adm.DeleteOffsets(ctx, m.from, moved.TopicsSet())
	if err == nil {
		err = deleted.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return askOfGroup("Delete", fmt.Errorf("the checkpoints were moved, and group %s has them still, so it must not be started again; delete them: %w", m.from, err), m.from)
	}
	return nil
}
