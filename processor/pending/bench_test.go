package pending

import (
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkWay is what a partition does for a record from its log to the part of a turn that has happened, a thousand at a time.
func BenchmarkWay(b *testing.B) {
	for _, ahead := range []int64{0, 2000, -60_000} { // ms; the last are late
		b.Run("ahead="+strconv.FormatInt(ahead, 10), func(b *testing.B) {
			l := testOwner(b)
			p := l.live(b)
			rs := make([]*kgo.Record, 1000)
			for i := range rs {
				rs[i] = req(0, 0, "orders")
				rs[i].Value = make([]byte, 100)
			}
			items, now, offset := make([]Item, 0, len(rs)), testNow, int64(0)
			b.ReportAllocs()
			for b.Loop() {
				must(b, p.Load(now, l.room))
				for i, r := range rs {
					r.Offset, r.Headers[0].Value = offset, strconv.AppendInt(r.Headers[0].Value[:0], now+ahead+int64(i%50), 10)
					if _, err := p.Accept(r, now); err != nil {
						b.Fatal(err)
					}
					offset++
				}
				now += max(ahead, 0) + 50
				pt := p.Take(now, items, len(rs), anyBytes)
				p.Settle(pt)
				p.Committed(pt)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rs)), "ns/record")
		})
	}
}
