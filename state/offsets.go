package state

import (
	"fmt"
	"math/bits"
)

const (
	// stretchBits: a stretch of log is 1024 offsets.
	stretchBits = 10
	stretchSize = 1 << stretchBits
	// pageBits: a page has 256 stretches, that is a quarter of a million offsets in 2 KB.
	pageBits = 8
	pageSize = 1 << pageBits
	// few offsets of a stretch fit into one word, at 10 bits each. More are kept as a bit for each offset of the stretch,
	// until half as many are left: one that comes and goes does not turn the one into the other all the time.
	few = 6
	// dense stands where the count of a word is: the offsets are in a bitmap.
	dense = 15
)

// offsets is a set of offsets in a log, which knows the smallest. A page without any is not there, so the stretches that
// hold nothing cost 8 bytes for 256 of them; one that holds up to six offsets costs 8 bytes, any other 144 more.
type offsets struct {
	first int64   // number of pages[0]
	pages []*page // by page number from first on; nil where there is nothing
	low   int64   // no stretch below this one holds any. Moves up as stretches empty, and down when one is added below
	count int

	// One empty page and one bitmap, so that what comes and goes does not allocate.
	sparePage *page
	spareBits *bitmap
}

type page struct {
	used  int // how many stretches hold any; the page is dropped when none is left
	words [pageSize]word
	dense []*bitmap // by stretch, where the word says so; nil until there is one
}

// word is what a stretch holds: its highest 4 bits are how many offsets there are, and then each has 10 bits, in no order.
type word uint64

const countShift = 60

func (w word) len() int { return int(w >> countShift) }

func (w word) at(i int) int { return int(w>>(i*stretchBits)) & (stretchSize - 1) }

func (w word) with(o int) word { return w + 1<<countShift | word(o)<<(w.len()*stretchBits) }

// without puts the last offset in the place of number i.
func (w word) without(i int) word {
	last := w.len() - 1
	o := word(w.at(last))
	w &^= word(stretchSize-1) << (last * stretchBits)
	if i < last {
		w = w&^(word(stretchSize-1)<<(i*stretchBits)) | o<<(i*stretchBits)
	}
	return w - 1<<countShift
}

func (w word) find(o int) int {
	for i := range w.len() {
		if w.at(i) == o {
			return i
		}
	}
	return -1
}

// bitmap has a bit for each offset of a stretch.
type bitmap struct {
	n     int
	words [stretchSize / 64]uint64
}

func (b *bitmap) has(o int) bool { return b.words[o/64]&(1<<(o%64)) != 0 }

func (b *bitmap) flip(o int) { b.words[o/64] ^= 1 << (o % 64) }

// smallest is the first offset at or after another one.
func (b *bitmap) smallest(from int) int {
	x := b.words[from/64] >> (from % 64) << (from % 64)
	for i := from / 64; ; x = b.words[i] {
		if x != 0 {
			return i*64 + bits.TrailingZeros64(x)
		}
		i++
	}
}

func newOffsets(low int64) offsets {
	s := low >> stretchBits
	return offsets{first: s >> pageBits, low: s}
}

func (t *offsets) add(offset int64) {
	s, o := offset>>stretchBits, int(offset&(stretchSize-1))
	p, i := t.at(s)
	switch w := p.words[i]; {
	case w.len() == dense:
		b := p.dense[i]
		if b.has(o) {
			panic(fmt.Sprintf("state: BUG: offset %d was counted already", offset))
		}
		b.flip(o)
		b.n++
	case w.find(o) >= 0:
		panic(fmt.Sprintf("state: BUG: offset %d was counted already", offset))
	case w.len() == few:
		t.spread(p, i, o)
	default:
		if w == 0 {
			p.used++
		}
		p.words[i] = w.with(o)
	}
	t.count++
	t.low = min(t.low, s)
}

// spread makes a bitmap of a full word and one more offset.
func (t *offsets) spread(p *page, i, o int) {
	b := t.spareBits
	if t.spareBits = nil; b == nil {
		b = new(bitmap)
	}
	for k := range few {
		b.flip(p.words[i].at(k))
	}
	b.flip(o)
	b.n = few + 1
	if p.dense == nil {
		p.dense = make([]*bitmap, pageSize)
	}
	p.dense[i], p.words[i] = b, dense<<countShift
}

func (t *offsets) remove(offset int64) {
	s, o := offset>>stretchBits, int(offset&(stretchSize-1))
	number, i := s>>pageBits-t.first, int(s&(pageSize-1))
	if number < 0 || number >= int64(len(t.pages)) || t.pages[number] == nil || !t.pages[number].take(i, o) {
		panic(fmt.Sprintf("state: BUG: offset %d was not counted", offset))
	}
	t.count--
	p := t.pages[number]
	if b := p.bitmap(i); b != nil && b.n <= few/2 {
		t.gather(p, i)
	}
	if p.words[i] != 0 {
		return
	}
	if p.used--; p.used == 0 {
		t.pages[number], t.sparePage = nil, p
		t.trim()
	}
}

func (t *offsets) has(offset int64) bool {
	s, o := offset>>stretchBits, int(offset&(stretchSize-1))
	number, i := s>>pageBits-t.first, int(s&(pageSize-1))
	if number < 0 || number >= int64(len(t.pages)) || t.pages[number] == nil {
		return false
	}
	p := t.pages[number]
	if b := p.bitmap(i); b != nil {
		return b.has(o)
	}
	return p.words[i].find(o) >= 0
}

