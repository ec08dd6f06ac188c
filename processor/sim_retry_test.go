//go:build synctests

package processor

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/duewheel/duewheel/bench/check"
	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/topics"
)

// A world may have a retry route, and consumers of its targets that fail: they write what they could not process to the retry topic, with the
// headers that it came with.

const (
	simAgain  = "again"
	simParked = "parked"

	// simSkew is max_clock_skew: a clock that is behind by less is believed.
	simSkew = time.Second

	// simFails says how often consumers fail to process a record.
	simFails = "fails"
)

// simRetrying is what the retry route of a world does. The seed chooses.
func simRetrying(seed uint64) topics.Retrying {
	return topics.Retrying{
		Backoff: topics.Backoff{
			Initial: 300 * milli, Factor: []float64{2, 1, 1.5}[seed%3], Max: time.Second, Jitter: []float64{0.3, 0, 1}[seed/3%3],
		},
		MaxAttempts: int(1 + seed/9%3), Parking: simParked, FromHeaders: true, Strip: topics.ErrorHeaders,
	}
}

// againRoute is the retry route of a world.
func (w *world) againRoute() topics.Route {
	retrying := simRetrying(w.cfg.seed)
	return topics.Route{Topic: simAgain, Allow: []string{"orders", "bills", "gone"}, DeadLetter: simAgain + ".dead", ExpireAfter: w.cfg.expires, Retry: &retrying}
}

// promised is what the checker is told of a retry route.
func promised(r *topics.Retrying) *check.Retry {
	if r == nil {
		return nil
	}
	return &check.Retry{Initial: r.Backoff.Initial, Max: r.Backoff.Max, Factor: r.Backoff.Factor, Jitter: r.Backoff.Jitter,
		MaxAttempts: int64(r.MaxAttempts), Parking: r.Parking, FromHeaders: r.FromHeaders, Strip: r.Strip,
		Behind: simSkew}
}

// writeTimes makes brokers write down when they take the records of a topic (message.timestamp.type LogAppendTime). kfake does what the
// batch says, and leaves its checksum as it is, so the times are those that it will set.
func (w *world) writeTimes(topic string) {
	w.cluster.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		for _, t := range kreq.(*kmsg.ProduceRequest).Topics {
			if id := w.cluster.TopicIDInfo(t.TopicID); t.Topic != topic && (id == nil || id.Topic != topic) {
				continue
			}
			for _, p := range t.Partitions {
				const crc, attributes, first, last, logAppendTime = 17, 21, 27, 35, 1 << 3 // where these stand in a batch
				p.Records[attributes+1] |= logAppendTime
				binary.BigEndian.PutUint64(p.Records[first:], uint64(time.Now().UnixMilli()))
				binary.BigEndian.PutUint64(p.Records[last:], uint64(time.Now().UnixMilli()))
				binary.BigEndian.PutUint32(p.Records[crc:], crc32.Checksum(p.Records[attributes:], crc32.MakeTable(crc32.Castagnoli)))
			}
		}
		return nil, nil, false
	})
}

// consumers read what was delivered, and fail.
type consumers struct {
	w      *world
	client *kgo.Client

	mu      sync.Mutex
	next    map[kafka.TopicPartition]int64
	wrote   int // to the retry topic
	unacked int // of these
}

// consume starts the consumers of a world; they end with it.
func (w *world) consume() *consumers {
	w.t.Helper()
	cl, err := kgo.NewClient(append(w.outside, kgo.ConsumeTopics("orders", "bills"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*milli), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		w.t.Fatalf("make the consumers' client: %v", err)
	}
	w.ownProducerID(cl)
	c := &consumers{w: w, client: cl, next: map[kafka.TopicPartition]int64{}}
	ctx, cancel := context.WithCancel(context.Background())
	w.wg.Go(func() {
		<-w.closing
		cancel()
		cl.Close()
	})
	w.wg.Go(func() {
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(c.process)
		}
	})
	return c
}

