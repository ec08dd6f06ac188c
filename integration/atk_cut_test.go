package integration

import (
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/integration/brokers"
	"github.com/duewheel/duewheel/topics"
)

// A log loses its end while a processor runs that may go on (accept_loss): L goes back. What is written from there on is pending at offsets that L was beyond when the
// topic was last looked at for trimming, and is deleted.
func TestAtkTrimAfterTheLogWasCut(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out what needs a Kafka")
	}
	const interval = 25 * time.Second
	c := brokers.Start(t, brokers.Options{Nodes: 3, Faults: true})
	delay := newDelay(t, c, 1, 2)
	s := newStage(t, c, setting{topic: delay.topic})
	delay.to = s.targets[0]
	yes := true
	began := time.Now()
	p := s.start(s.replica(func(c *replicaConfig) { c.AcceptLoss, c.TrimInterval, c.Routes[0].Trim = true, interval, &yes }))
	s.awaitLive(p, 1)
	delay.write(0, 10) // seen by both
	s.awaitTarget(10)
	s.awaitInSync()
	if err := c.Node(2).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	delay.write(10, 15) // by one alone
	s.awaitTarget(25)
	s.awaitCheckpoint(25)
	t.Logf("L is 25 after %v", time.Since(began))
	time.Sleep(time.Until(began.Add(interval + 4*time.Second)))
	if err := c.Node(1).Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Node(2).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	delay.elect(2)
	var rs []*kgo.Record
	for i := range 30 {
		rs = append(rs, &kgo.Record{Topic: delay.topic, Partition: 0, Value: strconv.AppendInt(nil, int64(100+i), 10), Headers: []kgo.RecordHeader{
			{Key: topics.HeaderUntil, Value: strconv.AppendInt(nil, time.Now().Add(time.Hour).UnixMilli(), 10)}, {Key: topics.HeaderTargetTopic, Value: []byte(delay.to)}}})
	}
	if err := delay.cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	t.Logf("written from %d on, after %v", rs[0].Offset, time.Since(began))
	for end := time.Now().Add(2 * interval); time.Now().Before(end); time.Sleep(time.Second) {
		starts, err := kadm.NewClient(delay.cl).ListStartOffsets(t.Context(), delay.topic)
		if err != nil {
			continue
		}
		if start, _ := starts.Lookup(delay.topic, 0); start.Offset > rs[0].Offset {
			t.Fatalf("after %v the log begins at %d, and all from %d on is pending for an hour yet", time.Since(began), start.Offset, rs[0].Offset)
		}
	}
}
