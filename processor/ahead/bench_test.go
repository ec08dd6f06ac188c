package ahead

import (
	"log/slog"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

const benched = 1_000_000

// benchLog calls fn with a million records of 100 bytes that are due within a day. The record is the same one each time.
func benchLog(ids bool, fn func(*kgo.Record)) {
	r := &kgo.Record{Timestamp: time.UnixMilli(testNow), Key: []byte("some-key"), Value: make([]byte, 100),
		Headers: []kgo.RecordHeader{{Key: topics.HeaderUntil}, {Key: topics.HeaderTargetTopic, Value: []byte("orders")}}}
	if ids {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: topics.HeaderID})
	}
	for i := range int64(benched) {
		r.Offset = i
		r.Headers[0].Value = strconv.AppendInt(r.Headers[0].Value[:0], testNow+1+i*7919%86_400_000, 10)
		if ids {
			r.Headers[2].Value = strconv.AppendInt(append(r.Headers[2].Value[:0], "reminder-"...), i, 10)
		}
		fn(r)
	}
}

// heap is what is live.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkMillion compares what a million pending records cost to find out, by this package and by what an owner has, without a store
// and with one on disk.
func BenchmarkMillion(b *testing.B) {
	c := state.Checkpoint{TopicID: testID, Offset: benched, Parsers: []state.ParserEpoch{{Spec: "p1"}}}
	for _, ids := range []bool{false, true} {
		name := map[bool]string{false: "", true: ",ids"}[ids]
		b.Run("fold"+name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				began := time.Now()
				p, err := New(Env{Route: testRoute(b, "p1"), Mark: testMark, Now: testNow}, c, benched)
				if err != nil {
					b.Fatal(err)
				}
				benchLog(ids, p.Accept)
				p.Decide()
				report(b, began, heap()-before)
				if p.n-p.gone != benched {
					b.Fatalf("%d are pending", p.n-p.gone)
				}
			}
		})
		for _, store := range []bool{false, true} {
			b.Run(map[bool]string{false: "owner", true: "owner,store"}[store]+name, func(b *testing.B) {
				for b.Loop() {
					before := heap()
					began := time.Now()
					p := benchOwner(b, c, store)
					now := 0
					benchLog(ids, func(r *kgo.Record) {
						if _, err := p.Accept(r, testNow); err != nil {
							b.Fatal(err)
						}
						if now++; now%1000 == 0 {
							if err := p.Sync(); err != nil {
								b.Fatal(err)
							}
						}
					})
					if err := p.Sync(); err != nil {
						b.Fatal(err)
					}
					report(b, began, heap()-before)
					if p.Pending() != benched {
						b.Fatalf("%d are pending", p.Pending())
					}
				}
			})
		}
	}
}

func report(b *testing.B, began time.Time, megabytes float64) {
	b.ReportMetric(float64(benched)/time.Since(began).Seconds(), "records/s")
	b.ReportMetric(megabytes, "MiB")
}

func benchOwner(b *testing.B, c state.Checkpoint, withStore bool) *pending.Partition {
	p, err := pending.New(pending.Env{Route: testRoute(b, "p1"), Mark: testMark, Skew: 1000}, c, pending.Sighting{End: benched, At: testNow})
	if err != nil || !withStore {
		return p
	}
	store, err := state.Open(state.Options{Dir: b.TempDir(), MemoryBudget: 64 << 20, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	part, err := store.Partition(state.PartitionID{Group: "g", Topic: "requests", TopicID: [16]byte{1, 2, 3, 4}, Partition: 3})
	if err != nil {
		b.Fatal(err)
	}
	got, err := pending.Inherit(b.Context().Err, testRoute(b, "p1"), part, c, 0, benched)
	if err != nil {
		b.Fatal(err)
	}
	p.Use(part, got, testNow, 10_000)
	return p
}
