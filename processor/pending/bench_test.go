package pending

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
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

// BenchmarkMany is the same for many records at once, due in no order: their bytes are in no cache any more when they are taken, and
// when what they ask for is read again. With ids each has one of 20 bytes; with targets they go to two of them.
func BenchmarkMany(b *testing.B) {
	b.Run("plain", func(b *testing.B) { many(b, false, 1) })
	b.Run("ids", func(b *testing.B) { many(b, true, 1) })
	b.Run("targets", func(b *testing.B) { many(b, false, 2) })
}

func many(b *testing.B, ids bool, targets int64) {
	const many, turn = 400_000, 20_000
	r := req(0, 0, "orders")
	r.Value = make([]byte, 100)
	if ids {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID})
	}
	noise := rand.New(rand.NewPCG(1, 1))
	var accept, take, again time.Duration
	var touched byte
	for b.Loop() {
		l := testOwner(b)
		l.room.Budget, l.room.Share = 1<<30, 1<<30
		p := l.live(b)
		must(b, p.Load(testNow, l.room))
		began := time.Now()
		for i := range int64(many) {
			r.Offset, r.Headers[0].Value = i, strconv.AppendInt(r.Headers[0].Value[:0], testNow+noise.Int64N(1000), 10)
			if targets > 1 {
				r.Headers[1].Value = append(r.Headers[1].Value[:0], [...]string{"orders", "bills"}[i%targets]...)
			}
			if ids {
				last := len(r.Headers) - 1
				r.Headers[last].Value = fmt.Appendf(r.Headers[last].Value[:0], "order-%014d", i)
			}
			if _, err := p.Accept(r, testNow); err != nil {
				b.Fatal(err)
			}
		}
		accept += time.Since(began)
		var rec Record
		var req topics.Request
		for items := make([]Item, 0, turn); ; items = items[:0] {
			began = time.Now()
			pt := p.Take(testNow+1000, items, turn, anyBytes)
			take += time.Since(began)
			if pt == nil {
				break
			}
			began = time.Now()
			for i := range pt.Items {
				touched |= pt.Touch(i)
				it := &pt.Items[i]
				err := rec.Decode(it.Run)
				if err == nil {
					err = p.RequestOf(&req, it, &rec)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			again += time.Since(began)
			p.Settle(pt)
			p.Committed(pt)
		}
	}
	for what, d := range map[string]time.Duration{"accept-ns": accept, "take-ns": take, "again-ns": again} {
		b.ReportMetric(float64(d.Nanoseconds())/float64(b.N*many), what)
	}
}

// BenchmarkCancel is what a partition does for a cancel, from its log to the part of a turn that has happened: of what memory holds,
// What a step with a few cancels costs where very much is pending in memory, due within a quarter of an hour: as with time limits most of which are
// cancelled before they are reached.
func BenchmarkCancelAmongMany(b *testing.B) {
	const many, within = 800_000, 900_000
	for _, few := range []int64{1, 20, 200} {
		b.Run(strconv.FormatInt(few, 10), func(b *testing.B) {
			l := testOwner(b)
			p := l.live(b)
			p.horizon = farthest
			r := req(0, 0, "orders")
			due := func(i int64) int64 { return testNow + 1000 + i*within/many }
			for i := range int64(many) {
				r.Offset, r.Headers[0].Value = i, strconv.AppendInt(r.Headers[0].Value[:0], due(i), 10)
				if _, err := p.Accept(r, testNow); err != nil {
					b.Fatal(err)
				}
			}
			must(b, p.Sync())
			cancel := &kgo.Record{Timestamp: time.UnixMilli(testNow), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel}}}
			next := int64(0)
			b.ResetTimer()
			for range b.N {
				for range few {
					i := next * 7919 % many
					next++
					h := topics.Handle{Partition: testID.Partition, Offset: i, Due: due(i)}
					cancel.Offset, cancel.Headers[0].Value = p.position, []byte(h.String())
					if _, err := p.Accept(cancel, testNow); err != nil {
						b.Fatal(err)
					}
				}
				must(b, p.Load(testNow, l.room))
				if pt := p.Take(testNow, nil, 1000, anyBytes); pt != nil {
					l.happened(pt)
				}
			}
			if p.Pending() >= many {
				b.Fatal("nothing was cancelled")
			}
		})
	}
}

