package check

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkChecker is what a request and its delivery cost together, and what stays of them in memory.
func BenchmarkChecker(b *testing.B) {
	w := newWorld()
	c, err := New(w.config)
	if err != nil {
		b.Fatal(err)
	}
	q := w.request("key-1", fmt.Sprintf("%0100d", 1), "trace=1", "delay-until="+millis(due), "delay-target-topic=orders")
	d := w.deliver(q, due)
	var place *kgo.RecordHeader
	for i, h := range d.Headers {
		if h.Key == "delay-source" {
			place = &d.Headers[i]
		}
	}
	before := heap()
	seen := now.Add(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		place.Value = fmt.Appendf(place.Value[:0], "%s/%d/%d", q.Topic, q.Partition, q.Offset)
		c.Requested(q)
		c.Delivered(d, seen)
		q.Offset++
		d.Offset++
	}
	b.ReportMetric(float64(heap()-before)/float64(b.N), "held-B/op")
	start := time.Now()
	if r := c.Report(); r.Faults > 0 {
		b.Fatal(r)
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(b.N), "report-ns/op")
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
