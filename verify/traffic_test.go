package verify

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// keepWriting writes requests to delays/0, due in hours, one after the other, until the test ends.
func (s *fakeGroup) keepWriting() {
	s.Helper()
	s.ask(59, 600)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	s.Cleanup(func() { cancel(); <-over })
	cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			now := time.Now()
			r := &kgo.Record{Topic: "delays", Key: []byte("k"), Timestamp: now, Headers: headers("delay-until="+millis(now.Add(3*time.Hour)), "delay-target-topic=orders")}
			if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond) // as producers do
		}
	}()
}

// What is written all the time to some partitions does not hide that nothing comes of another one: a pass ends.
func TestEndsBesideTraffic(t *testing.T) {
	for name, of := range map[string]func(*fakeGroup){
		"an open transaction": func(s *fakeGroup) {
			cl := s.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID("open"))
			if err := cl.BeginTransaction(); err != nil {
				s.Fatal(err)
			}
			if err := cl.ProduceSync(s.Context(), &kgo.Record{Topic: "delays", Partition: 1}).FirstErr(); err != nil {
				s.Fatal(err)
			}
		},
		"a log that is cut while it is read": func(s *fakeGroup) {
			for range 3 {
				s.write(&kgo.Record{Topic: "delays", Partition: 1, Timestamp: s.at(0), Headers: headers("delay-until="+millis(s.at(0.5)), "delay-target-topic=orders")})
			}
			var cut atomic.Bool
			s.fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
				s.fake.KeepControl()
				if !cut.Swap(true) {
					s.fake.SleepControl(func() { s.cut("delays", 1, 3) })
				}
				return nil, nil, false
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeGroup(t)
			s.resolve("delays", 0, 0, 0, 0)
			s.resolve("delays", 1, 0, 0, 0)
			of(s)
			s.keepWriting()
			ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, context.DeadlineExceeded)
			defer cancel()
			r, err := s.verifier().Pass(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if r.Counts.Pending == 0 { // of those that are written all the time
				t.Errorf("%+v", r.Counts)
			}
		})
	}
}
