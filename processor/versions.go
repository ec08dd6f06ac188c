package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/processor/wait"
)

// ErrBrokersTooOld means that brokers do not speak what a guarantee rests on. Run returns it.
var ErrBrokersTooOld = errors.New("processor: the brokers are too old")

// needed are versions of requests without which something would go wrong in silence: the client leaves
// out of an older version what that has no field for.
var needed = []struct {
	key     kmsg.Key
	version int16
	what    string
	kafka   string    // the first one that has it
	only    Guarantee // empty: for both
}{
	{kmsg.Metadata, 10, "ids of topics: without them no client can tell a topic that was deleted and made anew from the one before, and its records would be taken for delivered", "2.8", ""},
	{kmsg.OffsetFetch, 7, "stable offsets (KIP-447): without them a takeover misses what an open transaction commits", "2.5", ExactlyOnce},
	{kmsg.TxnOffsetCommit, 3, "the group's members in transactions (KIP-447): without them a process that has lost its partitions can still commit", "2.5", ExactlyOnce},
}

// awaitBrokers returns when brokers have answered that they speak what is needed, or ctx has ended.
func (l *lane) awaitBrokers(ctx context.Context) error {
	said := ""
	for try := 0; ; try++ {
		err := l.askVersions(ctx)
		if err == nil || errors.Is(err, ErrBrokersTooOld) {
			return err
		}
		if ctx.Err() != nil {
			return nil // told to stop, which is no failure
		}
		pause := wait.Growing(try, 250*time.Millisecond, wait.MostRest)
		if err.Error() != said {
			l.log.Warn("brokers do not say which versions they speak; asking again", "error", err)
			said = err.Error()
		}
		if !wait.For(ctx, pause) {
			return nil
		}
	}
}

// askVersions asks every broker that is known by now; those that do not answer may be asked by another
// process, or by this one when it starts the next time.
func (l *lane) askVersions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := l.reader.Ping(ctx); err != nil {
		return err
	}
	answered := false
	var last error
	for _, b := range l.reader.DiscoveredBrokers() {
		speaks, err := versionsOf(ctx, b)
		if err != nil {
			last = err
			continue
		}
		answered = true
		if err := l.cfg.tooOld(speaks); err != nil {
			return err
		}
	}
	if !answered {
		return fmt.Errorf("no broker has answered: %w", last)
	}
	return nil
}

// versionsRequest asks what a broker speaks; newer brokers want to know who asks.
func versionsRequest() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "duewheel", "1"
	return req
}

// versionsOf asks a broker for the newest version of each request that it speaks.
func versionsOf(ctx context.Context, b *kgo.Broker) (map[kmsg.Key]int16, error) {
	got, err := b.RetriableRequest(ctx, versionsRequest())
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
func (c *Config) tooOld(speaks map[kmsg.Key]int16) error {
	for _, n := range needed {
		if n.only != "" && n.only != c.Guarantee {
			continue
		}
		is, there := speaks[n.key]
		switch {
		case there && is >= n.version:
		case there:
			return fmt.Errorf("%w: %s needs %s version %d, which has %s; they speak version %d. Kafka %s is the first that has it; use Kafka 2.8 or later",
				ErrBrokersTooOld, c.Guarantee, n.key.Name(), n.version, n.what, is, n.kafka)
		default:
			return fmt.Errorf("%w: %s needs %s version %d, which has %s; they do not have that request. Kafka %s is the first that has it; use Kafka 2.8 or later",
				ErrBrokersTooOld, c.Guarantee, n.key.Name(), n.version, n.what, n.kafka)
		}
	}
	return nil
}
