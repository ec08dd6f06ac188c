package verify

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// question asks for an offset of each partition of some topics.
type question func(context.Context, ...string) (kadm.ListedOffsets, error)

// after asks where that lies which was written at a time or later.
func after(adm *kadm.Client, ms int64) question {
	return func(ctx context.Context, names ...string) (kadm.ListedOffsets, error) {
		return adm.ListOffsetsAfterMilli(ctx, ms, names...)
	}
}

// list asks for offsets, and asks again where a leader has just been elected, which cannot say at first what all its followers have (KIP-207), and where the
// broker of a leader is down and no other one has taken its place yet. Whether one leads at all is asked again by the client.
func list(ctx context.Context, ask question, names ...string) (map[place]int64, error) {
	for began := time.Now(); ; {
		all, err := listed(ask(ctx, names...))
		if !errors.Is(err, kerr.OffsetNotAvailable) && !down(err) || time.Since(began) > silence {
			return all, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(atOnce):
		}
	}
}

// down reports that a broker takes no connections.
func down(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "dial"
}

// listed makes one map of listed offsets.
func listed(answers kadm.ListedOffsets, err error) (map[place]int64, error) {
	if err != nil {
		return nil, fmt.Errorf("list offsets%s: %w", unlisted(err), err)
	}
	all := make(map[place]int64)
	for topic, partitions := range answers {
		for partition, o := range partitions {
			if o.Err != nil {
				return nil, fmt.Errorf("list offsets of %s/%d: %w", topic, partition, o.Err)
			}
			all[place{topic, partition}] = o.Offset
		}
	}
	return all, nil
}

// unlisted says which partition it is whose leader has not answered, as there is none.
func unlisted(err error) string {
	var some *kadm.ShardErrors
	if !errors.As(err, &some) || len(some.Errs) == 0 {
		return ""
	}
	req, ok := some.Errs[0].Req.(*kmsg.ListOffsetsRequest)
	if !ok || len(req.Topics) == 0 || len(req.Topics[0].Partitions) == 0 {
		return ""
	}
	return fmt.Sprintf(" of %s/%d", req.Topics[0].Topic, req.Topics[0].Partitions[0].Partition)
}
