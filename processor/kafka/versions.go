package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/wait"
)

// ErrBrokersTooOld means that brokers do not speak what a guarantee rests on.
var ErrBrokersTooOld = errors.New("kafka: the brokers are too old")

// needed are versions of requests without which something would go wrong in silence: the client leaves
// out of an older version what that has no field for.
var needed = []struct {
	key          kmsg.Key
	version      int16
	what         string
	kafka        string // the first one that has it
	transactions bool   // for them alone
}{
	{kmsg.Metadata, 10, "ids of topics: without them no client can tell a topic that was deleted and made anew from the one before, and its records would be taken for delivered", "2.8", false},
	{kmsg.OffsetFetch, 7, "stable offsets (KIP-447): without them a takeover misses what an open transaction commits", "2.5", true},
	{kmsg.TxnOffsetCommit, 3, "the group's members in transactions (KIP-447): without them a process that has lost its partitions can still commit", "2.5", true},
}

// epochsVersion is that of OffsetForLeaderEpoch from which on the right to Describe a topic is enough (KIP-320, KAFKA-8422).
const epochsVersion = 3

// AwaitVersions returns when brokers have answered that they speak what is needed, for transactions too if they are used, or when ctx
// has ended; and whether all of them can be asked for ends of leader epochs. Otherwise it returns ErrBrokersTooOld.
func AwaitVersions(ctx context.Context, cl *kgo.Client, transactions bool, log *slog.Logger) (epochs bool, err error) {
	said := ""
	for try := 0; ; try++ {
		epochs, err := askVersions(ctx, cl, transactions)
		if err == nil || errors.Is(err, ErrBrokersTooOld) {
			return epochs, err
		}
		if ctx.Err() != nil {
			return false, nil // told to stop, which is no failure
		}
		pause := wait.Growing(try, 250*time.Millisecond, wait.MostRest)
		if err.Error() != said {
			log.Warn("brokers do not say which versions they speak; asking again", "error", err)
			said = err.Error()
		}
		if !wait.For(ctx, pause) {
			return false, nil
		}
	}
}

// askVersions asks every broker that is known by now; those that do not answer may be asked by another
// process, or by this one when it starts the next time.
func askVersions(ctx context.Context, cl *kgo.Client, transactions bool) (epochs bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	if err := cl.Ping(ctx); err != nil {
		return false, err
	}
	answered := false
	epochs = true
	var last error
	for _, b := range cl.DiscoveredBrokers() {
		speaks, err := versionsOf(ctx, b)
		if err != nil {
			last = err
			continue
		}
		answered = true
		epochs = epochs && speaks[kmsg.OffsetForLeaderEpoch] >= epochsVersion
		if err := tooOld(speaks, transactions); err != nil {
			return false, err
		}
	}
	if !answered {
		return false, fmt.Errorf("no broker has answered: %w", last)
	}
	return epochs, nil
}

// versionsOf asks a broker for the newest version of each request that it speaks.
func versionsOf(ctx context.Context, b *kgo.Broker) (map[kmsg.Key]int16, error) {
	got, err := b.RetriableRequest(ctx, VersionsRequest())
	if err != nil {
		return nil, err
	}
	resp := got.(*kmsg.ApiVersionsResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	speaks := make(map[kmsg.Key]int16, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		speaks[kmsg.Key(k.ApiKey)] = k.MaxVersion
	}
	return speaks, nil
}

// tooOld says what brokers lack that speak these versions.
func tooOld(speaks map[kmsg.Key]int16, transactions bool) error {
	for _, n := range needed {
		if n.transactions && !transactions {
			continue
		}
		is, there := speaks[n.key]
		switch {
		case there && is >= n.version:
		case there:
			return fmt.Errorf("%w: it takes %s version %d, which has %s; they speak version %d. Kafka %s is the first that has it; use Kafka 2.8 or later",
				ErrBrokersTooOld, n.key.Name(), n.version, n.what, is, n.kafka)
		default:
			return fmt.Errorf("%w: it takes %s version %d, which has %s; they do not have that request. Kafka %s is the first that has it; use Kafka 2.8 or later",
				ErrBrokersTooOld, n.key.Name(), n.version, n.what, n.kafka)
		}
	}
	return nil
}

// ServesConsumerProtocol reports whether the cluster serves KIP-848 as it was released: with member
// ids that clients choose (version 1 of the request), and the feature finalized.
func ServesConsumerProtocol(ctx context.Context, cl *kgo.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	resp, err := VersionsRequest().RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return false, err
	}
	heartbeat, finalized := false, false
	for _, k := range resp.ApiKeys {
		heartbeat = heartbeat || k.ApiKey == int16(kmsg.ConsumerGroupHeartbeat) && k.MaxVersion >= 1
	}
	for _, f := range resp.FinalizedFeatures {
		finalized = finalized || f.Name == "group.version" && f.MaxVersionLevel >= 1
	}
	return heartbeat && finalized, nil
}
