package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// FetchMaxWait is how long a broker may keep a fetch that finds nothing. A partition that is added
// has to wait for the fetch that is on its way, so it bounds what a quiet topic adds to a takeover;
// lowering it costs idle fetches.
const FetchMaxWait = 200 * time.Millisecond

// FollowerRecheck is for how long a partition is read from a follower of the reader's rack (KIP-392) before its leader is asked again
// whether that one will do; it names none that is out of sync. The client leaves that at 30 minutes, in which one that has stopped
// replicating, and goes on answering, has nothing more. It costs one more fetch.
const FollowerRecheck = 15 * time.Second

// NewReader makes a client that reads partitions, read_committed and with control records, and what closes it. Its fetches have
// fetchBytes at most, of all brokers, and four times as much once they are decoded, or one batch that is larger ([ErrCut]). It begins with no
// partition: they are added and removed by its owner; group membership is another client's affair.
func NewReader(client []kgo.Opt, fetchBytes int32) (cl *kgo.Client, closes func(), err error) {
	ctx, end := context.WithCancel(context.Background())
	pool := &fetchPool{}
	inflation := newInflation(fetchBytes, kgo.DefaultDecompressor(pool))
	fetch, partition := inflation.bounds()
	cl, err = kgo.NewClient(append(Options(client), kgo.WithContext(ctx),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.WithPools(pool),
		kgo.WithDecompressor(inflation),
		kgo.WithHooks(inflation),
		kgo.KeepControlRecords(), // they advance the position: our own appends make logs end in markers
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(fetch),
		kgo.FetchMaxPartitionBytes(partition),
		kgo.FetchMaxWait(FetchMaxWait),
		kgo.RecheckPreferredReplicaInterval(FollowerRecheck),
		kgo.KeepRetryableFetchErrors(), // see Unread
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
	)...)
	if err != nil {
		end()
		return nil, nil, err
	}
	inflation.resize = cl.UpdateFetchMaxBytes // nothing is read yet
	return cl, func() {
		defer end()
		defer time.AfterFunc(farewell, end).Stop()            // the client waits for a broker that is silent
		cl.PurgeTopicsFromConsuming(cl.GetConsumeTopics()...) // what was added just now would begin to be read while it closes
		cl.Close()
	}, nil
}

// farewell is how long a broker has to answer that it has forgotten what was read from it (a fetch
// session, KIP-227, which it drops by itself when it needs the room).
const farewell = 100 * time.Millisecond
