package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// otherGroups tells, of each delay topic, which other groups have checkpoints on it: nothing says which of two groups has delivered a record. Groups that
// may not be described are left out.
func (v *Verifier) otherGroups(ctx context.Context) (notes []string) {
	if v.config.Group == "" {
		return nil
	}
	listed, _ := v.adm.ListGroups(ctx) // as far as brokers tell
	groups := slices.DeleteFunc(listed.Groups(), func(group string) bool { return group == v.config.Group })
	if len(groups) == 0 {
		return nil
	}
	committed := v.adm.FetchManyOffsets(ctx, groups...)
	for _, r := range v.config.Routes {
		var also []string
		for _, group := range groups {
			for _, c := range committed[group].Fetched[r.Topic] {
				if c.Err == nil && c.At >= 0 && readCheckpoint(c.At, c.Metadata, v.ids[r.Topic]).known {
					also = append(also, group)
					break
				}
			}
		}
		if len(also) > 0 {
			slices.Sort(also)
			notes = append(notes, fmt.Sprintf("%s has checkpoints of %s, too: what two groups deliver to one target, or put into one dead letter topic, looks doubled", r.Topic, strings.Join(also, ", ")))
		}
	}
	return notes
}