func (p *page) bitmap(i int) *bitmap {
	if p.words[i].len() < dense {
		return nil
	}
	return p.dense[i]
}

// take removes an offset of a stretch, if it is there.
func (p *page) take(i, o int) bool {
	if b := p.bitmap(i); b != nil {
		if !b.has(o) {
			return false
		}
		b.flip(o)
		b.n--
		return true
	}
	k := p.words[i].find(o)
	if k < 0 {
		return false
	}
	p.words[i] = p.words[i].without(k)
	return true
}

// gather makes a word of a bitmap that holds few.
func (t *offsets) gather(p *page, i int) {
	b := p.dense[i]
	var w word
	for o := 0; w.len() < b.n; o++ {
		o = b.smallest(o)
		w = w.with(o)
	}
	*b = bitmap{}
	p.words[i], p.dense[i], t.spareBits = w, nil, b
}

// at gives the page and index of a stretch, and makes the page when there is none.
func (t *offsets) at(s int64) (*page, int) {
	i := s>>pageBits - t.first
	if i < 0 || i >= int64(len(t.pages)) {
		t.grow(s >> pageBits)
		i = s>>pageBits - t.first
	}
	p := t.pages[i]
	if p == nil {
		if p = t.sparePage; p == nil {
			p = new(page)
		}
		t.sparePage = nil
		t.pages[i] = p
	}
	return p, int(s & (pageSize - 1))
}

// grow makes the directory reach a page.
func (t *offsets) grow(number int64) {
	switch {
	case len(t.pages) == 0:
		t.first = number
		t.pages = append(t.pages, nil)
	case number < t.first: // offsets come in rising order but for a few at the start, so this is rare
		t.pages = append(make([]*page, t.first-number), t.pages...)
		t.first = number
	default:
		t.pages = append(t.pages, make([]*page, number-t.first-int64(len(t.pages))+1)...)
	}
}

// trim drops the empty ends of the directory.
func (t *offsets) trim() {
	n := 0
	for n < len(t.pages) && t.pages[n] == nil {
		n++
	}
	t.pages, t.first = t.pages[n:], t.first+int64(n)
	for len(t.pages) > 0 && t.pages[len(t.pages)-1] == nil {
		t.pages = t.pages[:len(t.pages)-1]
	}
	if len(t.pages) == 0 {
		t.pages = nil
	}
}

// smallest is the smallest offset; false when there is none. Each stretch is passed once while offsets are added above it,
// so the cost is O(1) for each offset.
func (t *offsets) smallest() (int64, bool) {
	if t.count == 0 {
		return 0, false
	}
	s := max(t.low, t.first<<pageBits)
	for {
		p := t.pages[s>>pageBits-t.first]
		if p == nil {
			s = (s>>pageBits + 1) << pageBits
			continue
		}
		i := int(s & (pageSize - 1))
		if p.words[i] != 0 {
			t.low = s
			return s<<stretchBits + int64(p.smallest(i)), true
		}
		s++
	}
}

func (p *page) smallest(i int) int {
	if b := p.bitmap(i); b != nil {
		return b.smallest(0)
	}
	w := p.words[i]
	o := w.at(0)
	for k := 1; k < w.len(); k++ {
		o = min(o, w.at(k))
	}
	return o
}

// each calls fn for each offset, in rising order of pages and stretches; those of a stretch come in no order.
func (t *offsets) each(fn func(offset int64)) {
	for n, p := range t.pages {
		if p == nil {
			continue
		}
		for i, w := range p.words {
			start := ((t.first+int64(n))<<pageBits + int64(i)) << stretchBits
			if b := p.bitmap(i); b != nil {
				for k, w := range b.words {
					for ; w != 0; w &= w - 1 {
						fn(start + int64(k*64+bits.TrailingZeros64(w)))
					}
				}
				continue
			}
			for k := range w.len() {
				fn(start + int64(w.at(k)))
			}
		}
	}
}

// below is how many there are below an offset.
func (t *offsets) below(offset int64) (n int) {
	for i, p := range t.pages {
		if p == nil {
			continue
		}
		for k := range p.words {
			if start := ((t.first+int64(i))<<pageBits + int64(k)) << stretchBits; start < offset {
				n += p.below(k, int(min(offset-start, stretchSize)))
			}
		}
	}
	return n
}

// below is how many offsets of a stretch there are below one.
func (p *page) below(i, end int) (n int) {
	if b := p.bitmap(i); b != nil {
		for k := range b.words[:end/64] {
			n += bits.OnesCount64(b.words[k])
		}
		if rest := end % 64; rest > 0 {
			n += bits.OnesCount64(b.words[end/64] << (64 - rest))
		}
		return n
	}
	w := p.words[i]
	for k := range w.len() {
		if w.at(k) < end {
			n++
		}
	}
	return n
}

func (t *offsets) clone() offsets {
	c := offsets{first: t.first, low: t.low, count: t.count, pages: make([]*page, len(t.pages))}
	for n, p := range t.pages {
		if p == nil {
			continue
		}
		to := &page{used: p.used, words: p.words}
		if p.dense != nil {
			to.dense = make([]*bitmap, pageSize)
			for i, b := range p.dense {
				if b != nil {
					to.dense[i] = &bitmap{n: b.n, words: b.words}
				}
			}
		}
		c.pages[n] = to
	}
	return c
}

// put takes in a page that was read. Pages come in rising order.
func (t *offsets) put(number int64, p *page, count int) {
	t.grow(number)
	t.pages[number-t.first] = p
	if t.count == 0 {
		t.low = number << pageBits
	}
	t.count += count
}
