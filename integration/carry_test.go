package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/integration/load"
)

// Records that are delayed for three times as long as their topic keeps its log arrive, each once: brokers delete segments meanwhile, and a replica is
// killed and its store gone. Where nothing breaks, in another group, no more copies are made than there are halves of that time until a record is due,
// and no fewer than there are where each is made three seconds late: brokers are asked once a second how old a log is.
func TestCarry(t *testing.T) {
	const keeps, far = 16 * time.Second, 500
	c := brokers.Start(t, brokers.Options{Config: map[string]string{"log.retention.check.interval.ms": "300"}})
	delays := map[string]string{"retention.ms": "16000", "segment.bytes": "1048576"}
	s := newStage(t, c, setting{partitions: 2, seed: newSeed(t), delayConfig: delays})
	steady := carriedAsComputed(t, c, delays, keeps)
	change := func(c *replicaConfig) { c.CommitInterval = 100 * time.Millisecond }
	first, began := s.spawn(s.replica(change)), time.Now()
	for _, size := range []int{0, 100, 20_000} {
		s.load(load.Config{Records: far / 3, ValueBytes: size, Due: []load.Due{{Weight: 1, From: 3 * keeps, To: 3*keeps + 2*time.Second}}})
	}
	ends := s.ends()
	stop := s.keepLoading(load.Config{Rate: 200, ValueBytes: 2000, Due: []load.Due{{Weight: 1, To: time.Second}}})
	s.awaitDelivery(first)
	s.passes(began, keeps)
	first.Kill()
	if err := os.RemoveAll(filepath.Join(s.dir, "a")); err != nil {
		t.Fatal(err)
	}
	second := s.start(s.replica(change))
	s.awaitLive(second, 2)
	eventually(t, func() (left string) {
		starts, err := s.admin.ListStartOffsets(t.Context(), s.route.Topic)
		if err != nil {
			t.Fatal(err)
		}
		starts.Each(func(o kadm.ListedOffset) {
			if end, _ := ends.Lookup(o.Topic, o.Partition); o.Offset < end.Offset {
				left = fmt.Sprintf("partition %d begins at %d, and what was far ended at %d: brokers have not deleted it", o.Partition, o.Offset, end.Offset)
			}
		})
		return left
	})
	if since := time.Since(began); since > 3*keeps {
		t.Errorf("brokers have deleted what was far after %v: it may have been delivered before", since)
	}
	stop()
	if carried := second.Stats().Topics[0].Carried; carried < far/2 {
		t.Errorf("%d copies", carried)
	}
	s.arrive()
	second.stop()
	s.judge()
	steady()
}

// carriedAsComputed has some records wait for nearly three times as long as their topic keeps its log. What it returns counts the copies, when all have
// been delivered.
func carriedAsComputed(t *testing.T, c *brokers.Cluster, delays map[string]string, keeps time.Duration) (judge func()) {
	const records, wait, late = 200, 46 * time.Second, 3 * time.Second
	s := newStage(t, c, setting{partitions: 2, seed: newSeed(t), delayConfig: delays})
	p := s.start(s.replica(func(c *replicaConfig) { c.Instance = "steady" }))
	s.awaitLive(p, 2)
	s.load(load.Config{Records: records, ValueBytes: 100, Due: []load.Due{{Weight: 1, From: wait, To: wait}}})
	return func() {
		s.arrive()
		most, least := int64(records*(wait/(keeps/2))), int64(records*(wait/(keeps/2+late)))
		if carried := p.Stats().Topics[0].Carried; carried < least || carried > most {
			t.Errorf("%d records that waited for %v were carried %d times, want %d to %d", records, wait, carried, least, most)
		} else {
			t.Logf("%.2f writes a record, %.2f computed", 2+float64(carried)/records, 2+wait.Seconds()/(keeps/2).Seconds())
		}
		p.stop()
		s.judge()
	}
}

func (s *stage) ends() kadm.ListedOffsets {
	s.t.Helper()
	ends, err := s.admin.ListEndOffsets(s.t.Context(), s.route.Topic)
	if err != nil {
		s.t.Fatal(err)
	}
	return ends
}

// passes waits until some time has passed since a moment.
func (s *stage) passes(since time.Time, d time.Duration) { passes(s.t, time.Until(since.Add(d))) }