func (c *consumers) process(r *kgo.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next[kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}] = r.Offset + 1
	fails, _ := strconv.Atoi(valueOf(r, simFails))
	if attempt, _ := strconv.Atoi(valueOf(r, topics.HeaderAttempt)); r.Attrs.IsControl() || attempt >= fails {
		return
	}
	again := &kgo.Record{Topic: simAgain, Partition: int32(r.Offset % 2), Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers)}
	if r.Offset%3 > 0 { // as Kafka Connect, the others as a consumer of one's own
		again.Timestamp = r.Timestamp.Add(-time.Hour)
		again.Headers = append(again.Headers, kgo.RecordHeader{Key: topics.SourceHeaders[int(r.Offset)%len(topics.SourceHeaders)], Value: []byte(r.Topic)}, kgo.RecordHeader{Key: "__connect.errors.exception.message", Value: []byte("no")})
	} else {
		again.Headers = append(again.Headers, kgo.RecordHeader{Key: topics.HeaderTargetTopic, Value: []byte(r.Topic)})
	}
	c.wrote++
	c.unacked++
	c.client.Produce(context.Background(), again, func(_ *kgo.Record, err error) {
		if err != nil {
			c.w.note("a consumer could not write to %s: %v", simAgain, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unacked--
	})
}

// valueOf is that of the last header of a name.
func valueOf(r *kgo.Record, name string) string { return string(topics.Last(r.Headers, name)) }

// failures is how many records they have failed to process, when they have read all that the checker has.
func (c *consumers) failures() int {
	if c == nil {
		return 0
	}
	c.w.until("consumers have read what was delivered", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, topic := range []string{"orders", "bills"} {
			for p := range int32(len(c.w.cluster.PartitionInfos(topic))) {
				if c.next[kafka.TopicPartition{Topic: topic, Partition: p}] < c.w.watch.Position(topic, p) {
					return false
				}
			}
		}
		return c.unacked == 0
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrote
}

// failed draws a record of the retry topic: as it comes from consumers, and as it should not.
func (r *runner) failed(rec *kgo.Record) *kgo.Record {
	n := r.rng.IntN
	rec.Topic, rec.Partition = simAgain, int32(n(2))
	set := func(name, value string) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	if n(2) == 0 {
		rec.Timestamp = time.Now().Add(-time.Duration(n(10_000_000)) * milli)
	}
	target := []string{"orders", "bills", "orders", "bills", "gone", "forbidden"}[n(6)]
	set([]string{topics.HeaderTargetTopic, topics.SourceHeaders[n(len(topics.SourceHeaders))]}[n(2)], target)
	set(topics.HeaderUntil, "of an earlier trip")
	switch n(10) {
	case 0:
		set(topics.HeaderAttempt, "often")
	case 1, 2, 3, 4, 5:
		set(topics.HeaderAttempt, strconv.Itoa(n(4)))
	}
	if n(2) == 0 {
		set(simFails, strconv.Itoa(n(5)))
	}
	return rec
}

// What consumers fail to process comes back, later each time, and is parked in the end; nothing is lost, doubled or early.
func TestSimRetryRoute(t *testing.T) {
	for _, times := range []string{"LogAppendTime", "CreateTime"} {
		for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
			t.Run(fmt.Sprint(times, " ", guarantee), func(t *testing.T) {
				scenario(t, worldConfig{seed: 18, guarantee: guarantee, again: times}, func(w *world) {
					a := w.live("a")
					for i := range 20 {
						r := request(fmt.Sprint(i), in(time.Duration(i)*100*milli))
						r.Headers = append(r.Headers, kgo.RecordHeader{Key: simFails, Value: []byte(strconv.Itoa(i % 5))})
						w.send(r)
						if i == 10 {
							a.kill()
							a = w.live("b")
						}
					}
					w.arrived()
					c, most := w.watch.Counts(), simRetrying(w.cfg.seed).MaxAttempts
					if most != 3 || c.Parked != 4 || c.Again < 4*(0+1+2+3+3) || c.DeadLettered != c.Parked {
						t.Errorf("parked %d, delivered again %d", c.Parked, c.Again)
					}
					if known := times == "LogAppendTime"; known != (c.Postponed == 0) || !known && c.Postponed < c.Again {
						t.Errorf("%d were put off", c.Postponed)
					}
					w.finish()
				})
			})
		}
	}
}

// While the parking topic refuses what is produced, partitions with something for it wait, and go on soon when it does not any more: nothing gets past it.
func TestSimParkingRefuses(t *testing.T) {
	scenario(t, worldConfig{seed: 18, again: "LogAppendTime"}, func(w *world) {
		a := w.live("a")
		hits, mend := w.unwilling(simParked, kerr.NotLeaderForPartition)
		for i := range 4 {
			r := request(fmt.Sprint(i), in(0))
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: simFails, Value: []byte("9")})
			w.send(r)
		}
		w.until("it refuses", func() bool { return hits() > 0 })
		time.Sleep(2 * time.Minute)
		if ready, why := a.p.Ready(); ready || len(why) == 0 || !strings.Contains(why[0].Error, simParked) {
			t.Errorf("ready is %v: %+v", ready, why)
		}
		mend()
		w.within(5*time.Second, "parked", func() bool { return w.watch.Counts().Parked == 4 })
		w.finish()
	})
}
