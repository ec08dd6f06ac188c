package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newLeaveCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "leave [instance-id ...]",
		Short: "Take static members out of the group",
		Long: `Take the static members of a process that is gone for good out of the group, so that
others get their partitions now and not after the session timeout. Without an argument
it is group.instance_id of the settings; each names the members of all its lanes.
A process that still runs joins again by itself.`,
		Example: "  duewheel leave -c duewheel.yaml duewheel-2",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withAdmin(f, func(adm *kadm.Client, s settings) error {
				if len(args) == 0 && s.InstanceID != "" {
					args = []string{s.InstanceID}
				}
				return leave(cmd.Context(), adm, s, args, cmd.OutOrStdout())
			})
		},
	}
}

func leave(ctx context.Context, adm *kadm.Client, s settings, instances []string, stdout io.Writer) error {
	if s.Group == "" {
		return errNoGroup
	}
	if len(instances) == 0 {
		return errors.New("name an instance id, or set group.instance_id")
	}
	groups, err := adm.DescribeGroups(ctx, s.Group)
	if err != nil {
		return err
	}
	g := groups[s.Group]
	if g.Err != nil {
		return fmt.Errorf("group %s: %w", s.Group, g.Err)
	}
	var gone, there []string
	for _, m := range g.Members {
		if m.InstanceID == nil {
			continue
		}
		there = append(there, *m.InstanceID)
		if slices.ContainsFunc(instances, func(of string) bool { return isLaneOf(*m.InstanceID, of) }) {
			gone = append(gone, *m.InstanceID)
		}
	}
	if len(gone) == 0 {
		return fmt.Errorf("group %s has no static member of %s; it has %s", s.Group, strings.Join(instances, ", "), orNone(there))
	}
	resp, err := adm.LeaveGroup(ctx, kadm.LeaveGroup(s.Group).Reason("duewheel leave").InstanceIDs(gone...))
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		return fmt.Errorf("leave group %s: %w", s.Group, err)
	}
	slices.Sort(gone)
	fmt.Fprintf(stdout, "left group %s: %s\n", s.Group, strings.Join(gone, ", "))
	return nil
}

// isLaneOf reports whether a static member is a lane of a process: its instance id with a number.
func isLaneOf(member, instance string) bool {
	number, ok := strings.CutPrefix(member, instance+"-")
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 16)
	return err == nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
