package pending

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/duewheel/duewheel/processor/pending/internal/chunks"
	"github.com/duewheel/duewheel/state"
	"github.com/duewheel/duewheel/wheel"
)

// near holds the bytes of records that are due soon, in chunks. The records of a chunk are due
// within the same stretch of time, so that a chunk is given back whole once that stretch has
// been delivered: nothing is moved and nothing is collected one record at a time. The chunks
// hold no pointers, so the garbage collector does not look into them; and the next ones take the memory of those that are given back,
// whichever partition needs it, so it seldom has to run.
//
// A ref names a record: its chunk and where in it; and says where it goes, if that is known. near belongs to its partition.
type near struct {
	chunks []chunk
	free   []uint32         // indices of chunks that hold nothing
	open   map[int64]uint32 // by stretch of due time: the chunk that takes what comes
	last   uint32           // which took what came last: due times come in runs
	bytes  int64            // allocated

	// The most bytes of one record since it held none. Invariant: nothing in it is larger.
	largest int64

	touched byte // keeps what touch reads from being left out
}

type chunk struct {
	buf     []byte // len is what is used
	live    int    // records in it that are still needed
	stretch int64
	isOpen  bool
	lent    bool // a client may be looking at it still when nothing in it is needed any more
}

// ref is a chunk's index, the record's place in it, whether the store holds it too, and the number of its target (numbers.go).
type ref uint64

const (
	offBits           = 18
	maxChunk          = 1 << offBits
	minChunk          = chunks.Least
	storedBit     ref = 1 << 63
	numberAt          = 50   // and the bits above, up to storedBit: 13 of them
	stretchMillis     = 2048 // the width of a stretch: a few dozen of them in a near window
	lengthPrefix      = 4
	initialOpen       = 16
)

func (r ref) stored() bool { return r&storedBit != 0 }
func (r ref) chunk() uint32 {
	return uint32(r >> offBits)
}

// number is the number of its target; 0: it is not known.
func (r ref) number() number { return number(r>>numberAt) % mostNumbers }

// to says of a ref what the number of its target is.
func (r ref) to(n number) ref { return r | ref(n)<<numberAt }

func (r ref) offset() int { return int(r & (maxChunk - 1)) }

func newNear() *near { return &near{open: make(map[int64]uint32, initialOpen)} }

// alloc makes room for a record of at most size bytes that is due at dueMillis. The caller
// appends to the slice, which never moves, and hands the result to commit.
func (n *near) alloc(dueMillis int64, size int) (uint32, []byte) {
	stretch := dueMillis / stretchMillis
	need := size + lengthPrefix
	i, ok := n.last, false
	if int(i) < len(n.chunks) {
		ok = n.chunks[i].isOpen && n.chunks[i].stretch == stretch
	}
	if !ok {
		i, ok = n.open[stretch]
	}
	// A ref can name the first maxChunk bytes of a chunk; only a single large record goes beyond.
	if !ok || len(n.chunks[i].buf) >= maxChunk || cap(n.chunks[i].buf)-len(n.chunks[i].buf) < need {
		want := minChunk
		if ok {
			want = min(2*cap(n.chunks[i].buf), maxChunk)
			n.close(i)
		}
		i = n.newChunk(stretch, max(want, need))
	}
	n.last = i
	c := &n.chunks[i]
	at := len(c.buf)
	return i, c.buf[at : at+lengthPrefix : cap(c.buf)]
}

// commit keeps what the caller of alloc has appended.
func (n *near) commit(i uint32, run []byte, stored bool) ref {
	c := &n.chunks[i]
	at := len(c.buf)
	if len(run) > cap(c.buf)-at {
		panic(fmt.Sprintf("pending: BUG: a record of %d bytes in room for %d", len(run), cap(c.buf)-at))
	}
	binary.LittleEndian.PutUint32(run, uint32(len(run)-lengthPrefix))
	n.largest = max(n.largest, int64(len(run)))
	c.buf = c.buf[:at+len(run)]
	c.live++
	r := ref(i)<<offBits | ref(at)
	if stored {
		r |= storedBit
	}
	return r
}

// put copies a run.
func (n *near) put(dueMillis int64, run []byte, stored bool) ref {
	i, b := n.alloc(dueMillis, len(run))
	return n.commit(i, append(b, run...), stored)
}

// record copies a record out of the fetch that it came with.
func (n *near) record(r *kgo.Record, key state.Key, at idPlace) ref {
	i, b := n.alloc(key.Due, recordSizeBound(r))
	return n.commit(i, appendRecord(b, r, at), false)
}

// lend says that the bytes of records may be looked at when they are released: what they lie in is left to the collector then.
func (n *near) lend(items []Item) {
	for i := range items {
		if it := &items[i]; it.Run != nil {
			n.chunks[it.ref.chunk()].lent = true
		}
	}
}