// and of what only the store does; and for one that lies below O, in a replay.
func BenchmarkCancel(b *testing.B) {
	const many = 20_000
	r := req(0, 0, "orders")
	cancel := &kgo.Record{Timestamp: time.UnixMilli(testNow), Headers: []kgo.RecordHeader{{Key: topics.HeaderCancel}}}
	for _, c := range []struct {
		name   string
		ahead  int64 // ms
		replay bool
	}{{"near", 1000, false}, {"far", farMs, false}, {"replay", farMs, true}} {
		b.Run(c.name, func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				l := testOwner(b)
				p := l.live(b)
				for i := range int64(many) {
					r.Offset, r.Headers[0].Value = i, strconv.AppendInt(r.Headers[0].Value[:0], testNow+c.ahead, 10)
					if _, err := p.Accept(r, testNow); err != nil {
						b.Fatal(err)
					}
				}
				must(b, p.Sync())
				if c.replay {
					p.accepted = 2 * many
				}
				began := time.Now()
				for i := range int64(many) {
					h := topics.Handle{Partition: testID.Partition, Offset: i * 7919 % many, Due: testNow + c.ahead}
					cancel.Offset, cancel.Headers[0].Value = many+i, []byte(h.String())
					if _, err := p.Accept(cancel, testNow); err != nil {
						b.Fatal(err)
					}
				}
				must(b, p.Load(testNow, l.room))
				if pt := p.Take(testNow, nil, many, anyBytes); pt != nil {
					p.Settle(pt)
					p.Committed(pt)
				}
				must(b, p.Sync())
				took += time.Since(began)
				if p.Pending() != 0 {
					b.Fatalf("%d are pending", p.Pending())
				}
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*many), "ns/cancel")
		})
	}
}

// BenchmarkIDs is what a record costs that waits in the store, on a real disk, with an id of 20 bytes and without: to take it in, and the
// memory of the process then, of which the store may use a quarter of 256 MiB. -benchtime 10000000x makes it ten million.
func BenchmarkIDs(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("with=%v", with), func(b *testing.B) {
			store, err := state.Open(state.Options{Dir: b.TempDir(), MemoryBudget: 64 << 20, Logger: slog.New(slog.DiscardHandler)})
			must(b, err)
			defer store.Close()
			l := testOwner(b)
			l.store = store
			p := l.live(b)
			must(b, p.Load(testNow, l.room))
			r, noise := req(0, 0, "orders"), rand.New(rand.NewPCG(1, 1))
			r.Value = make([]byte, 100)
			if with {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID})
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range int64(b.N) {
				r.Offset, r.Headers[0].Value = i, strconv.AppendInt(r.Headers[0].Value[:0], testNow+farMs+noise.Int64N(3_600_000), 10)
				if with {
					r.Headers[2].Value = fmt.Appendf(r.Headers[2].Value[:0], "order-%014d", i)
				}
				if _, err := p.Accept(r, testNow); err != nil {
					b.Fatal(err)
				}
				if i%1000 == 999 {
					must(b, p.Sync())
				}
			}
			must(b, p.Sync())
			b.StopTimer()
			b.ReportMetric(float64(p.Memory())/float64(1<<20), "MiB-near")
			b.ReportMetric(residentMiB(b), "MiB-resident")
		})
	}
}

// residentMiB is the memory of this process.
func residentMiB(b *testing.B) float64 {
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return resident * float64(os.Getpagesize()) / (1 << 20)
}
