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
	out, err := insist(ctx, &cfg, func(ctx context.Context) (int, error) {
		if cfg.Protocol == Consumer {
			return end(ctx, cl, &cfg, left)
		}
		ids := slices.Collect(maps.Values(left))
		return remove(ctx, cl, &cfg, func(m kadm.DescribedGroupMember) bool { return slices.Contains(ids, m.MemberID) })
	})
	switch {
	case err != nil && ctx.Err() == nil:
		cfg.Log.Info("the members of the process before this one cannot be taken out of the group; their sessions have to end first", "error", err)
	case out > 0:
		cfg.Log.Info("the process before this one has ended without leaving the group; its members were taken out", "members", out)
	}
}

// TakeOutReplica takes the members of another process out of the group, which must have ended or be kept from writing by who gets what it had. of reports whether a member with a
// client id is one of them. It tries until their sessions have ended, or ctx, and returns how many there were. Static members are not for it: their places are kept for them.
func TakeOutReplica(ctx context.Context, cl *kgo.Client, cfg Config, of func(clientID string) bool) (out int, err error) {
	return insist(ctx, &cfg, func(ctx context.Context) (int, error) {
		if cfg.Protocol == Classic {
			return remove(ctx, cl, &cfg, func(m kadm.DescribedGroupMember) bool { return of(m.ClientID) })
		}
		described, err := kadm.NewClient(cl).DescribeConsumerGroups(ctx, cfg.Group)
		if err == nil {
			err = described[cfg.Group].Err
		}
		left := map[int]string{}
		for i, m := range described[cfg.Group].Members {
			if of(m.ClientID) {
				left[i] = m.MemberID
			}
		}
		if err != nil {
			return 0, err
		}
		return end(ctx, cl, &cfg, left)
	})
}

// insist tries until it succeeds, is refused for good, or the session of the members has ended: then there is none left. It rests longer after each try.
func insist(ctx context.Context, cfg *Config, try func(context.Context) (int, error)) (out int, err error) {
	trying, cancel := context.WithTimeout(ctx, cfg.SessionTimeout)
	defer cancel()
	for tries := 0; ; tries++ {
		n, err := try(trying)
		out += n
		if trying.Err() != nil {
			return out, ctx.Err()
		}
		if err == nil || !errors.Is(err, errNotIn) && !kafka.IsPassing(err) {
			return out, err
		}
		wait.For(trying, wait.Growing(max(tries-takeOutSoon, 0), takeOutFirst, takeOutMost))
	}
}

// The first and the longest rest between two tries, and after how many they grow: a process that is started again is mostly in the group by then. A try takes
// time of the group's coordinator that grows with the group, and many processes may join at once.
const (
	takeOutFirst = 20 * time.Millisecond
	takeOutMost  = 500 * time.Millisecond
	takeOutSoon  = 10
)

// errNotIn: this process is not in the group yet, and of other members it does not know whether they run. A group that becomes empty waits for 3 s before it gives anything to the next member
// (group.initial.rebalance.delay.ms).
var errNotIn = errors.New("group: this process is not in it yet")

// end takes members out of a group of the consumer protocol, by their numbers, and returns how many were there.
func end(ctx context.Context, cl *kgo.Client, cfg *Config, left map[int]string) (out int, err error) {
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

// remove takes members out of a group of the classic protocol, and returns how many were there.
func remove(ctx context.Context, cl *kgo.Client, cfg *Config, gone func(kadm.DescribedGroupMember) bool) (out int, err error) {
	described, err := kadm.NewClient(cl).DescribeGroups(ctx, cfg.Group)
	if err == nil {
		err = described.Error()
	}
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = cfg.Group
	in := false
	for _, m := range described[cfg.Group].Members {
		if !gone(m) {
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
		err := kerr.ErrorForCode(m.ErrorCode)
		switch {
		case err == nil:
			out++
		case !errors.Is(err, kerr.UnknownMemberID):
			return out, fmt.Errorf("member %s: %w", m.MemberID, err)
		}
	}
	return out, nil
}
