package pending

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
)

// BenchmarkInheritCarried is what a crash costs a store of which half was carried since it was flushed: to look what it holds, and to read the log from
// there. It resumes below L, or above; or it is dropped.
func BenchmarkInheritCarried(b *testing.B) {
	const many = 200_000
	for _, c := range []struct {
		name   string
		resume int64
	}{{"resume=below", many / 4}, {"resume=above", many}, {"dropped", 0}} {
		b.Run(c.name, func(b *testing.B) {
			var inherits, reads, lives time.Duration
			for i := range b.N {
				store, err := state.Open(state.Options{Dir: fmt.Sprint(b.TempDir(), i), MemoryBudget: 64 << 20, Logger: slog.New(slog.DiscardHandler)})
				must(b, err)
				l := testOwner(b)
				l.store = store
				part, err := store.Partition(testID)
				must(b, err)
				var log []*kgo.Record
				for offset := range int64(many) {
					r := req(offset, ms(farMs+offset*7919%many), "orders")
					r.Value = make([]byte, 100)
					log = append(log, r)
					key, run := state.Key{Due: ms(farMs + offset*7919%many), Seq: offset}, AppendRecord(nil, r)
					must(b, part.Put(key, run))
					part.Count(counted(key, run))
					if offset%1000 == 999 {
						must(b, part.Commit(state.Position{Resume: c.resume, Offset: many}))
					}
				}
				for offset := range int64(many / 2) {
					r := copyAt(many+offset, offset, ms(farMs+offset*7919%many))
					r.Value = make([]byte, 100)
					log = append(log, r)
				}
				if c.resume == 0 {
					must(b, part.Drop())
				}
				began := time.Now()
				p, err := l.assign(state.Checkpoint{Offset: int64(len(log)), LowWater: many / 2}, many/2, int64(len(log)), int64(len(log)))
				must(b, err)
				inherits += time.Since(began)
				began = time.Now()
				for n, r := range log[p.position:] {
					_, err := p.Accept(r, testNow)
					must(b, err)
					if n%1000 == 999 {
						must(b, p.Sync())
					}
				}
				must(b, p.Sync())
				reads += time.Since(began)
				began = time.Now()
				must(b, p.goLive(l.room))
				lives += time.Since(began)
				equal(b, "pending", p.Pending(), many)
				must(b, store.Close())
			}
			for what, d := range map[string]time.Duration{"inherit-ms": inherits, "read-ms": reads, "live-ms": lives} {
				b.ReportMetric(float64(d.Milliseconds())/float64(b.N), what)
			}
		})
	}
}
