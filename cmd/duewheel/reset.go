package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// resetting is what `checkpoints reset` was asked for.
type resetting struct {
	topic       string
	partitions  []int
	toBeginning bool
	toOffset    int64
	force       bool
}

func newResetCommand(f *flags) *cobra.Command {
	var r resetting
	cmd := &cobra.Command{
		Use:   "reset -t <topic> (--to-beginning | --to-offset <offset>)",
		Short: "Choose where a stopped partition goes on",
		Long: `Write a new checkpoint for a partition that stopped because its committed offset was not
written by duewheel: set by a tool, or mirrored from another cluster.

  --to-beginning  takes every record of the log for pending: nothing is lost, and what
                  had been delivered before is delivered again.
  --to-offset     begins at an offset: what lies below it is never delivered, but for what
                  was carried from there to a place above it.

Cancels and replacements that lie above are decided again: one that names what is
resolved by then comes too late.

A partition whose checkpoint is sound is left alone, unless --force is given. The group
must be empty: stop its processors first.`,
		Example: "  duewheel checkpoints reset -c duewheel.yaml -t delay-requests -p 3 --to-beginning",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := joinLines(topicNames(cmd, "topic"), atMostOne(cmd, "to-beginning", "to-offset")); err != nil {
				return err
			}
			if r.topic == "" {
				return errors.New("which delay topic? Give it with -t")
			}
			if !r.toBeginning && !cmd.Flags().Changed("to-offset") {
				return errors.New("say where to go on from: --to-beginning or --to-offset")
			}
			if !r.toBeginning && r.toOffset < 0 {
				return fmt.Errorf("--to-offset %d: an offset is a number from 0", r.toOffset)
			}
			return withGroup(cmd.Context(), f, func(adm *patient, s settings) error {
				return r.run(cmd.Context(), adm, s, cmd.OutOrStdout())
			})
		},
	}
	p := cmd.Flags()
	p.SortFlags = false
	p.StringVarP(&r.topic, "topic", "t", "", "delay topic")
	p.IntSliceVarP(&r.partitions, "partition", "p", nil, "only these `partitions`; without it all that need it")
	p.BoolVar(&r.toBeginning, "to-beginning", false, "go on from the start of the log")
	p.Int64Var(&r.toOffset, "to-offset", -1, "go on from this `offset`")
	p.BoolVar(&r.force, "force", false, "also where the checkpoint is sound")
	return cmd
}

