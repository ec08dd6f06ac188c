package pending

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"unsafe"

	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/topics"
)

// held is a record that is resolved in the order of the log.
type held struct {
	key     state.Key // zero: it was refused, and no replay takes it for pending
	offset  int64
	ref     ref
	refusal *topics.Refusal
	by      int64 // above 0: this has cancelled or replaced it, and lies further on in the list
	size    int32
	resolve bool // with a resolve record

	hasID    bool   // a note of a record with an id that is audited: ref holds the id, and nothing else
	replaced bool   // by is a replacement; with EffectForward: it names an id, and goes to all other partitions
	effect   Effect // on what it names
}

// heldBytes is what a note takes: the list holds nothing else of a record that is pending itself, but for its id where that is audited.
const heldBytes = int32(unsafe.Sizeof(held{}))

// due is when it may be resolved: one that is refused at once.
func (h *held) due() int64 {
	if h.refusal != nil || h.effect != EffectNone || h.by > 0 {
		return 0
	}
	return h.key.Due
}

// goesTo is the number of the target that it is delivered to because it is late; 0: it is not, or that is not known.
func (h *held) goesTo() number {
	if h.refusal != nil || h.effect != EffectNone || h.by > 0 {
		return 0
	}
	return h.ref.number()
}

// item is what a turn resolves.
func (h *held) item(n *near) Item {
	it := Item{ref: h.ref, Key: h.key, Offset: h.offset, Refusal: h.refusal, Resolve: h.resolve, By: h.by, Replaced: h.replaced, Effect: h.effect, late: true}
	switch {
	case !h.effect.Pending():
		it.Run = n.get(h.ref)
	case h.hasID:
		it.Extra().noted = n.get(h.ref)
	}
	return it
}

var fifoBlock = 256 // how many records a block has: 16 KiB; less in tests

const blockBytes = 256 << 10 // what these take, unless the last one is large

// fifo is a list of records in the order of the log. It is made of blocks, so that a long one is never copied, and what has been
// taken is given back a block at a time.
type fifo struct {
	blocks []block
	first  int // index of the first record in the first block
	n      int
	others int   // how many other partitions its topic has
	notes  int   // of them: about records that are pending themselves
	bytes  int64 // what the records take in near, and the notes here

	// Of the list of what is late (aside.go).
	near      *near
	store     *state.Partition // nil: there is none, or none is needed
	nextAside uint64           // of blocks that were laid aside
	away      int64            // bytes of those that are
	failed    bool             // the store has not given one back, or is not there any more
}

// block is some records in order, or where they are.
type block struct {
	held  []held
	bytes int64 // what these took when they came
	aside *aside
}

// full reports whether another record goes into another block.
func (b *block) full() bool {
	return b.aside != nil || len(b.held) == fifoBlock || b.bytes >= blockBytes
}

// end is the offset of its last record.
func (b *block) end() int64 {
	if b.aside != nil {
		return b.aside.last
	}
	return b.held[len(b.held)-1].offset
}

func (f *fifo) len() int { return f.n }

// own is how many records it holds, without the notes.
func (f *fifo) own() int { return f.n - f.notes }

func (f *fifo) add(h held) {
	last := len(f.blocks) - 1
	switch {
	case last < 0:
		f.blocks, last = append(f.blocks, block{}), 0
	case f.blocks[last].full():
		f.blocks, last = append(f.blocks, block{held: make([]held, 0, fifoBlock)}), last+1
	}
	b := &f.blocks[last]
	b.held, b.bytes = append(b.held, h), b.bytes+int64(h.size)
	f.n++
	f.bytes += int64(h.size)
	if h.effect.Pending() {
		f.notes++
	}
}

// note makes a note of a record that is pending itself from now on. id is not nil if it is audited.
func (f *fifo) note(h *held, effect Effect, n *near, id []byte) {
	f.bytes -= int64(h.size)
	f.notes++
	h.effect = effect
	h.keepID(n, id)
	f.bytes += int64(h.size)
}

// keepID has a note hold the id of its record, if it has one.
func (h *held) keepID(n *near, id []byte) {
	if h.size = heldBytes + int32(len(id)); id != nil {
		h.ref, h.hasID = n.put(0, id, false), true // among what is in the order of the log, and due at no time
	}
}

// head is the first record, maybe without its bytes. There must be one.
func (f *fifo) head() *held {
	if b := &f.blocks[0]; b.aside != nil {
		return &b.aside.head
	}
	return &f.blocks[0].held[f.first]
}

// tail is the last record. There must be one.
func (f *fifo) tail() *held {
	last := f.blocks[len(f.blocks)-1].held
	return &last[len(last)-1]
}

// all are the records in order, but for those that the store keeps.
func (f *fifo) all() iter.Seq[*held] {
	return func(yield func(*held) bool) {
		first := f.first
		for _, b := range f.blocks {
			for i := first; i < len(b.held); i++ {
				if !yield(&b.held[i]) {
					return
				}
			}
			first = 0
		}
	}
}

// forwardCounts is as how many records a cancel counts that is written again, maybe for each partition of its topic, where the rest of a turn is shared.
const forwardCounts = 20

// UnknownOthers is how many other partitions a topic has of which it is not known.
const UnknownOthers = math.MaxInt32

// counts is as how many records an item counts that is resolved: one that goes to all other partitions as so many.
func (it *Item) counts(others int) int {
	if it.Effect == EffectForward && it.Replaced {
		return max(others, 1)
	}
	return 1
}

// take moves what is due from the front, as much as fits into a turn, and says how many bytes that are.
func (f *fifo) take(clock int64, n *near, out []Item, records int, bytes int64) ([]Item, int64) {
	took := int64(0)
	for i := 0; f.n > 0 && i < records && (took < bytes || i == 0); i++ {
		h := f.head()
		if h.due() > clock || !f.bring(0) {
			break
		}
		h = f.head()
		out = append(out, h.item(n))
		counts := out[len(out)-1].counts(f.others)
		if i > 0 && counts > records-i {
			out = out[:len(out)-1]
			break
		}
		i += counts - 1
		took += int64(h.size)
		if h.effect.Pending() {
			f.notes--
		}
		f.drop()
	}
	f.bytes -= took
	return out, took
}

// at is the record at an offset of the log; nil when the list has none.
func (f *fifo) at(offset int64) *held {
	if f.n == 0 {
		return nil
	}
	b, _ := slices.BinarySearchFunc(f.blocks, offset, func(b block, offset int64) int { return cmp.Compare(b.end(), offset) })
	if b == len(f.blocks) || !f.bring(b) {
		return nil
	}
	in := f.blocks[b].held
	if b == 0 {
		in = in[f.first:]
	}
	i, found := slices.BinarySearchFunc(in, offset, func(h held, offset int64) int { return cmp.Compare(h.offset, offset) })
	if !found {
		return nil
	}
	return &in[i]
}

// drop forgets the first record.
func (f *fifo) drop() {
	f.n--
	if f.first++; f.first < len(f.blocks[0].held) {
		return
	}
	if f.first = 0; f.n == 0 {
		f.blocks[0].held, f.blocks[0].bytes = f.blocks[0].held[:0], 0 // it is used again
		return
	}
	f.blocks[0] = block{}
	f.blocks = f.blocks[1:]
}

// due is how many of them are due.
func (f *fifo) due(now int64) (n int64) {
	for h := range f.all() {
		if h.due() <= now && !h.effect.Pending() {
			n++
		}
	}
	for i := range f.blocks {
		if a := f.blocks[i].aside; a != nil && a.head.due() <= now {
			n += int64(a.n)
		}
	}
	return n
}
