package state

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// fill puts n records of 100 bytes with due times spread over a day, 1000 to a batch.
func fill(b testing.TB, p *Partition, n int) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 100)
	for i := range n {
		binary.LittleEndian.PutUint64(value[40:], rng.Uint64())
		must(b, p.Put(Key{Due: 1 + rng.Int64N(86_400_000), Seq: int64(i)}, value))
		if i%1000 == 999 {
			must(b, p.Commit(Position{Resume: int64(i)}))
		}
	}
	must(b, p.Commit(Position{Resume: int64(n)}))
}

func benchStore(b *testing.B, budget int64) *Store {
	return openStore(b, Options{Dir: b.TempDir(), MemoryBudget: budget})
}

// BenchmarkPutCommit is one record of 100 bytes, put and committed in batches of 1000, on a real disk.
func BenchmarkPutCommit(b *testing.B) {
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprintf("value=%d", size), func(b *testing.B) {
			s := benchStore(b, 256<<20)
			p := openPartition(b, s, orders(0))
			rng := rand.New(rand.NewPCG(1, 2))
			value := make([]byte, size)
			b.ReportAllocs()
			b.SetBytes(int64(keyLen + size))
			i := 0
			for b.Loop() {
				for j := 0; j+8 <= size/2; j += 8 { // half of it does not compress
					binary.LittleEndian.PutUint64(value[j:], rng.Uint64())
				}
				must(b, p.Put(Key{Due: 1 + rng.Int64N(86_400_000), Seq: int64(i)}, value))
				if i++; i%1000 == 0 {
					must(b, p.Commit(Position{Resume: int64(i)}))
				}
			}
			must(b, s.Flush())
			m := s.engine.db.Metrics()
			flushed, compacted := uint64(0), uint64(0)
			for i := range m.Levels {
				flushed += m.Levels[i].TableBytesFlushed
				compacted += m.Levels[i].TableBytesCompacted
			}
			b.ReportMetric(float64(m.Levels[0].Sublevels), "sublevels")
			b.ReportMetric(float64(flushed+compacted)/float64(max(flushed, 1)), "write-amp")
		})
	}
}

// BenchmarkScan is one record of a scan over a million, read in stretches of 10,000 as a lane does.
func BenchmarkScan(b *testing.B) {
	s := benchStore(b, 256<<20)
	p := openPartition(b, s, orders(0))
	fill(b, p, 1_000_000)
	must(b, s.Flush())
	after, left := Key{}, 0
	b.ReportAllocs()
	for b.Loop() {
		if left > 0 {
			left--
			continue
		}
		n := 0
		must(b, p.Scan(after, func(k Key, value []byte) bool {
			after = k
			n++
			return n < 10_000
		}))
		if n == 0 {
			after = Key{}
		}
		left = n
	}
}

// BenchmarkFindIDs is one id of a thousand that are looked for at once and are new, beside three million in eight partitions, as far as compactions have merged them.
func BenchmarkFindIDs(b *testing.B) {
	s := benchStore(b, 256<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	id := func() []byte { return strconv.AppendUint(make([]byte, 0, 20), 1e19+rng.Uint64N(8e18), 10) }
	const each = 1000
	var ps [8]*Partition
	for i := range ps {
		ps[i] = openPartition(b, s, orders(int32(i)))
	}
	for i := range 3000 {
		p := ps[i%len(ps)]
		for j := range int64(each) {
			k := Key{1 + rng.Int64N(1<<40), int64(i)*each + j}
			must(b, p.Put(k, make([]byte, 100)))
			p.PutID(id(), k, 0)
		}
		must(b, p.Commit(Position{}))
	}
	ids, next := make([][]byte, each), 0
	b.ReportAllocs()
	for left := 0; b.Loop(); left-- {
		if left == 0 {
			for i := range ids {
				ids[i] = id()
			}
			must(b, ps[next%len(ps)].FindIDs(slices.All(ids), func(int, Key, int64) {}))
			next, left = next+1, each
		}
	}
	b.ReportMetric(float64(s.engine.db.Metrics().Levels[0].Sublevels), "sublevels")
}

// BenchmarkTrim is one turn of a lane while the partition has a million records stored: 100 are scanned and trimmed.
func BenchmarkTrim(b *testing.B) {
	s := benchStore(b, 256<<20)
	p := openPartition(b, s, orders(0))
	fill(b, p, 1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		n, last := 0, Key{}
		must(b, p.Scan(p.trimmed, func(k Key, _ []byte) bool {
			last = k
			n++
			return n < 100
		}))
		if n == 0 {
			b.StopTimer()
			must(b, p.Drop())
			fill(b, p, 1_000_000)
			b.StartTimer()
			continue
		}
		must(b, p.Trim(last))
		must(b, p.Commit(Position{Watermark: last}))
	}
}

func BenchmarkLedger(b *testing.B) {
	const now = int64(1_800_000_000_000)
	for _, pendingRecords := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("pending=%d", pendingRecords), func(b *testing.B) {
			l := NewLedger(0)
			rng := rand.New(rand.NewPCG(1, 2))
			due := make([]int64, pendingRecords)
			for i := range due {
				due[i] = now + rng.Int64N(int64(366*24*time.Hour/time.Millisecond))
				l.Add(Key{Due: due[i]}, int64(i), 100, false)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				at := i % pendingRecords
				l.Remove(Key{Due: due[at]}, int64(i), 100, false)
				due[at] = now + rng.Int64N(int64(366*24*time.Hour/time.Millisecond))
				l.Add(Key{Due: due[at]}, int64(i+pendingRecords), 100, false)
				i++
			}
		})
	}
}
