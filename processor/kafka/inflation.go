package kafka

import (
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrCut is told of a partition of which nothing was decoded, since others took the room for it. It is fetched again.
var ErrCut = errors.New("kafka: a fetch is more than what may be decoded at once")

// inflation bounds what the fetches of a reader take once they are decoded. A broker bounds a fetch by what it takes in the log, and a client decodes
// all of it at once; well-compressed batches become 50 times as large, and small records take ten times as much in memory as in the log. So fetches
// are asked for that are as large as the last ones suggest. What is more than that all the same is not decoded: the client passes on what came before
// it, and fetches the rest again.
//
// Of a fetch that comes alone one batch is decoded, however large it is; of several that come together from other brokers maybe of one alone.
//
// It is called by the goroutines of the client.
type inflation struct {
	kgo.Decompressor
	most   int64                        // bytes in memory, of the fetches of all brokers
	resize func(fetch, partition int32) // the client's next fetches; nil: there is none yet

	mu     sync.Mutex
	left   int64               // in bytes: so much may be decoded. Each fetch brings its share
	takes  float64             // how much a byte of the log takes in memory, of late
	memory int64               // what was decoded since the last fetch
	log    int64               // what it takes in the log
	at     time.Time           // of the last fetch
	busy   map[int32]time.Time // when brokers last had something
}

const (
	// inflated is how many bytes of memory there are for each that a fetch may have in the log.
	inflated = 4
	// takesAtFirst is how much a byte of the log is reckoned to take before anything was decoded.
	takesAtFirst = 8
	// decodedBytes is what a record takes in memory beside its bytes: itself, a pointer to it and two or three headers.
	decodedBytes = 280
	// leastFetch is how much is asked for at least.
	leastFetch = 16 << 10
	// busyFor is for how long a broker counts among those that share what fetches may take, after it had something.
	busyFor = 10 * time.Second
)

func newInflation(fetchBytes int32, d kgo.Decompressor) *inflation {
	return &inflation{Decompressor: d, most: inflated * int64(fetchBytes), takes: takesAtFirst, busy: map[int32]time.Time{}}
}

// bounds are how many bytes of the log the next fetch may have, and of one partition.
func (x *inflation) bounds() (fetch, partition int32) {
	b := max(min(int64(float64(x.share())/x.takes), x.share()/inflated), leastFetch)
	return int32(b), int32(b / 2)
}

// share is how much of one fetch may be decoded.
func (x *inflation) share() int64 { return x.most / int64(max(len(x.busy), 1)) }

// OnBrokerRead implements [kgo.HookBrokerRead]. An answer is about to be decoded.
func (x *inflation) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key != int16(kmsg.Fetch) || err != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = time.Now()
	for node, at := range x.busy {
		if x.at.Sub(at) > busyFor {
			delete(x.busy, node)
		}
	}
	x.left = min(max(x.left, 0)+x.share(), x.most)
	if x.log > 0 {
		x.takes = max(float64(x.memory)/float64(x.log), x.takes/2)
	}
	x.memory, x.log = 0, 0
	if x.resize != nil {
		x.resize(x.bounds())
	}
}

// OnFetchBatchRead implements [kgo.HookFetchBatchRead].
func (x *inflation) OnFetchBatchRead(meta kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	if m.NumRecords == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	took := int64(m.UncompressedBytes) + decodedBytes*int64(m.NumRecords)
	x.busy[meta.NodeID] = x.at
	x.left -= took
	x.memory += took
	x.log += int64(m.CompressedBytes)
}

// Decompress implements [kgo.Decompressor].
func (x *inflation) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	x.mu.Lock()
	enough := x.left <= 0
	x.mu.Unlock()
	if enough {
		return nil, ErrCut
	}
	return x.Decompressor.Decompress(src, codec)
}
