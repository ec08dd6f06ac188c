package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Denied is an error of Pass: a right is missing, to read a topic or to describe the group. One of both is named.
type Denied struct {
	Topic, Group string
	err          error
}

func (d *Denied) Error() string { return d.err.Error() }

func (d *Denied) Unwrap() error { return d.err }

// denied makes a Denied of an error about a topic or a group which says that a right is missing.
func denied(err error, topic, group string) error {
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed) {
		return &Denied{topic, group, err}
	}
	return err
}

// unreadable are the delay topics that may be described and not be read, where there are others: brokers say so before anything is read. It is asked for at first, and as long as
// one could not be looked at.
func (s *survey) unreadable(ctx context.Context, cl *kgo.Client, first bool) (map[string]bool, error) {
	all := make(map[string]bool)
	if len(s.routes) < 2 || !first && len(s.away) == 0 {
		return all, nil
	}
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, r := range s.routes {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(r.Topic)
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	for _, t := range resp.Topics {
		said := kadm.DecodeACLOperations(t.AuthorizedOperations)
		if t.Topic != nil && t.ErrorCode == 0 && len(said) > 0 && !slices.Contains(said, kadm.OpRead) && !slices.Contains(said, kadm.OpAll) {
			all[*t.Topic] = true
		}
	}
	return all, nil
}

// mostAbsent bounds for how many targets that requests name, and that are not there, it is asked why.
const mostAbsent = 1000

// longestName is how long the name of a topic can be. A broker that is asked for one that is longer than 32,767 bytes does not answer: it hangs up.
const longestName = 249

// findDenied finds which of the topics that should be read may not be looked at. The list of all topics leaves those out that may not be described either,
// as if they did not exist.
func (v *Verifier) findDenied(ctx context.Context) error {
	v.denied = slices.Sorted(maps.Keys(v.arrivals.barred))
	for name, err := range v.seen.away {
		if of := (*Denied)(nil); errors.As(err, &of) {
			v.denied = append(v.denied, name)
		}
	}
	absent := slices.Collect(maps.Keys(v.absent))
	for name := range v.wanted {
		if _, exists := v.existing[name]; !exists {
			absent = append(absent, name)
		}
	}
	if len(absent) == 0 {
		slices.Sort(v.denied)
		return nil
	}
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range absent {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, v.arrivals.cl)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	for _, t := range resp.Topics {
		if t.Topic != nil && t.ErrorCode == kerr.TopicAuthorizationFailed.Code {
			v.denied = append(v.denied, *t.Topic)
		}
	}
	slices.Sort(v.denied)
	v.denied = slices.Compact(v.denied)
	return nil
}
