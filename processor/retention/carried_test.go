package retention

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/kafka"
	"github.com/duewheel/duewheel/processor/picture"
	"github.com/duewheel/duewheel/topics"
)

// carried has a carrier with a log of some records of a size carry all of it, as the lane answers, and says of which offsets the lane got records and where the
// carrier goes on.
func carried(t *testing.T, records, size int, lane func(x *Excerpt) Copied) (handed []int64, next int64) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	cl, err := kgo.NewClient(append(kafka.Options([]kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}), kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range records {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: testTopic, Value: bytes.Repeat([]byte("v"), size)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	env := testEnv(map[string]*topics.Route{testTopic: {Topic: testTopic}})
	env.CarryRecords, env.CarryBytes, env.Lanes, env.BatchRecords = 3, 1<<20, 1, 20
	to := make(chan *Excerpt)
	c := NewCarrier(env, 0, func(time.Duration) bool { return false }, to)
	c.cl, c.keeps[testTopic] = cl, topics.Keeping{Age: time.Hour}
	tp := kafka.TopicPartition{Topic: testTopic}
	ids, err := kafka.TopicIDs(t.Context(), cl, []kafka.TopicPartition{tp})
	if err != nil {
		t.Fatal(err)
	}
	g := &carriage{tp: tp, id: ids[tp], most: 3, old: int64(records)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.carry(t.Context(), g, picture.Partition{Topic: testTopic, Phase: picture.Live, Offset: int64(records), Pending: 1})
	}()
	for {
		select {
		case x := <-to:
			if x.Records == nil {
				var wanted []int64
				for at := x.From; at < x.UpTo && len(wanted) < x.Most; at++ {
					wanted = append(wanted, at)
				}
				x.Answer <- Copied{Wanted: wanted}
				continue
			}
			for _, r := range x.Records {
				handed = append(handed, r.Offset)
			}
			x.Answer <- lane(x)
		case <-done:
			return handed, g.next
		}
	}
}

// The carrier goes on behind what was done, and nowhere else: what it skips retention takes, and what it does again is written twice.
func TestCarryGoesOnBehindWhatWasDone(t *testing.T) {
	all := func(x *Excerpt) Copied { return Copied{Read: len(x.Records)} }
	once := false
	for _, c := range []struct {
		name          string
		records, size int
		lane          func(x *Excerpt) Copied
		handed        []int64
		next          int64
	}{
		{"all that is wanted", 2, 100, all, []int64{0, 1}, 2},
		{"the first that are wanted", 8, 100, all, []int64{0, 1, 2}, 3},
		{"as many as were read", 3, 600_000, all, []int64{0, 1}, 2},
		{"one of them, and the rest fails", 3, 100, func(*Excerpt) Copied {
			if once = !once; once {
				return Copied{Read: 1}
			}
			return Copied{Err: errors.New("a rebalance")}
		}, []int64{0, 1, 2, 1, 2}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			handed, next := carried(t, c.records, c.size, c.lane)
			equal(t, "the lane got", fmt.Sprint(handed), fmt.Sprint(c.handed))
			equal(t, "it goes on at", next, c.next)
		})
	}
}
