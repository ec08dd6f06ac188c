package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What was delivered by a route with another prefix, and then by one for retries, has the headers of both. It is of the last one.
func TestDeliveredByTwoRoutes(t *testing.T) {
	for _, prefixes := range [][2]string{{"x-wheel-", "delay-"}, {"delay-", "x-wheel-"}, {"x-wheel-", "y-"}} {
		t.Run(fmt.Sprint(prefixes), func(t *testing.T) {
			w := newWorld()
			w.config.Routes[0].Emit, w.config.Routes[0].Prefix = "source", prefixes[0]
			w.config.Routes = append(w.config.Routes, Route{Topic: "again", Prefix: prefixes[1], Allow: []string{"orders"}, Delay: time.Minute})
			q := w.request("k", "v", "trace=1", prefixes[0]+"until="+millis(due), prefixes[0]+"target-topic=orders")
			said := func(prefix string, of *kgo.Record, due time.Time) []kgo.RecordHeader {
				return parse([]string{prefix + "due=" + millis(due), fmt.Sprintf("%ssource=%s/%d/%d", prefix, of.Topic, of.Partition, of.Offset)})
			}
			once := w.append(&kgo.Record{Topic: "orders", Key: q.Key, Value: q.Value, Timestamp: due, Headers: append(parse([]string{"trace=1"}), said(prefixes[0], q, due)...)})
			failed := w.append(&kgo.Record{Topic: "again", Key: q.Key, Value: q.Value, Timestamp: due.Add(time.Second), Headers: append(once.Headers[:len(once.Headers):len(once.Headers)],
				kgo.RecordHeader{Key: prefixes[1] + "target-topic", Value: []byte("orders")})})
			later := due.Add(time.Second + time.Minute)
			twice := w.append(&kgo.Record{Topic: "orders", Key: q.Key, Value: q.Value, Timestamp: later, Headers: append(once.Headers[:len(once.Headers):len(once.Headers)], said(prefixes[1], failed, later)...)})
			c := newChecker(t, w.config)
			c.Requested(q)
			c.Requested(failed)
			c.Delivered(once, time.Time{})
			c.Delivered(twice, time.Time{})
			expectFaults(t, c, nil, "")
		})
	}
}