func (r *resetting) run(ctx context.Context, adm *patient, s settings, stdout io.Writer) error {
	if err := mustBeEmpty(ctx, adm, s.Group); err != nil {
		return err
	}
	rows, err := readCheckpoints(ctx, adm, s, []string{r.topic})
	if err != nil {
		return err
	}
	identity := identityIn(rows, s)
	if rows, err = r.choose(rows); err != nil {
		return err
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(stdout, "every checkpoint is sound: nothing was changed (--force resets all the same)")
		return err
	}
	details, err := adm.ListTopics(ctx, r.topic)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	offsets := kadm.Offsets{}
	for _, row := range rows {
		at := row.LogStart
		if !r.toBeginning {
			at = r.toOffset
		}
		metadata, err := row.resetTo(at, details[r.topic].ID, identity, s.Routes).Metadata()
		if err != nil {
			return fmt.Errorf("checkpoint of %s/%d: %w", row.Topic, row.Partition, err)
		}
		offsets.Add(kadm.Offset{Topic: row.Topic, Partition: row.Partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	}
	// The broker takes such a commit even while the group is active, so this is asked as late as can be.
	if err := mustBeEmpty(ctx, adm, s.Group); err != nil {
		return err
	}
	return commitReset(ctx, adm, s.Group, rows, offsets, stdout)
}

// commitReset writes the checkpoints, and prints for each partition what it was and is.
func commitReset(ctx context.Context, adm *patient, group string, rows []checkpointRow, offsets kadm.Offsets, stdout io.Writer) error {
	if err := commitAll(ctx, adm, group, offsets); err != nil {
		return err
	}
	for _, row := range rows {
		was := "nothing"
		if row.Offset != nil {
			was = fmt.Sprint(*row.Offset)
		}
		o, _ := offsets.Lookup(row.Topic, row.Partition)
		if _, err := fmt.Fprintf(stdout, "%s/%d: was %s, goes on from %d\n", row.Topic, row.Partition, was, o.At); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the partitions to reset, or why it must not be done.
func (r *resetting) choose(rows []checkpointRow) ([]checkpointRow, error) {
	var chosen []checkpointRow
	for _, p := range r.partitions {
		if !slices.ContainsFunc(rows, func(row checkpointRow) bool { return int(row.Partition) == p }) {
			return nil, fmt.Errorf("%s has no partition %d", r.topic, p)
		}
	}
	for _, row := range rows {
		wanted := slices.Contains(r.partitions, int(row.Partition))
		if len(r.partitions) > 0 && !wanted {
			continue
		}
		if row.GivenTo != "" && !r.force {
			return nil, fmt.Errorf("%s/%d was given to group %s, which takes the place of this one: what both write into the topic for themselves bears one name, so it must not be read by both; --force resets it all the same", row.Topic, row.Partition, (&state.GivenError{To: row.GivenTo}).Name())
		}
		sound := row.Problem == ""
		if sound && !r.force {
			if wanted {
				return nil, fmt.Errorf("%s/%d has a sound checkpoint, or none, and begins where a state directory stands or at the start of the log anyway; --force resets it all the same",
					row.Topic, row.Partition)
			}
			continue
		}
		if !r.toBeginning && (r.toOffset < row.LogStart || r.toOffset > row.LogEnd) {
			return nil, fmt.Errorf("%s/%d: offset %d is outside of the log, %d to %d", row.Topic, row.Partition, r.toOffset, row.LogStart, row.LogEnd)
		}
		chosen = append(chosen, row)
	}
	return chosen, nil
}

// resetTo says: all below offset is done with, nothing at or above it is. Records of ours, written
// before the reset, may lie above it, also copies of what lies below. A writer that was known stays named, so that the next owner
// can abort what it left open.
func (r *checkpointRow) resetTo(offset int64, id kadm.TopicID, identity string, routes []routeSettings) state.Checkpoint {
	c := state.Checkpoint{
		TopicID:  [4]byte(id[:4]),
		Offset:   offset,
		LowWater: offset,
		Writer:   r.Writer,
		Appended: true,
		GivenUp:  offset,
		Identity: identity,
	}
	for _, route := range routes {
		if route.Topic == r.Topic {
			made := route.route()
			c.Parsers = []state.ParserEpoch{{From: offset, Spec: made.Spec()}}
		}
	}
	return c
}

// identityIn is by what name the group goes, where that is not its own: as a checkpoint says that can be read, or else the configuration.
func identityIn(rows []checkpointRow, s settings) string {
	for i := range rows {
		if c := rows[i].checkpoint; c != nil {
			return c.Identity
		}
	}
	if s.Identity == s.Group {
		return ""
	}
	return s.Identity
}

// mustBeEmpty returns an error while the group has members. Groups of both protocols are asked for.
func mustBeEmpty(ctx context.Context, adm *patient, group string) error {
	g, err := adm.describeGroup(ctx, group)
	members, groupState := len(g.Members), g.State
	if groupState == "Dead" || err != nil {
		newer, newerErr := adm.describeConsumerGroup(ctx, group)
		switch {
		case newerErr == nil:
			members, groupState = len(newer.Members), newer.State
		case mayPass(newerErr):
			return askOfGroup("Describe", fmt.Errorf("describe group %s: %w", group, newerErr), group)
		case err != nil && !errors.Is(err, kerr.GroupIDNotFound):
			return askOfGroup("Describe", fmt.Errorf("describe group %s: %w", group, err), group)
		}
	}
	if members > 0 || !slices.Contains([]string{"", "Empty", "Dead"}, groupState) {
		return fmt.Errorf("group %s is active (%s, %s): stop its processors first", group, groupState, topics.Plural(members, "member"))
	}
	return nil
}
