package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// groupsAtOnce is how many groups are asked for their offsets in one request to each coordinator.
	groupsAtOnce = 100
	// groupsNamed is how many groups an error names.
	groupsNamed = 5
)

// HiddenError is that there may be groups, or offsets of theirs, that this user may not see.
type HiddenError struct {
	What string
	Of   string // what the right to Describe is missing of
	Mend string // the arguments of kafka-acls.sh that give it
}

func (e *HiddenError) Error() string {
	return e.What + ": give this user the right to Describe " + e.Of + " (kafka-acls.sh --add --operation Describe " + e.Mend + ")"
}

// Readers is what the groups of a cluster have committed, but for one.
type Readers struct {
	Listed    kadm.ListedGroups
	Committed map[string]kadm.OffsetResponses // by group; of a group that is gone: nothing
	Hidden    *HiddenError                    // why there may be more than that; nil: there is no more
}

// AskReaders asks all groups but one what they have committed, and those that are known, listed or not. Each answer may take as long as patience. The error is that
// something could not be asked, or was not answered: what was, is returned with it.
func AskReaders(ctx context.Context, cl *kgo.Client, own string, known []string, patience time.Duration) (Readers, error) {
	r := Readers{Committed: map[string]kadm.OffsetResponses{}}
	adm := kadm.NewClient(cl)
	var listing error
	ask := func(what string, of func(context.Context) error) {
		within, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := of(within); err != nil && listing == nil {
			listing = fmt.Errorf("%s: %w", what, err)
		}
	}
	ask("ask what this user may see", func(ctx context.Context) (err error) { r.Hidden, err = hidden(ctx, cl); return err })
	ask("list groups", func(ctx context.Context) (err error) { r.Listed, err = adm.ListGroups(ctx); return err })
	ask("look for the coordinators of groups", func(ctx context.Context) error { return allCoordinated(ctx, cl) })
	delete(r.Listed, own)
	names := map[string]bool{}
	for _, group := range slices.Concat(r.Listed.Groups(), known) {
		names[group] = true
	}
	var untold map[string]error
	r.Committed, untold = Committed(ctx, adm, slices.Sorted(maps.Keys(names)), patience)
	var refusing []string
	var refusal, unanswered error
	for _, group := range slices.Sorted(maps.Keys(untold)) {
		if err := untold[group]; refused(err) {
			refusing, refusal = append(refusing, group), err
		} else if unanswered == nil {
			unanswered = fmt.Errorf("ask group %s what it has committed: %w", group, err)
		}
	}
	if r.Hidden == nil && len(refusing) > 0 {
		r.Hidden = refusedBy(refusing, refusal)
	}
	return r, cmp.Or(listing, unanswered)
}

func refusedBy(groups []string, err error) *HiddenError {
	some, more := groups, ""
	if len(groups) > groupsNamed {
		some, more = groups[:groupsNamed], " and more"
	}
	return &HiddenError{
		What: fmt.Sprintf("what the groups %s%s read is not told (%v)", strings.Join(some, ", "), more, err),
		Of:   "all groups", Mend: "--group '*'",
	}
}

// Listed are the consumer groups that there are. Those that we may not describe are not seen.
func Listed(ctx context.Context, adm *kadm.Client) (kadm.ListedGroups, error) {
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return listed, nil
}

// Committed is what groups have committed, by group, and why it is not known of others. Each answer may take as long as patience; after one that takes longer no
// more is asked.
func Committed(ctx context.Context, adm *kadm.Client, groups []string, patience time.Duration) (all map[string]kadm.OffsetResponses, untold map[string]error) {
	all, untold = make(map[string]kadm.OffsetResponses, len(groups)), map[string]error{}
	silent := error(nil)
	for some := range slices.Chunk(groups, groupsAtOnce) {
		if silent != nil {
			for _, group := range some {
				untold[group] = silent
			}
			continue
		}
		within, cancel := context.WithTimeout(ctx, patience)
		told := adm.FetchManyOffsets(within, some...)
		for _, group := range some {
			switch r, ok := told[group]; {
			case !ok:
				untold[group] = cmp.Or(within.Err(), error(kerr.CoordinatorNotAvailable))
			case r.Err == nil:
				all[group] = r.Fetched
			case errors.Is(r.Err, kerr.GroupIDNotFound): // it is gone, or one that has no offsets, as a share group
				all[group] = nil
			default:
				untold[group] = r.Err
			}
		}
		silent = within.Err()
		cancel()
	}
	return all, untold
}

// hidden says why groups may be kept from this user. Brokers list all to those who may Describe the cluster, and to others what each may describe, without a word
// about the rest. What one may do they tell by DescribeCluster (KIP-430, KIP-700): without an authorizer, everything. Where they do not tell, ACLs are asked for,
// which takes the same right, and says if there is no authorizer.
func hidden(ctx context.Context, cl *kgo.Client) (*HiddenError, error) {
	unseen := &HiddenError{"brokers list only those groups that this user may describe", "the cluster and all groups", "--cluster --group '*'"}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeClusterAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	switch {
	case err == nil && resp.ClusterAuthorizedOperations == math.MinInt32, unspoken(ctx, cl, req, err):
		return hiddenByACLs(ctx, cl, unseen)
	case err == nil && resp.ClusterAuthorizedOperations&(1<<kmsg.ACLOperationDescribe) != 0:
		return nil, nil
	case err == nil, errors.Is(err, kerr.ClusterAuthorizationFailed):
		return unseen, nil
	}
	return unseen, err
}

func hiddenByACLs(ctx context.Context, cl *kgo.Client, unseen *HiddenError) (*HiddenError, error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = kmsg.ACLResourceTypeCluster, kmsg.StringPtr("kafka-cluster"), kmsg.ACLResourcePatternTypeLiteral
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	switch {
	case err == nil, errors.Is(err, kerr.SecurityDisabled):
		return nil, nil
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return unseen, nil
	case refused(err), unspoken(ctx, cl, req, err):
		unseen.What = "brokers do not say whether they list all groups to this user"
		return unseen, nil
	}
	return unseen, err
}

// unspoken reports an error that a request has because brokers do not speak it.
func unspoken(ctx context.Context, cl *kgo.Client, req kmsg.Request, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	if _, answered := errors.AsType[*kerr.Error](err); answered {
		return errors.Is(err, kerr.UnsupportedVersion)
	}
	resp, err := VersionsRequest().RequestWith(ctx, cl)
	return err == nil && resp.ErrorCode == 0 && !slices.ContainsFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == req.Key() })
}

// allCoordinated reports groups of which no broker knows, because there is no leader for what Kafka keeps of them. Where this user may not describe that topic, or
// a service has none, it says nothing.
func allCoordinated(ctx context.Context, cl *kgo.Client) error {
	resp, err := MetadataOf([]string{OffsetsTopic}).RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.Leader < 0 {
				return fmt.Errorf("partition %d of %s has no leader: %w", p.Partition, OffsetsTopic, kerr.CoordinatorNotAvailable)
			}
		}
	}
	return nil
}
