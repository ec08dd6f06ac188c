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
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newLeaveCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "leave [instance-id ...]",
		Short: "Take static members out of the group",
		Long: `Take the static members of a process that is gone for good out of the group, so that
others get their partitions now and not after the session timeout. Without an argument
it is group.instance_id of the settings; each names the members of all its lanes.
Stop the process first: one that still runs joins again by itself.`,
		Example: "  duewheel leave -c duewheel.yaml duewheel-2",
		RunE: func(cmd *cobra.Command, args []string) error {
			cl, s, err := f.connect()
			if err != nil {
				return err
			}
			defer cl.Close()
			if len(args) == 0 && s.InstanceID != "" {
				args = []string{s.InstanceID}
			}
			if err := reach(cmd.Context(), cl, s.Brokers); err != nil {
				return err
			}
			return leave(cmd.Context(), cl, s, args, cmd.OutOrStdout())
		},
	}
}

func leave(ctx context.Context, cl *kgo.Client, s settings, instances []string, stdout io.Writer) error {
	if s.Group == "" {
		return errNoGroup
	}
	if len(instances) == 0 {
		return errors.New("name an instance id, or set group.instance_id")
	}
	members, err := staticMembers(ctx, cl, s.Group)
	switch {
	case errors.Is(err, errNoSuchGroup):
		return findings{fmt.Errorf("group %s: %w", s.Group, err)}
	case err != nil:
		return askOfGroup("Describe", fmt.Errorf("group %s: %w", s.Group, err), s.Group)
	}
	var gone []staticMember
	var names, there []string
	for _, m := range members {
		there = append(there, m.instance)
		if slices.ContainsFunc(instances, func(of string) bool { return isLaneOf(m.instance, of) }) {
			gone, names = append(gone, m), append(names, m.instance)
		}
	}
	if len(gone) == 0 {
		return findings{fmt.Errorf("group %s has no static member of %s; it has %s", s.Group, strings.Join(instances, ", "), orNone(there))}
	}
	for _, m := range gone {
		if err := m.remove(ctx, cl, s.Group); err != nil {
			return askOfGroup("Read", fmt.Errorf("take %s out of group %s: %w", m.instance, s.Group, err), s.Group)
		}
	}
	fmt.Fprintf(stdout, "left group %s: %s\n", s.Group, orNone(names))
	return nil
}

// staticMember is a member that the group knows by an instance id (KIP-345).
type staticMember struct {
	instance string
	id       string
	consumer bool // by the consumer protocol (KIP-848), which has a request of its own for leaving
}

var errNoSuchGroup = errors.New("there is no such group, or it has no members")

// staticMembers lists those of a group of either protocol: a broker describes each group by one of
// the two requests only.
func staticMembers(ctx context.Context, cl *kgo.Client, group string) (members []staticMember, err error) {
	adm := newPatient(cl)
	switch newer, err := adm.describeConsumerGroup(ctx, group); {
	case err == nil:
		for _, m := range newer.Members {
			if m.InstanceID != nil {
				members = append(members, staticMember{instance: *m.InstanceID, id: m.MemberID, consumer: m.MemberType != classicMember})
			}
		}
		return members, nil
	case mayPass(err):
		return nil, err
	}
	// It is a group of the other protocol, or the brokers are too old for that one.
	g, err := adm.describeGroup(ctx, group)
	switch {
	case g.State == "Dead", errors.Is(err, kerr.GroupIDNotFound):
		return nil, errNoSuchGroup
	case err != nil:
		return nil, err
	}
	for _, m := range g.Members {
		if m.InstanceID != nil {
			members = append(members, staticMember{instance: *m.InstanceID, id: m.MemberID})
		}
	}
	return members, nil
}

// classicMember is the type of a member that a group of the consumer protocol has from the other
// one, while the group moves from one to the other.
const classicMember = 0

// remove takes the member out of its group. One that has gone meanwhile is out, too.
func (m staticMember) remove(ctx context.Context, cl *kgo.Client, group string) error {
	how := m.leaveClassic
	if m.consumer {
		how = m.leaveConsumer
	}
	err := how(ctx, cl, group)
	if errors.Is(err, kerr.UnknownMemberID) {
		return nil
	}
	return err
}

func (m staticMember) leaveClassic(ctx context.Context, cl *kgo.Client, group string) error {
	left, err := newPatient(cl).LeaveGroup(ctx, kadm.LeaveGroup(group).Reason("duewheel leave").InstanceIDs(m.instance))
	if err == nil {
		err = left.Error()
	}
	return err
}

// leaveConsumer speaks for the member: epoch -1 means that it leaves for good, where a static one
// that will be back says -2.
func (m staticMember) leaveConsumer(ctx context.Context, cl *kgo.Client, group string) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.MemberEpoch = group, m.id, &m.instance, -1
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	return err
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
