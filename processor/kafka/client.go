package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/wait"
)

const (
	// BrokerPatience is how long a broker that has taken a request, or a connection, may be silent. A
	// healthy one answers within milliseconds. Client options may say otherwise.
	BrokerPatience = 3 * time.Second
	// acksPatience is how long a leader may wait for the replicas of a target, and is the broker's to
	// keep: what it gives up may have been written all the same.
	acksPatience = 5 * time.Second
)

// Options are the options of every client: ours, and behind them those that the configuration asks for, which count.
func Options(asked []kgo.Opt) []kgo.Opt {
	opts := make([]kgo.Opt, 0, len(asked)+12)
	// Client metrics (KIP-714) would be pushed whenever a client is closed, to whatever broker: one that is
	// frozen held up each renewal of a producer, and the end of the process. What we measure is at /metrics.
	opts = append(opts, kgo.DisableClientMetrics(), kgo.ClientID("duewheel"), kgo.SoftwareNameAndVersion("duewheel", "1"),
		kgo.DialTimeout(BrokerPatience), kgo.RequestTimeoutOverhead(BrokerPatience), kgo.ProduceRequestTimeout(acksPatience))
	return append(opts, asked...)
}

// RequestTimeout is how long an answer may take that a healthy broker gives within milliseconds: it is
// time to ask one that is silent and another one.
const RequestTimeout = 2 * BrokerPatience

// ClientID is what a client calls itself (client.id).
func ClientID(cl *kgo.Client) string {
	id, _ := cl.OptValue(kgo.ClientID).(string)
	return id
}

// VersionsRequest asks what a broker speaks, and which features the cluster has finalized (KIP-584); newer brokers want to
// know who asks (KIP-511).
func VersionsRequest() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "duewheel", "1"
	return req
}

// Ask sends a request to one broker, once: what was not sent, since the broker had closed the connection, is sent on another one.
func Ask(ctx context.Context, b *kgo.Broker, req kmsg.Request) (kmsg.Response, error) {
	resp, err := b.Request(ctx, req)
	if errors.Is(err, errHungUp) {
		resp, err = b.Request(ctx, req)
	}
	return resp, err
}

// MarkersPause is how long to wait before a try is repeated that was refused with
// CONCURRENT_TRANSACTIONS: the markers of the transaction before are on their way, mostly for some ms.
func MarkersPause(try int) time.Duration {
	return wait.Growing(max(try-10, 0), 2*time.Millisecond, 250*time.Millisecond)
}

// RefreshBrokers makes cl learn of brokers that it has not heard of, and which ones are gone. It is best effort: the caller tries again anyway.
func RefreshBrokers(ctx context.Context, cl *kgo.Client) {
	InTurn(ctx, func(ctx context.Context) error {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		_, err := req.RequestWith(ctx, cl)
		return err
	})
}

// InTurn asks what any broker can answer, three times for a second at most: the client asks another one each time, and one of them may be silent.
func InTurn(ctx context.Context, ask func(context.Context) error) {
	for range 3 {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		err := ask(asking)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
	}
}

const (
	// DefaultMaxBytes is max.message.bytes where nothing else is configured: the largest batch that a topic takes.
	DefaultMaxBytes = 1048588
	// LargestBatch bounds a batch before it is compressed: what the client sends in one request
	// (kgo.BrokerMaxWriteBytes, 100 MiB) with room for the rest of the request.
	LargestBatch = 96 << 20
	// BatchPrefix is the length that stands before a batch in a produce request. The client counts it when it compares a
	// batch with its bound; brokers do not.
	BatchPrefix = 4
)