// hold keeps the bytes of a record that is resolved in the order of the log.
func (n *near) hold(r *kgo.Record, h *held, at idPlace) {
	key := h.key
	if h.effect == EffectNone { // else it may become pending
		key = state.Key{} // among what is in the order of the log
	}
	h.offset, h.ref = r.Offset, n.record(r, key, at)
	h.size = int32(len(n.get(h.ref)))
}

// get returns the run of a record. It stays valid until the record is released.
func (n *near) get(r ref) []byte {
	b := n.chunks[r.chunk()].buf[r.offset():]
	size := binary.LittleEndian.Uint32(b)
	return b[lengthPrefix : lengthPrefix+size : lengthPrefix+size]
}

// touch is called before the ith record is looked at. Every so many it reads the beginning of each of the next ones. Records that are due in no
// order lie anywhere, and the processor fetches them side by side here, where nothing depends on what they hold; not too many, or the first are out
// of its cache again when they are looked at.
func (n *near) touch(i int, entries []wheel.Entry) {
	if i%touchAhead != 0 {
		return
	}
	for _, e := range entries[i:min(i+touchAhead, len(entries))] {
		r := ref(e.Ref)
		n.touched |= n.chunks[r.chunk()].buf[r.offset()]
	}
}

// fetch is touch for records that are decoded: it reads all of them.
func (n *near) fetch(i int, entries []wheel.Entry) {
	if n.touch(i, entries); i%touchAhead != 0 {
		return
	}
	for _, e := range entries[i:min(i+touchAhead, len(entries))] {
		n.touched |= touchLines(n.get(ref(e.Ref)))
	}
}

// touchLines reads something of each line of memory that a run lies in.
func touchLines(run []byte) (read byte) {
	for at := 0; at < len(run); at += cacheLine {
		read |= run[at]
	}
	return read
}

const (
	touchAhead = 32 // records
	cacheLine  = 64 // bytes
)

// release says that a record is not needed any more.
func (n *near) release(r ref) {
	i := r.chunk()
	c := &n.chunks[i]
	if overwrites && !c.lent {
		for run, k := n.get(r), 0; k < len(run); k++ {
			run[k] = 0xaa
		}
	}
	if c.live--; c.live > 0 {
		return
	}
	if c.live < 0 {
		panic("pending: BUG: a record is released twice")
	}
	if c.isOpen {
		n.close(i)
	}
	if n.bytes -= int64(cap(c.buf)); n.bytes == 0 {
		n.largest = 0
	}
	if !c.lent {
		chunks.Put(c.buf)
	}
	*c = chunk{}
	n.free = append(n.free, i)
}

func (n *near) newChunk(stretch int64, size int) uint32 {
	c := chunk{buf: chunks.Get(size), stretch: stretch, isOpen: true}
	n.bytes += int64(cap(c.buf))
	var i uint32
	if k := len(n.free); k > 0 {
		i = n.free[k-1]
		n.free = n.free[:k-1]
		n.chunks[i] = c
	} else {
		i = uint32(len(n.chunks))
		n.chunks = append(n.chunks, c)
	}
	n.open[stretch] = i
	return i
}

func (n *near) close(i uint32) {
	c := &n.chunks[i]
	c.isOpen = false
	if n.open[c.stretch] == i {
		delete(n.open, c.stretch)
	}
}

// endOfStretch is where the stretch ends that a due time lies in.
func endOfStretch(dueMillis int64) int64 { return (dueMillis/stretchMillis + 1) * stretchMillis }

// lastStretches is the due time from which on the records take about so many bytes, of those that are due until some time: the beginning of a
// stretch, at least of the last one that has any. It is [math.MinInt64] where there are none.
func (n *near) lastStretches(bytes, until int64) int64 {
	held := map[int64]int64{}
	last := int64(math.MinInt64)
	for i := range n.chunks {
		if c := &n.chunks[i]; cap(c.buf) > 0 && c.stretch*stretchMillis <= until {
			held[c.stretch] += int64(cap(c.buf))
			last = max(last, c.stretch)
		}
	}
	if len(held) == 0 {
		return last
	}
	for _, s := range slices.Backward(slices.Sorted(maps.Keys(held))) {
		if bytes -= held[s]; bytes < 0 {
			break
		}
		last = s
	}
	return last * stretchMillis
}

// stretchAt is the due time from which on the records are more than some bytes, counted from those
// that are due first: the beginning of a stretch.
func (n *near) stretchAt(bytes int64) int64 {
	order := make([]*chunk, 0, len(n.chunks))
	for i := range n.chunks {
		if c := &n.chunks[i]; cap(c.buf) > 0 {
			order = append(order, c)
		}
	}
	slices.SortFunc(order, func(a, b *chunk) int { return cmp.Compare(a.stretch, b.stretch) })
	for _, c := range order {
		if bytes -= int64(cap(c.buf)); bytes < 0 {
			return c.stretch * stretchMillis
		}
	}
	return math.MaxInt64
}
