package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
)

// groupsAtOnce is how many groups are asked for their offsets in one request to each coordinator.
const groupsAtOnce = 100

// Listed are the consumer groups that there are. Those that we may not describe are not seen.
func Listed(ctx context.Context, adm *kadm.Client) (kadm.ListedGroups, error) {
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return listed, nil
}

// Committed is what groups have committed, by group. A group that does not say is left out.
func Committed(ctx context.Context, adm *kadm.Client, groups []string) (map[string]kadm.OffsetResponses, error) {
	all := make(map[string]kadm.OffsetResponses, len(groups))
	for some := range slices.Chunk(groups, groupsAtOnce) {
		for group, r := range adm.FetchManyOffsets(ctx, some...) {
			if r.Err == nil {
				all[group] = r.Fetched
			}
		}
	}
	return all, ctx.Err()
}
