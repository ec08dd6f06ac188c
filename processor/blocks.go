package processor

import "github.com/twmb/franz-go/pkg/kgo"

// recordBlocks hands out records, which must not move, from blocks that are used again.
type recordBlocks struct {
	blocks [][]kgo.Record
	used   int
}

const recBlock = 1024 // records

// next is a record that holds nothing.
func (r *recordBlocks) next() *kgo.Record {
	b, i := r.used/recBlock, r.used%recBlock
	if b == len(r.blocks) {
		r.blocks = append(r.blocks, make([]kgo.Record, recBlock))
	}
	r.used++
	return &r.blocks[b][i]
}

// back takes back all but the first n, and lets go of what they held.
func (r *recordBlocks) back(n int) {
	for r.used > n {
		b := (r.used - 1) / recBlock
		from := max(n, b*recBlock)
		clear(r.blocks[b][from-b*recBlock : r.used-b*recBlock])
		r.used = from
	}
}
