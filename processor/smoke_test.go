package processor

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/topics"
)

// A record goes from the delay topic to its target when it is due, once.
func TestDeliversWhenDue(t *testing.T) {
	for _, guarantee := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(string(guarantee), func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "delay-requests"), kfake.SeedTopics(2, "orders"), kfake.SeedTopics(1, "delay-requests.dead"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			client := []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}
			p, err := New(Config{
				Client: client, Group: "g", Guarantee: guarantee, Lanes: 2, StateDir: t.TempDir(),
				Routes:     []topics.Route{{Topic: "delay-requests", Allow: []string{"orders"}, DeadLetter: "delay-requests.dead", MaxDelay: time.Hour}},
				NearWindow: time.Second,
				Logger:     slog.New(slog.NewTextHandler(testWriter{t}, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			cl, err := kgo.NewClient(append(client, kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			const n = 500
			dues := map[string]int64{}
			for i := range n {
				due := time.Now().Add(time.Duration(i*6) * time.Millisecond).UnixMilli()
				key := fmt.Sprint(i)
				dues[key] = due
				cl.Produce(ctx, &kgo.Record{Topic: "delay-requests", Key: []byte(key), Value: []byte("v"), Headers: []kgo.RecordHeader{
					{Key: "delay-until", Value: []byte(strconv.FormatInt(due, 10))},
					{Key: "delay-target-topic", Value: []byte("orders")},
				}}, nil)
			}
			seen := map[string]bool{}
			deadline, stop := context.WithTimeout(ctx, 20*time.Second)
			defer stop()
			var worst, sum int64
			for len(seen) < n && deadline.Err() == nil {
				cl.PollFetches(deadline).EachRecord(func(r *kgo.Record) {
					now := time.Now().UnixMilli()
					k := string(r.Key)
					if seen[k] {
						t.Errorf("%s twice", k)
					}
					if now < dues[k] {
						t.Errorf("%s early by %d ms", k, dues[k]-now)
					}
					seen[k] = true
					worst = max(worst, now-dues[k])
					sum += now - dues[k]
				})
			}
			if len(seen) != n {
				t.Errorf("%d of %d delivered", len(seen), n)
			}
			t.Logf("worst lateness %d ms, mean %d", worst, sum/n)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b[:len(b)-1])
	return len(b), nil
}
