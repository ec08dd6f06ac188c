package turn

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

// byteBlocks hands out room for bytes, which must not move, in blocks that are used again.
type byteBlocks struct {
	blocks [][]byte // len is what is used
	at     int      // the one that is handed out of
}

const byteBlock = 64 << 10 // bytes

// room is an empty slice to append n bytes to. What grows larger than that is somewhere else.
func (b *byteBlocks) room(n int) []byte {
	for ; ; b.at++ {
		if b.at == len(b.blocks) {
			b.blocks = append(b.blocks, make([]byte, 0, max(byteBlock, n)))
		}
		if in := b.blocks[b.at]; cap(in)-len(in) >= n {
			return in[len(in) : len(in) : len(in)+n]
		}
	}
}

// keep keeps the first n bytes of the room that was handed out last.
func (b *byteBlocks) keep(n int) {
	in := b.blocks[b.at]
	b.blocks[b.at] = in[:len(in)+n]
}

// reset takes back all of it.
func (b *byteBlocks) reset() {
	for i := range b.at + 1 {
		if i < len(b.blocks) {
			b.blocks[i] = b.blocks[i][:0]
		}
	}
	b.at = 0
}
