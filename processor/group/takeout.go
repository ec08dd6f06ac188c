package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/wait"
)

// TakeOut takes members out of the group that a process which has ended has left there, so that what they had need not wait until their sessions end. left is the member id of each, by
// its number; they must not run any more. cfg is what the first member of this process is. It tries until their sessions have ended, or ctx.
func TakeOut(ctx context.Context, cl *kgo.Client, cfg Config, left map[int]string) {
	if len(left) == 0 || cfg.InstanceID != "" && cfg.Protocol == Classic { // this process takes the places of such members when it joins
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.SessionTimeout)
	defer cancel()
	for {
		out, err := takeOut(ctx, cl, &cfg, left)
		switch {
		case err == nil && out > 0:
			cfg.Log.Info("the process before this one has ended without leaving the group; its members were taken out", "members", out)
			return
		case errors.Is(err, errNotIn):
		case err == nil, ctx.Err() != nil:
			return
		case !kafka.IsPassing(err):
			cfg.Log.Info("the members of the process before this one cannot be taken out of the group; their sessions have to end first", "error", err)
			return
		}
		if !wait.For(ctx, takeOutPause) {
			return
		}
	}
}

// takeOutPause is the time between two tries.
const takeOutPause = 20 * time.Millisecond

// errNotIn: this process is not in the group yet, and of other members it does not know whether they run. A group that becomes empty waits for 3 s before it gives anything to the next member
// (group.initial.rebalance.delay.ms).
var errNotIn = errors.New("group: this process is not in it yet")

// takeOut tries once, and returns how many were in the group.
func takeOut(ctx context.Context, cl *kgo.Client, cfg *Config, left map[int]string) (out int, err error) {
	if cfg.Protocol == Consumer {
		for number, id := range left {
			err := endHeartbeats(ctx, cl, cfg.Group, id, instanceOf(cfg, number))
			switch {
			case kafka.IsAny(err, kerr.UnknownMemberID, kerr.GroupIDNotFound, kerr.FencedInstanceID): // it is out
			case err != nil:
				return out, err
			default:
				out++
			}
		}
		return out, nil
	}
	described, err := kadm.NewClient(cl).DescribeGroups(ctx, cfg.Group)
	if err == nil {
		err = described.Error()
	}
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = cfg.Group
	in, ended := false, slices.Collect(maps.Values(left))
	for _, m := range described[cfg.Group].Members {
		if !slices.Contains(ended, m.MemberID) {
			in = in || m.ClientID == cfg.ClientID
			continue
		}
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID, member.Reason = m.MemberID, kmsg.StringPtr("its process has ended")
		req.Members = append(req.Members, member)
	}
	switch {
	case len(req.Members) == 0:
		return 0, nil
	case !in:
		return 0, errNotIn
	}
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return 0, err
	}
	for _, m := range resp.Members {
		if err := kerr.ErrorForCode(m.ErrorCode); err != nil && !errors.Is(err, kerr.UnknownMemberID) {
			return 0, fmt.Errorf("member %s: %w", m.MemberID, err)
		}
	}
	return len(req.Members), nil
}
