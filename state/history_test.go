package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"
)

// history is a workload that can be repeated from its seed: batch after batch on two partitions, with puts, deletes,
// overwritten records, and trims behind a rising watermark. After a crash, what a store holds must be what some
// prefix of the batches leaves.
type history struct {
	seed uint64
}

const historyPartitions = 2

// batch is what batch n does, counted from 1 over all partitions.
type historyBatch struct {
	partition int32
	puts      []Key
	deletes   []Key
	position  Position // Offset is n
}

func (h history) batch(n int64) historyBatch {
	rng := rand.New(rand.NewPCG(h.seed, uint64(n)))
	b := historyBatch{
		partition: int32(n % historyPartitions),
		position:  Position{Resume: n, Offset: n, Watermark: Key{n * 10, 0}, LowWater: n / 2},
	}
	for range 1 + rng.IntN(30) {
		b.puts = append(b.puts, Key{n*10 + 1 + rng.Int64N(1000), rng.Int64N(3)})
	}
	for range rng.IntN(3) {
		b.deletes = append(b.deletes, Key{n*10 + 1 + rng.Int64N(1000), rng.Int64N(3)})
	}
	return b
}

// value of a put in batch n. It names the batch, and now and then it is large.
func (h history) value(n int64, k Key) []byte {
	size := 8 + int(k.Due%100)
	if k.Due%97 == 0 {
		size = 20_000
	}
	v := make([]byte, size)
	for i := 0; i+8 <= size; i += 8 {
		binary.BigEndian.PutUint64(v[i:], uint64(n)*0x9e3779b97f4a7c15+uint64(k.Due*3+k.Seq))
	}
	return v
}

// run does batch n through the handles.
func (h history) run(n int64, handles []*Partition) error {
	b := h.batch(n)
	p := handles[b.partition]
	for _, k := range b.puts {
		if err := p.Put(k, h.value(n, k)); err != nil {
			return err
		}
	}
	for _, k := range b.deletes {
		p.Delete(k)
	}
	if err := p.Commit(b.position); err != nil {
		return err
	}
	if n%7 == 0 {
		return p.Trim(b.position.Watermark)
	}
	return nil
}

// after is what a partition holds above its watermark after n batches, and its position.
func (h history) after(n int64, partition int32) (map[Key][]byte, Position) {
	held := map[Key][]byte{}
	var pos Position
	for i := int64(1); i <= n; i++ {
		b := h.batch(i)
		if b.partition != partition {
			continue
		}
		for _, k := range b.puts {
			held[k] = h.value(i, k)
		}
		for _, k := range b.deletes {
			delete(held, k)
		}
		pos = b.position
	}
	maps.DeleteFunc(held, func(k Key, _ []byte) bool { return !pos.Watermark.Less(k) })
	return held, pos
}

func (h history) open(t rapid.TB, s *Store) []*Partition {
	t.Helper()
	var handles []*Partition
	for i := range int32(historyPartitions) {
		handles = append(handles, openPartition(t, s, orders(i)))
	}
	return handles
}

// checkPrefix verifies that the store is what a prefix of at most n batches leaves, and tells its length.
func (h history) checkPrefix(t rapid.TB, s *Store, n int64) int64 {
	t.Helper()
	handles := h.open(t, s)
	prefix := int64(0)
	for _, p := range handles {
		if pos, ok := p.Position(); ok {
			prefix = max(prefix, pos.Offset)
		}
	}
	if prefix > n {
		t.Fatalf("the store shows batch %d of %d", prefix, n)
	}
	for i, p := range handles {
		want, wantPos := h.after(prefix, int32(i))
		pos, _ := p.Position()
		if pos != wantPos {
			t.Fatalf("partition %d: position %+v after %d batches, want %+v", i, pos, prefix, wantPos)
		}
		if err := compareScan(p, pos.Watermark, want); err != nil {
			t.Fatalf("partition %d after %d batches: %v", i, prefix, err)
		}
	}
	return prefix
}

// compareScan verifies that a scan gives exactly these records, in order.
func compareScan(p *Partition, after Key, want map[Key][]byte) error {
	order := slices.SortedFunc(maps.Keys(want), Key.Compare)
	i := 0
	var wrong error
	err := p.Scan(after, func(k Key, value []byte) bool {
		switch {
		case i >= len(order):
			wrong = fmt.Errorf("%v is too much", k)
		case k != order[i]:
			wrong = fmt.Errorf("record %d is %v, want %v", i, k, order[i])
		case !bytes.Equal(value, want[k]):
			wrong = fmt.Errorf("%v has value %x, want %x", k, value, want[k])
		}
		i++
		return wrong == nil
	})
	if err == nil && wrong == nil && i < len(order) {
		wrong = fmt.Errorf("%d records, want %d; %v is missing", i, len(order), order[i])
	}
	if err != nil {
		return err
	}
	return wrong
}
