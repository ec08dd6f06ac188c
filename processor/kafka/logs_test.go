package kafka

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is written while it is asked how old a log is, is not as old as all that was there.
func TestOffsetsAfterPassesOverNothingNew(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, testTopic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	write := func() {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: testTopic}).FirstErr(); err != nil {
			t.Error(err)
		}
	}
	write()
	var asked atomic.Bool
	c.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		switch time := req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp; {
		case time >= 0:
			asked.Store(true)
		case asked.Swap(false): // nothing was found, and it is asked where the log ends
			c.SleepControl(write)
		}
		return nil, nil, false
	})
	const never = 1 << 50
	after, err := OffsetsAfter(t.Context(), cl, testTopic, never, 1)
	for i, want := range []int64{1, 0} {
		if o, _ := after[i].Lookup(testTopic, 0); err != nil || o.Err != nil || o.Offset != want {
			t.Errorf("%+v, %v; want %d", o, err, want)
		}
	}
}
